"""Layouts that the compiler chooses for results: those for which nothing has to be moved."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Dimensions, GetTupleElement, Parameter
from lowtide.ir.shape import Layout
from lowtide.ops.table import TABLE
from lowtide.pjrt.layouts import Order, row_major

_PASSING: Final = frozenset({Opcode.COPY, Opcode.CUSTOM_CALL})
"""Operations that leave an array in the order of their operand, where that has the same sizes."""


def chosen_layouts(module: Module) -> list[Layout]:
    """Return a layout for each leaf of the result: transposes of what it is made of cost nothing.

    The parameters are row-major, or lie as the entry's layout says.
    """
    root = module.entry.root
    leaves = range(len(root.shape.tuple_shapes)) if root.shape.is_tuple else [-1]
    return [Layout(_order(module, _leaf(root, i))) for i in leaves]


def _leaf(x: Instruction, index: int) -> Instruction:
    """The instruction that makes an element of a tuple, or the last one that can be named."""
    if index >= 0 and x.opcode is Opcode.TUPLE:
        x = x.operands[index]
    while x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0].opcode is Opcode.TUPLE:
        x = x.operands[0].operands[x.attributes_as(GetTupleElement).index]
    return x


def _order(module: Module, x: Instruction) -> Order:
    """The order in which an array lies if what it is made of lies as it does."""
    if not x.shape.is_array:
        return ()
    rank = x.shape.rank
    positions = list(range(rank))  # of each dimension of the source, its place in the result
    while True:
        if x.opcode is Opcode.TRANSPOSE:
            dimensions = x.attributes_as(Dimensions).dimensions
            moved = [0] * rank
            for place, dimension in enumerate(dimensions):
                moved[dimension] = positions[place]
            positions = moved
            x = x.operands[0]
            continue
        source = _source(x)
        if source is None:
            break
        x = source
    order = row_major(rank)
    if x.opcode is Opcode.PARAMETER and module.entry_layout is not None:
        given = module.entry_layout.parameters[x.attributes_as(Parameter).number]
        order = given.layout.minor_to_major if given.layout else order
    return tuple([positions[d] for d in order])


def _source(x: Instruction) -> Instruction | None:
    """The operand whose order an operation keeps, None where it has one of its own."""
    if x.opcode not in _PASSING and not TABLE[x.opcode].elementwise:
        return None
    same = [y for y in x.operands if y.shape.dimensions == x.shape.dimensions]
    ordered = [y for y in same if y.opcode not in (Opcode.BROADCAST, Opcode.CONSTANT)]
    return next(iter(ordered), None)
