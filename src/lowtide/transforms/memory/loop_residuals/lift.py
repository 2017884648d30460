"""Computations of a later loop that make less of what they read, offered to the earlier one.

A step of the later loop may need only the signs of the elements of a slice, or their sums. What
leads to these is written out in the earlier loop too, where it can be stacked instead. Nobody reads
it there yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.traversal import post_order
from lowtide.passes.editing import TupleElements, element_index
from lowtide.passes.rewriting import is_dead
from lowtide.transforms.control_flow.hoisting import may_move
from lowtide.transforms.memory.loop_residuals.choice import CONTRACTIONS
from lowtide.transforms.memory.loop_residuals.matches import equal_values
from lowtide.transforms.memory.loop_residuals.stacks import Residuals, StackReader

NARROW: Final = 2
"""A computation is offered whose result takes at most the bytes of its operands by this."""


def lift(residuals: Residuals) -> list[Instruction]:
    """Write computations of a later loop out in the earlier one; return them, operands first.

    That is done for a single later loop which reads all slices at one place.
    """
    readers = residuals.readers
    if len(readers) > 1 or len({x.source for x in readers[0].reads}) > 1:
        return []
    known = _known(residuals, readers[0])
    order = post_order(readers[0].walk.loop.body)
    from_slices = {x.slice for x in readers[0].reads}
    liftable: dict[Instruction, None] = {}
    for x in order:
        if any(y in from_slices for y in x.operands):
            from_slices.add(x)
        if x not in known and _may_lift(x, known, liftable):
            liftable[x] = None
    wanted = {x for x in liftable if x in from_slices and _narrows(x)}
    for x in reversed(order):
        if x in wanted:
            wanted.update([y for y in x.operands if y in liftable])
    return _written_out([x for x in order if x in wanted], known, residuals.walk.loop.body)


def drop_unused(lifted: list[Instruction]) -> None:
    """Remove those computations that nobody reads."""
    for x in reversed(lifted):
        if is_dead(x):
            x.parent.remove(x)


def _known(residuals: Residuals, reader: StackReader) -> dict[Instruction, Instruction]:
    """What the earlier loop has of the values of the later one."""
    known = equal_values(residuals, reader)
    loop = residuals.walk.loop
    elements = TupleElements(loop.body.parameters[0])
    starts = {index: x for x, index in reader.walk.carried.items()}
    for x in reader.walk.loop.body.parameters[0].users:
        start = starts.get(element_index(x))
        index = residuals.walk.carried.get(start) if start is not None else None
        if index is not None:
            known[x] = elements[index]
    return known


def _may_lift(
    x: Instruction, known: Mapping[Instruction, Instruction], liftable: Mapping[Instruction, None]
) -> bool:
    if not x.shape.is_array or not may_move(x) or x.opcode in CONTRACTIONS:
        return False
    if x.opcode is Opcode.GET_TUPLE_ELEMENT:
        return False
    return all(y in known or y in liftable for y in x.operands)


def _narrows(x: Instruction) -> bool:
    return NARROW * x.shape.nbytes <= max([y.shape.nbytes for y in x.operands], default=0)


def _written_out(
    wanted: list[Instruction], known: Mapping[Instruction, Instruction], body: Computation
) -> list[Instruction]:
    copies = dict(known)
    for x in wanted:
        copies[x] = body.add_like(x, tuple([copies[y] for y in x.operands]))
    return [copies[x] for x in wanted]
