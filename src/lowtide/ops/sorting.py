"""Sorting, and the greatest elements of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir.attributes import Sort, TopK
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape, tuple_shape
from lowtide.ops.checks import (
    array,
    dimensions_of,
    in_range,
    make_array,
    one_or_tuple,
    plain,
    same_sizes,
    same_type,
    scalar,
)
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import Cost, bytes_touched, moves_all

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]


def _infer_sort(operands: Shapes, attributes: Sort, called: Called) -> Shape:
    if not operands:
        raise ShapeError("sort needs at least one operand")
    first = array(operands[0], "operand 0")
    for number, operand in enumerate(operands):
        if not same_sizes(array(operand, f"operand {number}"), first):
            raise ShapeError(f"the operands differ in size: {plain(first)} and {plain(operand)}")
    return one_or_tuple(operands)


def _verify_sort(result: Shape, operands: Shapes, attributes: Sort, called: Called) -> None:
    if operands[0].rank or attributes.dimension:
        in_range(attributes.dimension, operands[0], "sorted dimension")
    comparator = called[0]
    if len(comparator.parameters) != 2 * len(operands):
        found = len(comparator.parameters)
        raise ShapeError(f"the comparator must take {2 * len(operands)} parameters, not {found}")
    for number, parameter in enumerate(comparator.parameters):
        operand = operands[number // 2]
        scalar(parameter, f"parameter {number} of the comparator")
        if not same_type(parameter.element_type, operand.element_type):
            raise ShapeError(
                f"parameter {number} of the comparator is {plain(parameter)}, "
                f"operand {number // 2} is {plain(operand)}"
            )
    if scalar(comparator.result, "the comparator's result").element_type is not ElementType.PRED:
        raise ShapeError(f"the comparator must return pred[], not {plain(comparator.result)}")


def _sort_cost(result: Shape, operands: Shapes, attributes: Sort, called: Sequence[Cost]) -> Cost:
    count = operands[0].element_count
    comparisons = count * (count - 1).bit_length() if count else 0
    return Cost(comparisons, 0, bytes_touched(result, operands))


def _infer_topk(operands: Shapes, attributes: TopK, called: Called) -> Shape:
    operand = array(operands[0], "the operand")
    if not operand.rank:
        raise ShapeError(f"topk needs a dimension to choose along, not {plain(operand)}")
    if operand.element_type.is_complex:
        raise ShapeError(f"topk needs elements that have an order, not {plain(operand)}")
    size = operand.dimensions[-1]
    if attributes.k < 0 or (size != UNBOUNDED and attributes.k > size):
        raise ShapeError(f"k={attributes.k} exceeds the last dimension of {plain(operand)}")
    dimensions = [*dimensions_of(operand)[:-1], (attributes.k, False)]
    values = make_array(operand.element_type, dimensions)
    return tuple_shape([values, make_array(ElementType.S32, dimensions)])


OPERATIONS: Final = (
    OpDefinition(
        Opcode.SORT,
        "the operands reordered together along a dimension by a comparator",
        arity=(1, UNLIMITED),
        attributes=Sort,
        calls=("to_apply",),
        infer=_infer_sort,
        verify=_verify_sort,
        cost=_sort_cost,
        factors="computing.sort",
    ),
    OpDefinition(
        Opcode.TOPK,
        "the k greatest elements of each row, and their positions",
        attributes=TopK,
        infer=_infer_topk,
        cost=moves_all,
        factors="computing.top_k",
    ),
)
