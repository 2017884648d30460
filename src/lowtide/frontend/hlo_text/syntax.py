"""The syntax of each opcode: its attributes, the required ones among them, and their record.

All of it follows from the definition of the opcode and from what the fields of its record say. A
few opcodes of which the text says more, or less, stand at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import lowtide.frontend.hlo_text.attribute_parser as value
import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_text.lexer import Lexer
from lowtide.frontend.hlo_text.literal_parser import parse_shaped_literal
from lowtide.frontend.hlo_text.shape_parser import parse_shape
from lowtide.frontend.hlo_text.sharding_parser import parse_replica_groups, parse_sharding
from lowtide.ir.attribute_fields import AttributeField, Form, attribute_fields
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ops.table import TABLE
from lowtide.records import dataclass
from lowtide.records.late import LateTable

Values = Mapping[str, Any]
ValueParser = Callable[[Lexer], Any]
Build = Callable[[Values, Sequence[Shape]], ir.Attributes]


@dataclass(frozen=True, slots=True)
class OpSyntax:
    """How one opcode is written.

    `arity` is the number of operands, None for any. `optional` and `required` map attribute
    names to parsers of their values; `computations` are the names of attributes that hold called
    computations, in the order in which they are called. Without `infers_shape` the text must give
    the shape of the result.
    """

    arity: int | None
    build: Build
    required: Mapping[str, ValueParser] = field(default_factory=dict)
    optional: Mapping[str, ValueParser] = field(default_factory=dict)
    computations: tuple[str, ...] = ()
    infers_shape: bool = True
    generic: Mapping[str, ValueParser] = field(default_factory=lambda: GENERIC)


GENERIC: Final[Mapping[str, ValueParser]] = {
    "sharding": parse_sharding,
    "frontend_attributes": value.frontend_attributes,
    "statistics": value.statistics,
    "parameter_replication": value.braced_booleans,
    "origin": value.origin,
    "backend_config": value.backend_config,
}
"""Attributes that any instruction may have; metadata and control-predecessors come on top."""

RESULT_ACCURACY: Final[Mapping[str, ValueParser]] = {"result_accuracy": value.result_accuracy}
"""The attribute of the functions whose result may be more or less exact; kept with the generic."""

COMPUTATION_LISTS: Final = frozenset({"branch_computations", "called_computations"})
"""Attributes that hold several called computations in braces."""


# -- fields of records ---------------------------------------------------------------------------

_PARSERS: Final[Mapping[Form, ValueParser]] = {
    **dict.fromkeys((Form.BOOLEAN, Form.GLOBAL_IDS), value.boolean),
    **dict.fromkeys(
        (Form.INTEGER, Form.NATURAL, Form.COUNT, Form.CARRIES, Form.CHANNEL, Form.ELEMENT),
        value.integer,
    ),
    **dict.fromkeys((Form.INTEGERS, Form.DIMENSIONS), value.braced_integers),
    **dict.fromkeys((Form.STRING, Form.THREAD), value.string),
    Form.ALIASING: value.aliasing,
    Form.BYTES: value.data,
    Form.COLLECTIVE_DIMENSION: value.first_braced_integer,
    Form.CONVOLUTION_DIMENSIONS: value.dim_labels,
    Form.DIMENSION: value.one_braced_integer,
    Form.GROUPS: parse_replica_groups,
    Form.INTEGER_GROUPS: value.integer_groups,
    Form.LAYOUTS: value.shapes,
    Form.LITERAL: parse_shaped_literal,
    Form.PADDING: value.padding,
    Form.PAIRS: value.source_target_pairs,
    Form.SHAPE: parse_shape,
    Form.SINGLE: value.single,
    Form.SPARSITY: value.backend_config,
    Form.TRI_STATE: value.tri_state,
    Form.WINDOW: value.window,
}
"""The parser of a value that is one attribute; a field with words has its own."""

_SEVERAL: Final[Mapping[Form, Mapping[str, ValueParser]]] = {
    Form.PRECISION: {"operand_precision": value.precisions, "algorithm": value.dot_algorithm},
    Form.DOT_DIMENSIONS: dict.fromkeys(
        ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims"),
        value.braced_integers,
    ),
}
"""The parsers of a value that is several attributes, all of them optional."""

_ORDERS: Final = {"PARTIAL": "FLOAT", "TOTAL": "TOTALORDER"}
"""The type of a comparison of floats by its order, which newer texts have in its place."""

_ELSE: Final[Mapping[Form, Mapping[str, ValueParser]]] = {
    Form.COMPARISON_TYPE: {"order": value.choice(_ORDERS, "comparison order")}
}
"""The parsers of an attribute that may stand in place of that of the field."""


def _comparison_type(values: Values, operands: Sequence[Shape]) -> str:
    default = ir.default_comparison(operands[0].element_type)
    known: str = values.get("type", default)
    return _ORDERS.get(values.get("order", ""), known) if default == "FLOAT" else known


def _dot_dimensions(values: Values, operands: Sequence[Shape]) -> ir.DotDimensions:
    return ir.DotDimensions(*[values.get(key, ()) for key in _SEVERAL[Form.DOT_DIMENSIONS]])


def _padding_type(values: Values, operands: Sequence[Shape]) -> str:
    word: str = values.get("padding_type", "")
    return word.replace("PADDING_INVALID", "")


def _precision(values: Values, operands: Sequence[Shape]) -> ir.PrecisionConfig:
    precisions = tuple(values.get("operand_precision", ()))
    algorithm = values.get("algorithm", ir.DotAlgorithm.UNSET)
    if all(p is ir.Precision.DEFAULT for p in precisions):
        precisions = ()
    if not precisions and algorithm is ir.DotAlgorithm.UNSET:
        return ir.DEFAULT_PRECISION
    return ir.PrecisionConfig(precisions, algorithm)


_MADE: Final[Mapping[Form, Callable[[Values, Sequence[Shape]], Any]]] = {
    Form.COMPARISON_TYPE: _comparison_type,
    Form.DOT_DIMENSIONS: _dot_dimensions,
    Form.PADDING_TYPE: _padding_type,
    Form.PRECISION: _precision,
    Form.PREDICATED: lambda values, operands: (
        bool(operands) and operands[0].element_type is ElementType.PRED
    ),
    Form.SHAPE: lambda values, operands: values.get("outfeed_shape") or operands[0],
    Form.TRI_STATE: lambda values, operands: values.get("is_associative", False),
}
"""(values of attributes, operand shapes) -> a value that is not just that of its attribute."""

_RECORDS: Final[Mapping[type, tuple[str, ValueParser]]] = {
    ir.Slice: ("slice", value.slice_ranges),
    ir.Domain: ("domain", value.domain),
}
"""The records that are one attribute: its name, and its parser, which makes the record."""


def _parsers(how: AttributeField) -> Mapping[str, ValueParser]:
    """Return the parsers of the attributes that a field is made of."""
    if how.form in _SEVERAL:
        return _SEVERAL[how.form]
    if not how.text:
        return {}
    if how.words:
        taken = value.choice(how.words, how.what, any_case=how.any_case)
        return {how.text: taken, **_ELSE.get(how.form, {})}
    return {how.text: _PARSERS[how.form]}


def _builder(record: type[ir.Attributes]) -> Build:
    """Return the function that makes a record from the values of its attributes."""
    if record in _RECORDS:
        key, _ = _RECORDS[record]
        return lambda values, operands: values[key]
    hows = attribute_fields(record)
    if not hows:
        return _nothing
    names = [(how.name, how.text) for how in hows if how.form not in _MADE]
    makers = [(how.name, _MADE[how.form]) for how in hows if how.form in _MADE]

    def build(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
        taken = {name: values[key] for name, key in names if key in values}
        return record(**taken, **{name: make(values, operands) for name, make in makers})

    return build


# -- opcodes of which the text says more, or less -----------------------------------------------


def _nothing(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    """Return no attributes, or none so far: the parentheses of the opcode make the record."""
    return ir.NO_ATTRIBUTES


def _broadcast(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Dimensions(values.get("dimensions", ()))


def _map(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    """Return all dimensions, whatever the text says."""
    return ir.Dimensions(tuple(range(operands[0].rank if operands else 0)))


def _ragged_all_to_all(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    """Return a record without the dimensions, which may stand in the text but say nothing."""
    return _COLLECTIVE({**values, "dimensions": None}, operands)


_COLLECTIVE: Final = _builder(ir.Collective)
_BUILDS: Final[Mapping[Opcode, Build]] = {
    Opcode.PARAMETER: _nothing,
    Opcode.CONSTANT: _nothing,
    Opcode.BROADCAST: _broadcast,
    Opcode.MAP: _map,
    Opcode.RAGGED_ALL_TO_ALL: _ragged_all_to_all,
}
_DIMENSIONS: Final = {"dimensions": value.braced_integers}
_FIRST_DIMENSION: Final = {"dimensions": value.first_dimension}
_GATHERED: Final = {"dimensions": value.first_braced_integer}
_REQUIRED: Final[Mapping[Opcode, Mapping[str, ValueParser]]] = {
    Opcode.BROADCAST: {},
    Opcode.MAP: {},
    Opcode.CONCATENATE: {"dimensions": value.single_dimension},
    Opcode.GET_DIMENSION_SIZE: _FIRST_DIMENSION,
    Opcode.SET_DIMENSION_SIZE: _FIRST_DIMENSION,
    Opcode.ALL_GATHER: _GATHERED,
    Opcode.ALL_GATHER_START: _GATHERED,
    Opcode.REDUCE_SCATTER: _GATHERED,
}
"""What opcodes require instead of what their records do."""
_GROUP_MODES: Final = (
    "cross_replica",
    "cross_partition",
    "cross_replica_and_partition",
    "flattened_id",
)
_MODE: Final = {"mode": value.choice(_GROUP_MODES, "collective group mode")}
_OPTIONAL: Final[Mapping[Opcode, Mapping[str, ValueParser]]] = {
    Opcode.BROADCAST: _DIMENSIONS,
    Opcode.MAP: _DIMENSIONS,
    Opcode.ALL_REDUCE: _MODE,
    Opcode.ALL_REDUCE_START: _MODE,
    Opcode.REDUCE_SCATTER: _MODE,
    Opcode.ALL_TO_ALL: {"dimensions": value.one_braced_integer},
    Opcode.RAGGED_ALL_TO_ALL: _DIMENSIONS,
}
"""What opcodes may have on top of what their records do."""
_COMPUTATIONS: Final[Mapping[Opcode, tuple[str, ...]]] = {
    Opcode.CONDITIONAL: ("true_computation", "false_computation", "branch_computations"),
    Opcode.CUSTOM_CALL: ("to_apply", "called_computations"),
}
_INEXACT: Final = (
    "acos acosh asin asinh atanh cbrt cosh cosine erf exponential exponential-minus-one log "
    "log-plus-one logistic rsqrt sine sinh sqrt tan tanh"
)


# -- all opcodes ---------------------------------------------------------------------------------


def _attributes_of(
    opcode: Opcode, record: type[ir.Attributes]
) -> tuple[Mapping[str, ValueParser], Mapping[str, ValueParser]]:
    """Return the attributes that a record requires, and those that it may have."""
    if record in _RECORDS:
        return dict([_RECORDS[record]]), {}
    required: dict[str, ValueParser] = {}
    optional: dict[str, ValueParser] = {}
    for how in attribute_fields(record):
        if not how.opcodes or opcode in how.opcodes:
            needed = how.required and how.form not in _MADE
            (required if needed else optional).update(_parsers(how))
    return required, optional


def syntax_of(opcode: Opcode, record: type[ir.Attributes]) -> OpSyntax:
    """Return the syntax of an opcode whose attributes are a record of a class."""
    definition = TABLE[opcode]
    least, most = definition.arity
    fixed = least == most and opcode is not Opcode.RAGGED_ALL_TO_ALL
    required, optional = _attributes_of(opcode, record)
    return OpSyntax(
        least if fixed else None,
        _BUILDS.get(opcode) or _builder(record),
        _REQUIRED.get(opcode, required),
        {**optional, **_OPTIONAL.get(opcode, {})},
        _COMPUTATIONS.get(opcode, definition.calls),
        not definition.declared,
        {**GENERIC, **RESULT_ACCURACY} if opcode in _INEXACT.split() else GENERIC,
    )


SYNTAX: Final = LateTable[Opcode, OpSyntax](lambda x: syntax_of(x, TABLE[x].attributes))
"""The syntax of every opcode."""
