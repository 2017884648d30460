"""The text of attributes and annotations, as XLA prints them behind the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import lowtide.ir.attributes as ir
from lowtide.ir.annotations import Annotations, ResultAccuracy
from lowtide.ir.attribute_fields import AttributeField, Form, Shown, attribute_fields
from lowtide.ir.literal import Literal
from lowtide.ir.opcode import Opcode
from lowtide.ir.strings import dictionary_end, quote
from lowtide.records.late import LateTable

if TYPE_CHECKING:
    from lowtide.ir.instruction import Instruction

Text = list[str]
Show = Callable[[Any, "Instruction"], str]
"""(record, instruction) -> `name=value`, several of them joined, or nothing."""
Spell = Callable[[Any], str]
"""value -> its text."""


def attribute_text(instruction: Instruction) -> Text:
    """Return the attributes of an instruction, called computations and annotations left out."""
    record = instruction.attributes
    shows = _SHOWN[type(record)]
    if not shows:
        return []
    return [text for show in shows if (text := show(record, instruction))]


def _shows(record: type) -> tuple[Show, ...]:
    if record in _RECORDS:
        return (_RECORDS[record],)
    shown = [x for x in attribute_fields(record) if x.text and x.shown is not Shown.NEVER]
    return tuple([_SHOWS.get(x.form) or _show_value(x) for x in shown])


_SHOWN: Final = LateTable(_shows)


def _show_value(field: AttributeField) -> Show:
    """Return the function that shows a field by its value alone."""
    value_of, spell, default = attrgetter(field.name), _SPELLINGS[field.form], field.default
    prefix = f"{field.text}="
    if field.required or field.shown is Shown.ALWAYS:
        return lambda record, instruction: prefix + spell(value_of(record))

    def show(record: Any, instruction: Instruction) -> str:
        value = value_of(record)
        return "" if value == default else prefix + spell(value)

    return show


def _braces(values: Sequence[Any]) -> str:
    """Return `{1,2}`."""
    return "{" + ",".join([str(x) for x in values]) + "}"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _padding(dimensions: Sequence[ir.PaddingDimension]) -> str:
    """Return `lo_hi_interiorx...`; interior padding is shown for all dimensions or for none."""
    interior = any(d.interior for d in dimensions)
    parts = [f"{d.low}_{d.high}{f'_{d.interior}' if interior else ''}" for d in dimensions]
    return "x".join(parts)


def _dim_labels(d: ir.ConvolutionDimensions) -> str:
    """Return `b01f_01io->b01f`."""
    lhs = _labels({d.input_batch: "b", d.input_feature: "f"}, d.input_spatial)
    rhs = _labels({d.kernel_input_feature: "i", d.kernel_output_feature: "o"}, d.kernel_spatial)
    out = _labels({d.output_batch: "b", d.output_feature: "f"}, d.output_spatial)
    return f"{lhs}_{rhs}->{out}"


def _labels(named: dict[int, str], spatial: Sequence[int]) -> str:
    named |= {position: str(i) for i, position in enumerate(spatial)}
    last = max([*named, len(spatial) + 1])
    return "".join([named.get(position, "?") for position in range(last + 1)])


def _aliasing(entries: Sequence[ir.Aliasing]) -> str:
    parts = [
        f"{_braces(e.output_index)}: ({e.operand}, {_braces(e.operand_index)})" for e in entries
    ]
    return f"{{{', '.join(parts)}}}"


def _shaped_literal(literal: Literal) -> str:
    """Return a literal with its shape; in a tuple each element has its own."""
    if literal.shape.is_tuple:
        parts = [_shaped_literal(element) for element in literal.elements]
        return f"( {', '.join(parts)} )"
    return f"{literal.shape} {literal.text(large=True)}"


def _groups(groups: Sequence[Sequence[int]]) -> str:
    """Return `{{1,2},{3,4}}`."""
    return _braces([_braces(group) for group in groups])


_SPELLINGS: Final[dict[Form, Spell]] = {
    **dict.fromkeys((Form.BOOLEAN, Form.TRI_STATE), _boolean),
    **dict.fromkeys(
        (Form.INTEGER, Form.NATURAL, Form.COUNT, Form.CARRIES, Form.CHANNEL, Form.ELEMENT), str
    ),
    **dict.fromkeys((Form.WORD, Form.DIRECTION, Form.PADDING_TYPE, Form.SPARSITY), str),
    **dict.fromkeys((Form.GROUPS, Form.SHAPE), str),
    **dict.fromkeys((Form.INTEGERS, Form.DIMENSIONS), _braces),
    **dict.fromkeys((Form.PAIRS, Form.INTEGER_GROUPS), _groups),
    Form.ALIASING: _aliasing,
    Form.BYTES: lambda value: quote(value.decode("utf-8", "surrogateescape")),
    Form.CONVOLUTION_DIMENSIONS: _dim_labels,
    Form.DIMENSION: lambda value: f"{{{value}}}",
    Form.LAYOUTS: lambda shapes: f"{{{', '.join(map(str, shapes))}}}",
    Form.LITERAL: _shaped_literal,
    Form.PADDING: _padding,
    Form.SINGLE: lambda value: f"{value:g}",
    Form.STRING: quote,
}


# -- what takes more than the value of one field ------------------------------------------------


def _precision(record: ir.Dot, instruction: Instruction) -> str:
    """Return the attributes for a precision that is not the default."""
    precision = record.precision
    texts = []
    if precision.operand_precision:
        texts.append(f"operand_precision={_braces([p.value for p in precision.operand_precision])}")
    if precision.algorithm is not ir.DotAlgorithm.UNSET:
        texts.append(f"algorithm={precision.algorithm.value}")
    return ", ".join(texts)


def _dot_dimensions(record: ir.Dot, instruction: Instruction) -> str:
    d = record.dimensions
    texts = [
        f"lhs_batch_dims={_braces(d.lhs_batch)}" if d.lhs_batch else "",
        f"lhs_contracting_dims={_braces(d.lhs_contracting)}",
        f"rhs_batch_dims={_braces(d.rhs_batch)}" if d.rhs_batch else "",
        f"rhs_contracting_dims={_braces(d.rhs_contracting)}",
    ]
    return ", ".join([text for text in texts if text])


def _window(record: ir.Convolution | ir.CustomCall, instruction: Instruction) -> str:
    """Return the window if it has dimensions; parts with only default values are left out."""
    if record.window is None or not record.window.dimensions:
        return ""
    dimensions = record.window.dimensions
    parts = [f"size={'x'.join([str(d.size) for d in dimensions])}"]
    columns: list[tuple[str, list[Any], Any]] = [
        ("stride", [d.stride for d in dimensions], 1),
        ("pad", [f"{d.padding_low}_{d.padding_high}" for d in dimensions], "0_0"),
        ("lhs_dilate", [d.base_dilation for d in dimensions], 1),
        ("rhs_dilate", [d.window_dilation for d in dimensions], 1),
        ("rhs_reversal", [int(d.reversal) for d in dimensions], 0),
    ]
    for key, values, default in columns:
        if any(value != default for value in values):
            parts.append(f"{key}={'x'.join(map(str, values))}")
    return f"window={{{' '.join(parts)}}}"


def _comparison_type(record: ir.Compare, instruction: Instruction) -> str:
    default = ir.default_comparison(instruction.operands[0].shape.element_type)
    return "" if record.type == default else f"type={record.type}"


def _thread(record: ir.Async, instruction: Instruction) -> str:
    if instruction.opcode is not Opcode.ASYNC_START or record.execution_thread == ir.MAIN_THREAD:
        return ""
    return f"async_execution_thread={quote(record.execution_thread)}"


def _collective_dimension(record: ir.Collective, instruction: Instruction) -> str:
    if record.dimension is None or instruction.opcode is Opcode.REDUCE_SCATTER:
        return ""
    return f"dimensions={{{record.dimension}}}"


def _global_ids(record: ir.Collective, instruction: Instruction) -> str:
    """Return the flag, and the dimension of a reduce-scatter, which stands behind it."""
    texts = ["use_global_device_ids=true"] if record.use_global_device_ids else []
    if record.dimension is not None and instruction.opcode is Opcode.REDUCE_SCATTER:
        texts.append(f"dimensions={{{record.dimension}}}")
    return ", ".join(texts)


_SHOWS: Final[dict[Form, Show]] = {
    Form.COLLECTIVE_DIMENSION: _collective_dimension,
    Form.COMPARISON_TYPE: _comparison_type,
    Form.DOT_DIMENSIONS: _dot_dimensions,
    Form.GLOBAL_IDS: _global_ids,
    Form.PRECISION: _precision,
    Form.THREAD: _thread,
    Form.WINDOW: _window,
}


def _slice(record: ir.Slice, instruction: Instruction) -> str:
    parts = []
    strided = any(s != 1 for s in record.strides)
    for start, limit, stride in zip(record.starts, record.limits, record.strides, strict=True):
        parts.append(f"[{start}:{limit}{f':{stride}' if strided else ''}]")
    return f"slice={{{', '.join(parts)}}}"


def _domain(record: ir.Domain, instruction: Instruction) -> str:
    return f'domain={{kind="{record.kind}", entry={record.entry}, exit={record.exit}}}'


_RECORDS: Final[dict[type, Show]] = {ir.Slice: _slice, ir.Domain: _domain}
"""The records that are one attribute."""


# -- annotations -------------------------------------------------------------------------------


def frontend_attributes_text(attributes: Sequence[tuple[str, str]]) -> str:
    """Return `{key="value",other={"json":1}}`."""
    parts = [f"{key}={json_or_string(text)}" for key, text in attributes]
    return "{" + ",".join(parts) + "}"


def json_or_string(text: str) -> str:
    """Return a dictionary in braces as it is, any other text in quotes."""
    is_dictionary = text.startswith("{") and dictionary_end(text) == len(text)
    return text if is_dictionary else quote(text)


def accuracy_text(accuracy: ResultAccuracy) -> str:
    """Return `{mode=highest}` or `{tolerance={...}}`."""
    if accuracy.mode:
        return f"{{mode={accuracy.mode}}}"
    numbers = f"atol={accuracy.atol:g},rtol={accuracy.rtol:g},ulps={accuracy.ulps}"
    return f"{{tolerance={{{numbers}}}}}"


def annotation_text(annotations: Annotations) -> tuple[Text, Text]:
    """Return what stands before and what stands behind the control predecessors."""
    before, behind = [], []
    if annotations.parameter_replication:
        flags = _braces([_boolean(x) for x in annotations.parameter_replication])
        before.append(f"parameter_replication={flags}")
    if annotations.sharding is not None:
        before.append(f"sharding={annotations.sharding}")
    if annotations.frontend_attributes:
        before.append(
            f"frontend_attributes={frontend_attributes_text(annotations.frontend_attributes)}"
        )
    if annotations.statistics is not None:
        values = "".join([f",{key}={x:g}" for key, x in annotations.statistics.values])
        index = annotations.statistics.visualizing_index
        behind.append(f"statistics={{visualizing_index={index}{values}}}")
    if annotations.result_accuracy is not None:
        behind.append(f"result_accuracy={accuracy_text(annotations.result_accuracy)}")
    if annotations.origin:
        behind.append(f"origin={{{annotations.origin}}}")
    return before, behind


def backend_config_text(config: str) -> str:
    """Return the value of backend_config: raw JSON, or a quoted string."""
    return json_or_string(config)
