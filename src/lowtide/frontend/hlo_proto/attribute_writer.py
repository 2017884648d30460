"""The attributes of each opcode, written to the fields of a HloInstructionProto.

A field of a record is written as the schema says; forms with a rule of their own have a function in
the table of this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto import enums
from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.groups import write_groups
from lowtide.frontend.hlo_proto.literals import write_literal
from lowtide.frontend.hlo_proto.messages import field_at
from lowtide.frontend.hlo_proto.shapes import ShapeWriter
from lowtide.frontend.hlo_proto.shardings import write_sharding
from lowtide.frontend.hlo_proto.sources import PayloadWriter, write_scalar
from lowtide.ir.attribute_fields import AttributeField, Form, attribute_fields
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Literal
from lowtide.ir.opcode import Opcode
from lowtide.ir.replica_groups import ReplicaGroups
from lowtide.ir.shape import Shape
from lowtide.records import dataclass
from lowtide.records.late import LateTable


@dataclass(frozen=True, slots=True)
class InstructionTarget:
    """What attributes are written to, for which instruction."""

    proto: Any
    instruction: Instruction
    shapes: ShapeWriter
    payloads: PayloadWriter


Write = Callable[[Any, InstructionTarget], None]
"""(record, or value of a field that is not None, target) -> None."""


def write_attributes(target: InstructionTarget) -> None:
    """Write the attributes of an instruction; raises FieldError where protobuf cannot hold them."""
    attributes = target.instruction.attributes
    _WRITERS[type(attributes)](attributes, target)


def _writer(record: type) -> Write:
    if record in _RECORDS:
        return _RECORDS[record]
    hows = [how for how in attribute_fields(record) if how.form is not Form.PREDICATED]
    writers = [_field_writer(how) for how in hows]
    if len(writers) == 1:
        return writers[0]

    def write(attributes: ir.Attributes, target: InstructionTarget) -> None:
        for write_field in writers:
            write_field(attributes, target)

    return write


_WRITERS: Final = LateTable(_writer)


def _field_writer(how: AttributeField) -> Write:
    """Return the function that writes a field of its first argument, a record."""
    if how.form in _FORMS:
        return _form_writer(how)
    value_of, default = attrgetter(how.name), how.default
    parent, _, name = how.proto.rpartition(".")
    message_of = attrgetter(f"proto.{parent}" if parent else "proto")
    numbers = _inverse(enums.NUMBERED.get(how.proto, {}))

    def write_list(record: ir.Attributes, target: InstructionTarget) -> None:
        value = value_of(record)
        if value != default:
            values = value if isinstance(value, tuple) else (value,)
            getattr(message_of(target), name).extend(values)

    def write(record: ir.Attributes, target: InstructionTarget) -> None:
        value = value_of(record)
        if value or parent or value != default:
            write_scalar(message_of(target), name, numbers[value] if numbers else value)

    return write_list if field_at(how.proto).mark == "*" else write


def _form_writer(how: AttributeField) -> Write:
    value_of, write_form = attrgetter(how.name), _FORMS[how.form]

    def write(record: ir.Attributes, target: InstructionTarget) -> None:
        value = value_of(record)
        if value is not None:
            write_form(value, target)

    return write


def _inverse(table: Mapping[int, Any]) -> dict[Any, int]:
    return {value: number for number, value in table.items()}


# -- forms with a rule of their own --------------------------------------------------------------

_PRECISIONS: Final = _inverse(enums.PRECISIONS)
_ALGORITHMS: Final = _inverse(enums.ALGORITHMS)
_PADDING_TYPES: Final = _inverse(enums.NUMBERED["padding_type"]) | {"PADDING_INVALID": 0}


def _aliasing(aliases: tuple[ir.Aliasing, ...], target: InstructionTarget) -> None:
    """Write the aliasing, but not that of an async-update or -done."""
    if target.instruction.opcode in (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE):
        return
    for alias in aliases:
        target.proto.output_operand_aliasing.add(
            output_shape_index=alias.output_index,
            operand_index=alias.operand,
            operand_shape_index=alias.operand_index,
        )


def _convolution_dimensions(
    dimensions: ir.ConvolutionDimensions, target: InstructionTarget
) -> None:
    numbers = target.proto.convolution_dimension_numbers
    numbers.SetInParent()
    numbers.input_batch_dimension = dimensions.input_batch
    numbers.input_feature_dimension = dimensions.input_feature
    numbers.input_spatial_dimensions.extend(dimensions.input_spatial)
    numbers.kernel_input_feature_dimension = dimensions.kernel_input_feature
    numbers.kernel_output_feature_dimension = dimensions.kernel_output_feature
    numbers.kernel_spatial_dimensions.extend(dimensions.kernel_spatial)
    numbers.output_batch_dimension = dimensions.output_batch
    numbers.output_feature_dimension = dimensions.output_feature
    numbers.output_spatial_dimensions.extend(dimensions.output_spatial)


def _dot_dimensions(dimensions: ir.DotDimensions, target: InstructionTarget) -> None:
    numbers = target.proto.dot_dimension_numbers
    if target.instruction.opcode is Opcode.RAGGED_DOT:
        numbers = target.proto.ragged_dot_dimension_numbers.dot_dimension_numbers
    numbers.SetInParent()
    numbers.lhs_contracting_dimensions.extend(dimensions.lhs_contracting)
    numbers.rhs_contracting_dimensions.extend(dimensions.rhs_contracting)
    numbers.lhs_batch_dimensions.extend(dimensions.lhs_batch)
    numbers.rhs_batch_dimensions.extend(dimensions.rhs_batch)


def _groups(groups: ReplicaGroups, target: InstructionTarget) -> None:
    write_groups(groups, target.proto)


def _layouts(shapes: tuple[Shape, ...], target: InstructionTarget) -> None:
    target.proto.constrain_layout = True
    for shape in shapes:
        target.shapes.write(shape, target.proto.operand_shapes_with_layout.add())


def _literal(literal: Literal, target: InstructionTarget) -> None:
    write_literal(literal, target.proto.literal, target.shapes)


def _padding(dimensions: tuple[ir.PaddingDimension, ...], target: InstructionTarget) -> None:
    config = target.proto.padding_config
    config.SetInParent()
    for x in dimensions:
        config.dimensions.add(
            edge_padding_low=x.low, edge_padding_high=x.high, interior_padding=x.interior
        )


def _padding_type(word: str, target: InstructionTarget) -> None:
    target.proto.padding_type = _PADDING_TYPES[word]


def _pairs(pairs: tuple[tuple[int, int], ...], target: InstructionTarget) -> None:
    for source, destination in pairs:
        target.proto.source_target_pairs.add(source=source, target=destination)


_WITH_TWO_PRECISIONS: Final = frozenset({Opcode.DOT, Opcode.SCALED_DOT, Opcode.RAGGED_DOT})


def _precision(precision: ir.PrecisionConfig, target: InstructionTarget) -> None:
    """Write the precision, with an entry for each operand even where all are the default."""
    config = target.proto.precision_config
    config.SetInParent()
    instruction = target.instruction
    two = instruction.opcode in _WITH_TWO_PRECISIONS
    default = (ir.Precision.DEFAULT,) * (2 if two else len(instruction.operands))
    given = precision.operand_precision or default
    config.operand_precision.extend([_PRECISIONS[x] for x in given])
    config.algorithm = _ALGORITHMS[precision.algorithm]


def _shape(shape: Shape, target: InstructionTarget) -> None:
    target.shapes.write(shape, target.proto.outfeed_shape)


def _slice_sizes(lists: tuple[tuple[int, ...], ...], target: InstructionTarget) -> None:
    for sizes in lists:
        target.proto.dynamic_slice_sizes.extend(sizes)


_SPARSITY: Final = re.compile(
    r"(lhs|rhs)=\{\s*sparsity=(\d+)x(\d+)[\s,]+dimension=(\d+)[\s,]+stride=(\d+)\s*\}[\s,]*"
)


def _sparsity(text: str, target: InstructionTarget) -> None:
    inside = text.strip().removeprefix("{").removesuffix("}").strip()
    position = 0
    while position < len(inside):
        match = _SPARSITY.match(inside, position)
        if match is None:
            raise FieldError(f"unknown text {inside[position:][:40]!r}", "sparsity_config")
        side = getattr(target.proto.sparsity_config, match[1])
        side.num_non_zero, side.block_size, side.dimension, side.stride = map(
            int, match.groups()[1:]
        )
        position = match.end()


def _thread(thread: str, target: InstructionTarget) -> None:
    if target.instruction.opcode is Opcode.ASYNC_START and thread != ir.MAIN_THREAD:
        write_scalar(target.proto, "async_execution_thread", thread)


def _window(window: ir.Window, target: InstructionTarget) -> None:
    target.proto.window.SetInParent()
    for x in window.dimensions:
        target.proto.window.dimensions.add(
            size=x.size,
            stride=x.stride,
            padding_low=x.padding_low,
            padding_high=x.padding_high,
            window_dilation=x.window_dilation,
            base_dilation=x.base_dilation,
            window_reversal=x.reversal,
        )


_FORMS: Final[Mapping[Form, Write]] = {
    Form.ALIASING: _aliasing,
    Form.CONVOLUTION_DIMENSIONS: _convolution_dimensions,
    Form.DOT_DIMENSIONS: _dot_dimensions,
    Form.GROUPS: _groups,
    Form.INTEGER_GROUPS: _slice_sizes,
    Form.LAYOUTS: _layouts,
    Form.LITERAL: _literal,
    Form.PADDING: _padding,
    Form.PADDING_TYPE: _padding_type,
    Form.PAIRS: _pairs,
    Form.PRECISION: _precision,
    Form.SHAPE: _shape,
    Form.SPARSITY: _sparsity,
    Form.THREAD: _thread,
    Form.WINDOW: _window,
}


def _slice(record: ir.Slice, target: InstructionTarget) -> None:
    for start, limit, stride in zip(record.starts, record.limits, record.strides, strict=True):
        target.proto.slice_dimensions.add(start=start, limit=limit, stride=stride)


def _domain(record: ir.Domain, target: InstructionTarget) -> None:
    """Write the shardings: what the text calls the entry, protobuf calls the exit."""
    if record.entry is not None:
        write_sharding(record.entry, target.proto.domain_exit_sharding, target.payloads)
    if record.exit is not None:
        write_sharding(record.exit, target.proto.domain_entry_sharding, target.payloads)


_RECORDS: Final[Mapping[type, Write]] = {ir.Slice: _slice, ir.Domain: _domain}
"""Records that are written as a whole."""
