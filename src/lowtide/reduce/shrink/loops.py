"""Loops that run less often: the constants that say how often, beside the sizes they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lowtide.analysis.call_graph import while_body, while_condition
from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.literal import array_literal
from lowtide.records import dataclass
from lowtide.reduce.shrink.choice import small_size

SmallSize = Callable[[Instruction, int], int]
"""What a dimension of an array becomes."""


@dataclass(frozen=True, slots=True)
class LoopCount:
    """A loop runs `old` times and is to run `new` times."""

    loop: Instruction
    old: int
    new: int


def wanted_counts(module: Module, size: SmallSize) -> list[LoopCount]:
    """Return which loops are to run less often, twice at least.

    A loop that takes one slice after the other of an array runs as often as there are slices.
    """
    found = []
    for x in _instructions(module):
        count = trip_count(x) if x.opcode is Opcode.WHILE else None
        if count is None:
            continue
        sliced = _sliced(while_body(x), count.count, size)
        new = max(2, small_size(count.count) if sliced is None else sliced)
        if new < count.count:
            found.append(LoopCount(x, count.count, new))
    return found


def _instructions(module: Module) -> Iterator[Instruction]:
    for computation in module.computations.values():
        yield from computation.instructions.values()


def _sliced(body: Computation, count: int, size: SmallSize) -> int | None:
    """What becomes of a dimension of `count` elements of which a body reads or writes one."""
    for x in body.instructions.values():
        if x.opcode is Opcode.DYNAMIC_SLICE:
            part, whole = x, x.operands[0]
        elif x.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
            part, whole = x.operands[1], x
        else:
            continue
        sizes = zip(part.shape.dimensions, whole.shape.dimensions, strict=True)
        for i, (few, many) in enumerate(sizes):
            if few == 1 and many == count:
                return size(whole, i)
    return None


def run_less(loop: Instruction, old: int, new: int) -> None:
    """Let a loop run less often: put the new count, or one less, where constants have the old one.

    Both stand in condition, body and first values of the loop; the last one to count down from, or
    to make positive what Python would count from the end.
    """
    places = [*while_condition(loop).instructions.values(), *while_body(loop).instructions.values()]
    start = loop.operands[0]
    if start.opcode is Opcode.TUPLE:
        places += start.operands
    for x in places:
        if x.opcode is not Opcode.CONSTANT or x.shape.rank or not x.shape.element_type.is_integer:
            continue
        value = int(x.attributes_as(Constant).literal.array[()])
        if value in (old, old - 1):
            literal = array_literal(x.shape, np.asarray(new - (old - value)))
            x.set_attributes(Constant(literal))
