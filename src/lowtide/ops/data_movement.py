"""Operations that rearrange, repeat or reinterpret elements without computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from lowtide.ir.attributes import Constant, Dimensions, Iota, Pad, PaddingDimension, Reshape
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape
from lowtide.ops.checks import (
    Dimension,
    all_in_range,
    array,
    compatible_size,
    dimensions_of,
    higher_precision,
    in_range,
    integral,
    listed,
    make_array,
    plain,
    same_type,
    scalar,
    tighter,
)
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import NO_COST, Cost, flop_per_element, moves_all

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]

# -- broadcast, reshape, transpose, reverse ----------------------------------------------------


def _verify_broadcast(
    result: Shape, operands: Shapes, attributes: Dimensions, called: Called
) -> None:
    operand, dimensions = array(operands[0], "the operand"), attributes.dimensions
    array(result, "the result")
    if result.element_type is not operand.element_type:
        raise ShapeError(f"the result {plain(result)} must have the type of {plain(operand)}")
    if len(dimensions) != operand.rank:
        raise ShapeError(
            f"dimensions {listed(dimensions)} must name one result dimension for each of the "
            f"{operand.rank} dimensions of {plain(operand)}"
        )
    all_in_range(dimensions, result, "result dimension")
    for i, dimension in enumerate(dimensions):
        if not compatible_size(operand.dimensions[i], result.dimensions[dimension]):
            raise ShapeError(
                f"dimension {i} of {plain(operand)} and {dimension} of {plain(result)} "
                "differ in size"
            )


def _verify_reshape(result: Shape, operands: Shapes, attributes: Reshape, called: Called) -> None:
    operand = array(operands[0], "the operand")
    array(result, "the result")
    if result.element_type is not operand.element_type:
        raise ShapeError(f"the result {plain(result)} must have the type of {plain(operand)}")
    unbounded = UNBOUNDED in result.dimensions or UNBOUNDED in operand.dimensions
    if not unbounded and result.element_count != operand.element_count:
        raise ShapeError(
            f"{plain(operand)} has {operand.element_count} elements, "
            f"the result {plain(result)} {result.element_count}"
        )
    if attributes.inferred_dimension != -1:
        in_range(attributes.inferred_dimension, result, "inferred_dimension")


def _verify_dynamic_reshape(
    result: Shape, operands: Shapes, attributes: Any, called: Called
) -> None:
    operand, *sizes = operands
    array(operand, "operand 0")
    array(result, "the result")
    if result.element_type is not operand.element_type:
        raise ShapeError(f"the result {plain(result)} must have the type of {plain(operand)}")
    if len(sizes) != result.rank:
        raise ShapeError(f"{plain(result)} needs {result.rank} sizes, not {len(sizes)}")
    for size in sizes:
        integral(scalar(size, "a size"), "a size")
    if result.element_count != operand.element_count:
        raise ShapeError(f"{plain(operand)} and {plain(result)} differ in their number of elements")


def _infer_transpose(operands: Shapes, attributes: Dimensions, called: Called) -> Shape:
    operand, permutation = array(operands[0], "the operand"), attributes.dimensions
    if sorted(permutation) != list(range(operand.rank)):
        raise ShapeError(
            f"dimensions {listed(permutation)} must be a permutation of those of {plain(operand)}"
        )
    pairs = dimensions_of(operand)
    result = make_array(operand.element_type, [pairs[i] for i in permutation])
    if operand.layout is None:
        return result
    # The elements stay where they are: each dimension takes its place in the layout along.
    position = {old: new for new, old in enumerate(permutation)}
    order = tuple([position[i] for i in operand.layout.minor_to_major])
    return result.with_layout(replace(operand.layout, minor_to_major=order))


def _infer_reverse(operands: Shapes, attributes: Dimensions, called: Called) -> Shape:
    operand = array(operands[0], "the operand")
    all_in_range(attributes.dimensions, operand, "reversed dimension")
    return operand


# -- bitcast -----------------------------------------------------------------------------------


def _verify_bitcast(result: Shape, operands: Shapes, attributes: Any, called: Called) -> None:
    operand = operands[0]
    if not operand.is_array or not result.is_array:
        return
    if operand.is_dynamic or result.is_dynamic:
        return
    if _is_tiled(operand) or _is_tiled(result):
        return
    if operand.nbytes != result.nbytes:
        raise ShapeError(
            f"a bitcast keeps the bytes: {plain(operand)} has {operand.nbytes}, "
            f"{plain(result)} {result.nbytes}"
        )


def _is_tiled(shape: Shape) -> bool:
    return shape.layout is not None and bool(shape.layout.tiles)


def _verify_bitcast_convert(
    result: Shape, operands: Shapes, attributes: Any, called: Called
) -> None:
    operand = array(operands[0], "the operand")
    old, new = operand.element_type, array(result, "the result").element_type
    if old.is_complex is not new.is_complex:
        raise ShapeError(f"bits of {plain(operand)} cannot be read as {plain(result)}")
    if old.bits == new.bits:
        expected = operand.dimensions
    elif old.bits > new.bits:
        expected = (*operand.dimensions, old.bits // new.bits)
    elif operand.dimensions[-1:] == (new.bits // old.bits,):
        expected = operand.dimensions[:-1]
    else:
        raise ShapeError(
            f"the last dimension of {plain(operand)} must be {new.bits // old.bits} to become "
            f"{new.value}"
        )
    if result.dimensions != expected and UNBOUNDED not in (*result.dimensions, *expected):
        raise ShapeError(f"the result must have dimensions {listed(expected)}, not {plain(result)}")


# -- concatenate, pad --------------------------------------------------------------------------


def _infer_concatenate(operands: Shapes, attributes: Dimensions, called: Called) -> Shape:
    if not operands or len(attributes.dimensions) != 1:
        raise ShapeError("concatenate needs at least one operand and exactly one dimension")
    along = attributes.dimensions[0]
    first = array(operands[0], "operand 0")
    in_range(along, first, "concatenated dimension")
    result = dimensions_of(first)
    element_type = first.element_type
    for operand in operands[1:]:
        if array(operand, "an operand").rank != first.rank:
            raise ShapeError(f"the operands differ in rank: {plain(first)} and {plain(operand)}")
        if not same_type(operand.element_type, element_type):
            raise ShapeError(f"the operands differ in type: {plain(first)} and {plain(operand)}")
        element_type = higher_precision(element_type, operand.element_type)
        for i, dimension in enumerate(dimensions_of(operand)):
            result[i] = _joined(result[i], dimension, i == along, first, operand)
    return make_array(element_type, result)


def _joined(a: Dimension, b: Dimension, along: bool, first: Shape, operand: Shape) -> Dimension:
    if along:
        size = UNBOUNDED if UNBOUNDED in (a[0], b[0]) else a[0] + b[0]
        return size, a[1] or b[1]
    if not compatible_size(a[0], b[0]):
        raise ShapeError(
            f"{plain(first)} and {plain(operand)} differ beside the concatenated dimension"
        )
    return tighter(a, b)


def _padded_size(size: int, padding: PaddingDimension) -> int:
    if size == UNBOUNDED:
        return size
    if padding.interior < 0:
        raise ShapeError(f"interior padding must not be negative, but is {padding.interior}")
    result = size + padding.low + padding.high + padding.interior * max(size - 1, 0)
    if result < 0:
        raise ShapeError(f"padding {padding.low}_{padding.high} takes more than {size} elements")
    return result


def _infer_pad(operands: Shapes, attributes: Pad, called: Called) -> Shape:
    operand, value = array(operands[0], "the operand"), scalar(operands[1], "the padding value")
    if not same_type(operand.element_type, value.element_type):
        raise ShapeError(f"{plain(operand)} cannot be padded with {plain(value)}")
    if len(attributes.dimensions) != operand.rank:
        found = len(attributes.dimensions)
        raise ShapeError(f"{plain(operand)} needs {operand.rank} padding entries, not {found}")
    dimensions = [
        (_padded_size(size, padding), dynamic)
        for (size, dynamic), padding in zip(
            dimensions_of(operand), attributes.dimensions, strict=True
        )
    ]
    return make_array(higher_precision(operand.element_type, value.element_type), dimensions)


def _transpose_cost(
    result: Shape, operands: Shapes, attributes: Dimensions, called: Sequence[Cost]
) -> Cost:
    """Return nothing where the layout is transposed along, so that no element moves."""
    if _infer_transpose(operands, attributes, ()) is result:
        return NO_COST
    return moves_all(result, operands, attributes, called)


# -- sources -----------------------------------------------------------------------------------


def _infer_constant(operands: Shapes, attributes: Constant, called: Called) -> Shape:
    return attributes.literal.shape


def _verify_iota(result: Shape, operands: Shapes, attributes: Iota, called: Called) -> None:
    array(result, "the result")
    in_range(attributes.dimension, result, "iota_dimension")
    kind = result.element_type
    if not (kind.is_integer or kind.is_floating or kind.is_complex):
        raise ShapeError(f"iota yields numbers, not {plain(result)}")


OPERATIONS: Final = (
    OpDefinition(
        Opcode.BROADCAST,
        "the operand repeated along new dimensions",
        attributes=Dimensions,
        verify=_verify_broadcast,
        cost=moves_all,
        factors="movement.broadcast",
    ),
    OpDefinition(
        Opcode.RESHAPE,
        "the same elements in row-major order, with other dimensions",
        attributes=Reshape,
        verify=_verify_reshape,
        cost=moves_all,
        declared=True,
        factors="movement.reshape",
    ),
    OpDefinition(
        Opcode.DYNAMIC_RESHAPE,
        "a reshape to sizes given by operands 1, 2, ...",
        arity=(1, UNLIMITED),
        verify=_verify_dynamic_reshape,
        cost=moves_all,
        declared=True,
    ),
    OpDefinition(
        Opcode.TRANSPOSE,
        "the operand with its dimensions permuted",
        attributes=Dimensions,
        infer=_infer_transpose,
        cost=_transpose_cost,
        factors="movement.transpose",
    ),
    OpDefinition(
        Opcode.REVERSE,
        "the operand with some dimensions running backwards",
        attributes=Dimensions,
        infer=_infer_reverse,
        cost=moves_all,
        factors="movement.listed",
    ),
    OpDefinition(
        Opcode.BITCAST,
        "the same bytes under another shape and layout",
        verify=_verify_bitcast,
        declared=True,
        factors="movement.bitcast",
    ),
    OpDefinition(
        Opcode.BITCAST_CONVERT,
        "the bits of each element read as another type",
        verify=_verify_bitcast_convert,
        cost=flop_per_element,
        declared=True,
        elementwise=True,
        factors="movement.bitcast_convert",
    ),
    OpDefinition(
        Opcode.CONCATENATE,
        "the operands one after another along a dimension",
        arity=(1, UNLIMITED),
        attributes=Dimensions,
        infer=_infer_concatenate,
        cost=moves_all,
        factors="movement.listed",
    ),
    OpDefinition(
        Opcode.PAD,
        "the operand with a value before, after and between its elements",
        arity=(2, 2),
        attributes=Pad,
        infer=_infer_pad,
        cost=moves_all,
        factors="movement.pad",
    ),
    OpDefinition(
        Opcode.CONSTANT,
        "a value known before the program runs",
        arity=(0, 0),
        attributes=Constant,
        infer=_infer_constant,
        declared=True,
        exact_type=True,
    ),
    OpDefinition(
        Opcode.IOTA,
        "numbers that count from 0 along one dimension",
        arity=(0, 0),
        attributes=Iota,
        verify=_verify_iota,
        cost=moves_all,
        declared=True,
        factors="movement.iota",
    ),
)
