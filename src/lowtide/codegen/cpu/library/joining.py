"""Concatenations of many arrays: each is copied to where it lies in the result, line by line."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.domain import MOST_BOXES
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan
from lowtide.ir import Instruction
from lowtide.ir.attributes import Dimensions
from lowtide.ir.thunk import Phase
from lowtide.llvm.callee import COPY
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_PIECE_BYTES: Final = 1 << 16
"""The most bytes that are copied at once."""

_SHORTEST: Final = 64
"""Bytes of a line, on average, that are worth a copy of their own."""

_WORDS: Final = 4
"""The numbers of an operand in the table."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of an operand, one in each of the result's: bytes, and where they go there.

    `units` are its pieces of work, of which a line has `pieces`.
    """

    nbytes: int
    offset: int
    pieces: int
    units: int


def plan_joining(concatenate: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a concatenation of many arrays, None for few and for short lines.

    Few are cut into boxes. All arrays have to lie in memory in one order of dimensions.
    """
    operands = concatenate.operands
    if len(operands) <= MOST_BOXES:
        return None
    order = concatenate.shape.physical_order
    if any(x.shape.physical_order != order for x in operands):
        return None
    along = concatenate.attributes_as(Dimensions).dimensions[0]
    sizes = concatenate.shape.dimensions
    place = order.index(along)
    count = prod([sizes[d] for d in order[:place]])
    inner = prod([sizes[d] for d in order[place + 1 :]])
    each = inner * concatenate.shape.element_type.nbytes
    row = sizes[along] * each
    if not count or row < _SHORTEST * len(operands):
        return None
    widths = [x.shape.dimensions[along] * each for x in operands]
    lines = []
    for nbytes, end in zip(widths, accumulate(widths), strict=True):
        pieces = -(-nbytes // _PIECE_BYTES)
        lines.append(_Lines(nbytes, end - nbytes, pieces, count * pieces))
    return KernelPlan(lambda: _code(lines, count, row))


def _code(lines: list[_Lines], count: int, row: int) -> KernelCode:
    """One function: the pieces of work are numbered operand by operand, then line by line."""
    fn = Function("join", ARGUMENTS)
    words: list[int] = []
    units = 0
    for x in lines:
        words += [units, x.nbytes, x.offset, x.pieces]
        units += x.units
    words.append(units)
    table = f"@lines = private unnamed_addr constant [{len(words)} x i64] "
    table += f"[{', '.join([f'i64 {x}' for x in words])}], align 8"
    result = fn.load("ptr", fn.gep("%buffers", len(lines), "ptr"), 8)
    with fn.loop(0, len(lines)) as operand:
        entry = fn.gep("@lines", fn.mul(operand.index, _WORDS), "i64")
        first, nbytes, offset, pieces, end = [
            fn.load("i64", fn.gep(entry, i, "i64"), 8) for i in range(_WORDS + 1)
        ]
        source = fn.load("ptr", fn.gep("%buffers", operand.index, "ptr"), 8)
        begin = fn.sub(fn.max("%begin", first), first)
        with fn.loop(begin, fn.sub(fn.min("%end", end), first)) as unit:
            line, piece = _divided(fn, unit.index, pieces)
            start = fn.mul(piece, _PIECE_BYTES)
            size = fn.min(fn.sub(nbytes, start), _PIECE_BYTES)
            given = fn.gep(source, fn.add(fn.mul(line, nbytes), start))
            there = fn.add(fn.mul(line, row), fn.add(offset, start))
            fn.call(COPY, [fn.gep(result, there), given, size, "false"])
    phase = Phase(fn.name, units, seconds(2 * row * count, 20 * units) / units)
    return KernelCode((fn,), (phase,), table)


def _divided(fn: Function, number: Integer, by: Integer) -> tuple[Integer, Integer]:
    """The quotient and the rest of two integers that are not negative."""
    quotient = fn.op(f"udiv i64 {number}, {by}")
    return quotient, fn.sub(number, fn.mul(quotient, by))
