"""The attributes of each opcode, read from the fields of a HloInstructionProto.

A field of a record is read as its form and the schema say; forms with a rule of their own have a
function in the table of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto import enums
from lowtide.frontend.hlo_proto.communication_reader import (
    read_channel,
    read_collective_dimension,
    read_pairs,
    read_slice_sizes,
)
from lowtide.frontend.hlo_proto.contraction_reader import (
    read_convolution_dimensions,
    read_dot_dimensions,
    read_precision,
    read_sparsity,
    read_window,
)
from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural, naturals, only, word
from lowtide.frontend.hlo_proto.groups import read_groups
from lowtide.frontend.hlo_proto.instruction_source import Source
from lowtide.frontend.hlo_proto.literals import read_literal
from lowtide.frontend.hlo_proto.messages import field_at
from lowtide.ir.attribute_fields import AttributeField, Form, attribute_fields
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Literal
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ops.table import TABLE

Read = Callable[[Source], Any]
"""instruction -> the value of a field."""
ReadForm = Callable[[Source, AttributeField], Any]
"""(instruction, field) -> the value of the field."""


def read_attributes(source: Source) -> ir.Attributes:
    """Return the attributes of an instruction; raises FieldError at the field that is bad."""
    read = _BY_OPCODE.get(source.opcode)
    return ir.NO_ATTRIBUTES if read is None else read(source)


def record_reader(record: type) -> Callable[[Source], ir.Attributes]:
    """Return the function that reads a record of a class; it raises FieldError."""
    if record in _RECORDS:
        return _RECORDS[record]
    hows = attribute_fields(record)
    readers = [(how.name, _field_reader(how)) for how in hows]
    if any(how.after for how in hows):
        return lambda source: record(**{name: read(source) for name, read in readers})
    if len(readers) == 1:
        ((_, read_only),) = readers
        return lambda source: record(read_only(source))
    in_order = [read for _, read in readers]
    return lambda source: record(*[read(source) for read in in_order])


def _field_reader(how: AttributeField) -> Read:
    if how.form in _FORMS:
        read_form = _FORMS[how.form]
        return lambda source: read_form(source, how)
    path, default = how.proto, how.default
    parent, _, name = path.rpartition(".")
    value_of: Read = attrgetter(f"proto.{path}")
    if parent and how.required:
        value_of = lambda source: getattr(source.required(parent), name)  # noqa: E731
    check = _check(how)
    if field_at(path).mark != "?":
        return lambda source: check(value_of(source), path)
    has = attrgetter(f"proto.{parent}.HasField" if parent else "proto.HasField")
    return lambda source: check(value_of(source), path) if has(source)(name) else default


def _check(how: AttributeField) -> Callable[[Any, str], Any]:
    """Return the function from what protobuf holds, and its path, to the value."""
    if how.proto in enums.NUMBERED:
        table = enums.NUMBERED[how.proto]
        return lambda number, path: lookup(table, number, path)
    if how.form is Form.INTEGERS:
        return naturals
    if field_at(how.proto).mark == "*":
        default = how.default
        return only if how.required else lambda x, path: only(x, path) if x else default
    if how.form is Form.NATURAL:
        return natural
    if how.form is Form.COUNT:
        return lambda value, path: max(value, 1)
    if how.form is Form.WORD:
        absent = "" if how.required else how.default
        return lambda value, path: word(value or absent, how.words, how.what, path)
    return lambda value, path: value


# -- forms with a rule of their own --------------------------------------------------------------


def _aliasing(source: Source, how: AttributeField) -> tuple[ir.Aliasing, ...]:
    aliases = []
    for i, x in enumerate(source.proto.output_operand_aliasing):
        path = f"output_operand_aliasing[{i}]"
        aliases.append(
            ir.Aliasing(
                naturals(x.output_shape_index, f"{path}.output_shape_index"),
                natural(x.operand_index, f"{path}.operand_index", len(source.operands)),
                naturals(x.operand_shape_index, f"{path}.operand_shape_index"),
            )
        )
    return tuple(aliases)


def _carries(source: Source, how: AttributeField) -> int:
    return natural(source.proto.num_carries, "num_carries", len(source.operands) + 1)


def _comparison_type(source: Source, how: AttributeField) -> str:
    default = ir.default_comparison(source.operands[0].shape.element_type)
    return word(source.proto.comparison_type or default, how.words, how.what, how.proto)


_ONE_DIMENSION: Final = frozenset(
    {Opcode.CONCATENATE, Opcode.GET_DIMENSION_SIZE, Opcode.SET_DIMENSION_SIZE}
)


def _dimensions(source: Source, how: AttributeField) -> tuple[int, ...]:
    if source.opcode in _ONE_DIMENSION:
        return (only(source.proto.dimensions, "dimensions"),)
    return naturals(source.proto.dimensions, "dimensions")


def _direction(source: Source, how: AttributeField) -> str:
    proto = source.proto
    direction = enums.COMPARISON_OPCODES.get(proto.opcode) or proto.comparison_direction
    return word(direction, how.words, "direction", how.proto)


def _element(source: Source, how: AttributeField) -> int:
    index = source.proto.tuple_index
    shape = source.operands[0].shape
    if not shape.is_tuple or not 0 <= index < len(shape.tuple_shapes):
        raise FieldError(f"a value of shape {shape} has no element {index}", "tuple_index")
    assert isinstance(index, int)
    return index


def _layouts(source: Source, how: AttributeField) -> tuple[Shape, ...] | None:
    if not source.proto.constrain_layout:
        return None
    path = "operand_shapes_with_layout"
    layouts = source.shapes.read_list(source.proto.operand_shapes_with_layout, path)
    if len(layouts) != len(source.operands):
        raise FieldError(f"expected {len(source.operands)} shapes, found {len(layouts)}", path)
    return layouts


def _literal(source: Source, how: AttributeField) -> Literal | None:
    """Return the literal of a constant, which has the shape of its result, or of a custom-call."""
    if not how.required and not source.proto.HasField("literal"):
        return None
    proto = source.required("literal")
    try:
        return read_literal(proto, source.shapes, source.shape if how.required else None)
    except FieldError as error:
        raise error.under("literal") from None


def _padding(source: Source, how: AttributeField) -> tuple[ir.PaddingDimension, ...]:
    dimensions = []
    for i, x in enumerate(source.required("padding_config").dimensions):
        interior = natural(x.interior_padding, f"padding_config.dimensions[{i}].interior_padding")
        dimensions.append(ir.PaddingDimension(x.edge_padding_low, x.edge_padding_high, interior))
    return tuple(dimensions)


def _predicated(source: Source, how: AttributeField) -> bool:
    branches = len(source.called)
    if len(source.operands) != branches + 1:
        raise FieldError(
            f"a conditional of {branches} branches has {branches + 1} operands, "
            f"found {len(source.operands)}",
            "operand_ids",
        )
    predicated = source.operands[0].shape.element_type is ElementType.PRED
    if predicated and branches != 2:
        raise FieldError("a conditional on pred has two branches", "called_computation_ids")
    if not branches:
        raise FieldError("a conditional has at least one branch", "called_computation_ids")
    return predicated


def _shape(source: Source, how: AttributeField) -> Shape:
    if source.proto.HasField("outfeed_shape"):
        return source.shapes.read_field(source.proto, "outfeed_shape")
    return source.operands[0].shape


def _thread(source: Source, how: AttributeField) -> str:
    thread: str = source.proto.async_execution_thread
    return thread or source.called[0].execution_thread


_FORMS: Final[Mapping[Form, ReadForm]] = {
    Form.ALIASING: _aliasing,
    Form.CARRIES: _carries,
    Form.CHANNEL: read_channel,
    Form.COLLECTIVE_DIMENSION: read_collective_dimension,
    Form.COMPARISON_TYPE: _comparison_type,
    Form.CONVOLUTION_DIMENSIONS: read_convolution_dimensions,
    Form.DIMENSIONS: _dimensions,
    Form.DIRECTION: _direction,
    Form.DOT_DIMENSIONS: read_dot_dimensions,
    Form.ELEMENT: _element,
    Form.GROUPS: lambda source, how: read_groups(source.proto),
    Form.INTEGER_GROUPS: read_slice_sizes,
    Form.LAYOUTS: _layouts,
    Form.LITERAL: _literal,
    Form.PADDING: _padding,
    Form.PAIRS: read_pairs,
    Form.PRECISION: read_precision,
    Form.PREDICATED: _predicated,
    Form.SHAPE: _shape,
    Form.SPARSITY: read_sparsity,
    Form.THREAD: _thread,
    Form.WINDOW: read_window,
}


def _slice(source: Source) -> ir.Attributes:
    ranges = source.proto.slice_dimensions
    return ir.Slice(
        tuple([x.start for x in ranges]),
        tuple([x.limit for x in ranges]),
        tuple([x.stride for x in ranges]),
    )


def _domain(source: Source) -> ir.Attributes:
    """Return the shardings: what the text calls the entry, protobuf calls the exit."""
    sides = []
    for field in ("domain_exit_sharding", "domain_entry_sharding"):
        sharding = None
        if source.proto.HasField(field):
            sharding = source.shardings.read_field(source.proto, field)
        sides.append(sharding)
    return ir.Domain("sharding", *sides)


_RECORDS: Final[Mapping[type, Callable[[Source], ir.Attributes]]] = {
    ir.Slice: _slice,
    ir.Domain: _domain,
}
"""Records that are read as a whole."""

_BY_OPCODE: Final[Mapping[Opcode, Callable[[Source], ir.Attributes]]] = {
    opcode: record_reader(definition.attributes)
    for opcode, definition in TABLE.items()
    if definition.attributes is not ir.Attributes
}
"""Opcodes that are not here have no attributes."""
