"""Products of matrices over batch and contracting dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from lowtide.ir.attributes import Dot, DotDimensions, RaggedDot
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape
from lowtide.ops.checks import (
    Dimension,
    array,
    compatible_size,
    dimensions_of,
    distinct,
    higher_precision,
    in_range,
    integral,
    listed,
    make_array,
    plain,
    tighter,
)
from lowtide.ops.definition import OpDefinition
from lowtide.ops.dot_roles import free_dimensions, roles_of
from lowtide.ops.quantities import Cost, bytes_touched

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]


def _check_pairs(lhs: Shape, rhs: Shape, numbers: DotDimensions) -> None:
    for shape, side, contracting, batch in (
        (lhs, "lhs", numbers.lhs_contracting, numbers.lhs_batch),
        (rhs, "rhs", numbers.rhs_contracting, numbers.rhs_batch),
    ):
        for dimension in (*contracting, *batch):
            in_range(dimension, shape, f"{side} dimension")
        distinct((*batch, *contracting), f"the {side} batch and contracting dimensions")
    for kind, left, right in (
        ("batch", numbers.lhs_batch, numbers.rhs_batch),
        ("contracting", numbers.lhs_contracting, numbers.rhs_contracting),
    ):
        if len(left) != len(right):
            raise ShapeError(f"{kind} dimensions {listed(left)} and {listed(right)} do not pair up")
        for a, b in zip(left, right, strict=True):
            if not compatible_size(lhs.dimensions[a], rhs.dimensions[b]):
                raise ShapeError(
                    f"{kind} dimension {a} of {plain(lhs)} and {b} of {plain(rhs)} differ in size"
                )


def _dot_dimensions(lhs: Shape, rhs: Shape, numbers: DotDimensions) -> list[Dimension]:
    """Return the dimensions of the result: batch, the rest of lhs, the rest of rhs."""
    left, right = dimensions_of(lhs), dimensions_of(rhs)
    batch = [
        tighter(left[a], right[b])
        for a, b in zip(numbers.lhs_batch, numbers.rhs_batch, strict=True)
    ]
    ours, theirs = roles_of(numbers, lhs.rank, rhs.rank)
    return [*batch, *[left[i] for i in ours.free], *[right[i] for i in theirs.free]]


def infer_dot(operands: Shapes, attributes: Dot, called: Called) -> Shape:
    """Return the shape of a dot, its type the more precise one of both operands."""
    lhs, rhs = array(operands[0], "lhs"), array(operands[1], "rhs")
    _check_pairs(lhs, rhs, attributes.dimensions)
    element_type = higher_precision(lhs.element_type, rhs.element_type)
    return make_array(element_type, _dot_dimensions(lhs, rhs, attributes.dimensions))


def _infer_ragged_dot(operands: Shapes, attributes: RaggedDot, called: Called) -> Shape:
    lhs, rhs, sizes = operands
    array(lhs, "lhs")
    array(rhs, "rhs")
    integral(sizes, "the group sizes")
    numbers = attributes.dimensions
    if len(attributes.lhs_ragged) != 1:
        raise ShapeError(f"lhs_ragged_dims {listed(attributes.lhs_ragged)} must name one dimension")
    ragged = in_range(attributes.lhs_ragged[0], lhs, "lhs ragged dimension")
    for group in attributes.rhs_group:
        in_range(group, rhs, "rhs group dimension")
    _check_pairs(lhs, rhs, numbers)
    element_type = higher_precision(lhs.element_type, rhs.element_type)
    groups = dimensions_of(sizes)[-1:] or [(1, False)]
    if ragged in numbers.lhs_contracting:
        return make_array(element_type, [*groups, *_dot_dimensions(lhs, rhs, numbers)])
    if ragged in numbers.lhs_batch:
        return make_array(element_type, _dot_dimensions(lhs, rhs, numbers))
    if len(attributes.rhs_group) != 1:
        raise ShapeError(f"rhs_group_dims {listed(attributes.rhs_group)} must name one dimension")
    # The group dimension of rhs is chosen per row of lhs and does not show in the result.
    return make_array(element_type, _without_group(lhs, rhs, numbers, attributes.rhs_group[0]))


def _without_group(lhs: Shape, rhs: Shape, numbers: DotDimensions, group: int) -> list[Dimension]:
    left, right = dimensions_of(lhs), dimensions_of(rhs)
    batch = [left[a] for a in numbers.lhs_batch]
    lhs_free = free_dimensions(lhs.rank, numbers.lhs_contracting, numbers.lhs_batch)
    rhs_free = free_dimensions(rhs.rank, (*numbers.rhs_contracting, group), numbers.rhs_batch)
    return [*batch, *[left[i] for i in lhs_free], *[right[i] for i in rhs_free]]


def _verify_dot(result: Shape, operands: Shapes, attributes: Dot, called: Called) -> None:
    for operand in operands[:2]:
        if operand.element_type.is_complex and not result.element_type.is_complex:
            raise ShapeError(f"a product of {plain(operand)} cannot be {plain(result)}")


def contracted_size(lhs: Shape, numbers: DotDimensions) -> int:
    """Return how many products each element of the result adds up."""
    sizes = [lhs.dimensions[i] for i in numbers.lhs_contracting]
    return math.prod([1 if size == UNBOUNDED else size for size in sizes])


def _dot_cost(
    result: Shape, operands: Shapes, attributes: Dot | RaggedDot, called: Sequence[Cost]
) -> Cost:
    products = result.element_count * contracted_size(operands[0], attributes.dimensions)
    return Cost(2 * products, 0, bytes_touched(result, operands))


OPERATIONS: Final = (
    OpDefinition(
        Opcode.DOT,
        "sums of products over paired dimensions: batch, rest of lhs, rest of rhs",
        arity=(2, 2),
        attributes=Dot,
        infer=infer_dot,
        verify=_verify_dot,
        cost=_dot_cost,
        free_element_type=True,
        factors="computing.dot",
    ),
    OpDefinition(
        Opcode.RAGGED_DOT,
        "a dot whose lhs is split into groups of sizes given by operand 2",
        arity=(3, 3),
        attributes=RaggedDot,
        infer=_infer_ragged_dot,
        cost=_dot_cost,
        free_element_type=True,
    ),
    OpDefinition(
        Opcode.SCALED_DOT,
        "a dot of lhs times its scales and rhs times its scales (operands 2 and 3)",
        arity=(4, 4),
        attributes=Dot,
        infer=infer_dot,
        cost=_dot_cost,
        free_element_type=True,
    ),
)
