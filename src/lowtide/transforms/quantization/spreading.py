"""Numbers that are spread over an array: one for all elements, or one for each slice of it."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.literal import DTYPES, Array
from lowtide.passes.matching import dimensions
from lowtide.passes.rewriting import Rewriter
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """A value whose dimension i is dimension `places[i]` of an array; the others repeat it."""

    value: Instruction
    places: tuple[int, ...]

    def at(self, places: tuple[int | None, ...]) -> Spread | None:
        """Return the same over another array, which has dimension d of this one at `places[d]`.

        None where it varies along one that the other array lacks.
        """
        found = [places[d] for d in self.places]
        kept = tuple([x for x in found if x is not None])
        return Spread(self.value, kept) if len(kept) == len(found) else None


def spread_of(x: Instruction) -> Spread | None:
    """Return what an array is spread from, None where it is no broadcast of anything."""
    x = plain(x)
    if not x.shape.rank:
        return Spread(x, ())
    if x.opcode is not Opcode.BROADCAST:
        return None
    return Spread(x.operands[0], dimensions(x))


def plain(x: Instruction) -> Instruction:
    """Return what an instruction only repeats: without conversions that convert nothing."""
    while x.opcode is Opcode.CONVERT:
        operand = x.operands[0]
        if operand.shape.element_type is not x.shape.element_type:
            return x
        x = operand
    return x


# -- moves -----------------------------------------------------------------------------------------

MOVES: Final = (Opcode.BROADCAST, Opcode.RESHAPE, Opcode.TRANSPOSE)
"""Operations that leave elements as they are, and of which we know where slices go."""


def places_after(move: Instruction) -> tuple[int | None, ...]:
    """Return for each dimension of the operand of a move where it is in the result, None if gone.

    A reshape keeps dimensions only if it does no more than add and remove some of size 1.
    """
    if move.opcode is Opcode.BROADCAST:
        return dimensions(move)
    if move.opcode is Opcode.TRANSPOSE:
        order = dimensions(move)
        return tuple([order.index(d) for d in range(len(order))])
    before, after = move.operands[0].shape.dimensions, move.shape.dimensions
    wide = [d for d, n in enumerate(before) if n != 1]
    places: dict[int, int] = {}
    now = [d for d, n in enumerate(after) if n != 1]
    if [before[d] for d in wide] == [after[d] for d in now]:
        places = dict(zip(wide, now, strict=True))
    return tuple([places.get(d) for d in range(len(before))])


def moved(at: Rewriter, x: Op, moves: list[Instruction]) -> Op:
    """Return an array after some moves, outermost last."""
    for move in moves:
        if move.opcode is Opcode.BROADCAST:
            x = at.build.broadcast(x, move.shape.dimensions, dimensions(move))
        elif move.opcode is Opcode.TRANSPOSE:
            x = at.build.transpose(x, dimensions(move))
        else:
            x = at.build.reshape(x, move.shape.dimensions)
    return x


# -- numbers that are known ------------------------------------------------------------------------

_MOST: Final = 1 << 16
"""Elements of a constant that is looked into."""


def is_zero(x: Spread) -> bool:
    """Whether all numbers are known to be 0."""
    found = known(x.value)
    return found is not None and not found.any()


def known(x: Instruction) -> Array | None:
    """Return the numbers of a constant, also behind conversions of integers, else None."""
    reshaped: list[Instruction] = []
    while x.opcode in (Opcode.CONVERT, Opcode.RESHAPE):
        if not x.shape.element_type.is_integer:
            return None
        reshaped.append(x)
        x = x.operands[0]
    if x.opcode is not Opcode.CONSTANT or x.shape.element_count > _MOST:
        return None
    if not x.shape.element_type.is_integer:
        return None
    found = x.attributes_as(Constant).literal.array
    for step in reversed(reshaped):
        found = found.reshape(step.shape.dimensions).astype(DTYPES[step.shape.element_type])
    return np.asarray(found)
