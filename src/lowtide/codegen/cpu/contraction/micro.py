"""The innermost loop: a tile of sums in registers, to which products are added step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod
from lowtide.codegen.value import vector_type
from lowtide.llvm.function import Function
from lowtide.llvm.loops import Integer, Loop
from lowtide.llvm.target import Target
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.codegen.cpu.contraction.rests import Rests

Vectors: TypeAlias = "tuple[str, ...]"
"""A vector of units or sums: one LLVM value for each plane."""

Fetch: TypeAlias = Callable[[Integer, int], Vectors]
"""Writes the units of a row (in all lanes), or of a vector of columns, at a step."""

LoopOf: TypeAlias = Callable[..., AbstractContextManager[Loop]]
"""`Function.loop`, or `Elements.loop` where elements are read inside."""


@dataclass(frozen=True, slots=True)
class TileOperands:
    """How a tile reads what it multiplies, and what is called at the start of each iteration.

    Within a step each vector of columns is fetched once, then row by row the units that are
    multiplied with all of them; those of a row of offsets are known. An iteration has `unroll`
    steps as long as there are so many.
    """

    row_at: Fetch
    column_at: Fetch
    unroll: int = 1
    ask: Callable[[Integer, int], None] | None = None


def accumulate(
    fn: Function,
    target: Target,
    how: Arithmetic,
    lanes: int,
    loop_of: LoopOf,
    steps: Integer,
    start: list[list[Vectors]],
    operands: TileOperands,
    rests: Rests | None = None,
) -> list[list[Vectors]]:
    """Write the loop over `steps`, and over `rests` of `%columns`; return sums by row and vector.

    `start` are the sums before, whose extent is that of the tile.
    """
    added_rows = zeros(how, how.more_rows, len(start[0]), lanes)
    start = [*start, *added_rows]
    rows, vectors = len(start), len(start[0])
    own = rows - how.more_rows

    def row_at(step: Integer, i: int) -> Vectors:
        return operands.row_at(step, i) if i < own else how.offset_row(fn, lanes)

    def looped(by: Arithmetic) -> list[list[Vectors]]:
        step = _Step(fn, target, by, lanes, row_at, operands.column_at)
        return _looped(step, loop_of, steps, start, operands)

    if rests is None:
        return how.without_offset(fn, lanes, looped(how))
    wide = rests.widening

    def cut() -> list[list[Vectors]]:
        return rests.added(fn, target, "%columns", looped(how), row_at)

    return rests.either(fn, "%columns", rows, vectors, lambda: looped(wide), cut)


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a tile: units of all rows times those of all columns, added to the sums."""

    fn: Function
    target: Target
    how: Arithmetic
    lanes: int
    row_at: Fetch
    column_at: Fetch

    def add(self, step: Integer, sums: list[list[Vectors]]) -> None:
        """Write the step; `sums` are those behind it afterwards.

        What is widened takes two registers: then one vector of columns after the other is.
        """
        given = self.fn, self.target, self.lanes
        if self.how.method is MultiplyMethod.BYTE_WORDS:
            rows = [self.row_at(step, i) for i in range(len(sums))]
            for j in range(len(sums[0])):
                column = self.column_at(step, j)
                for before, row in zip(sums, rows, strict=True):
                    before[j] = self.how.multiply_add(*given, before[j], row, column)
            return
        columns = [self.column_at(step, j) for j in range(len(sums[0]))]
        for i, before in enumerate(sums):
            row = self.row_at(step, i)
            for j, column in enumerate(columns):
                before[j] = self.how.multiply_add(*given, before[j], row, column)


def _looped(
    step: _Step, loop_of: LoopOf, steps: Integer, start: list[list[Vectors]], operands: TileOperands
) -> list[list[Vectors]]:
    """Write the loop over `steps`; return the sums behind it."""
    fn, how = step.fn, step.how
    rows, vectors = len(start), len(start[0])
    type_ = vector_type(how.sum_type, step.lanes)
    unroll, ask = operands.unroll, operands.ask
    whole = steps if unroll == 1 else fn.mul(fn.div(steps, unroll), unroll)
    names = list(_flat(start))
    for first, last, count in ((0, whole, unroll), (whole, steps, 1)):
        if first == last:
            continue
        with loop_of(first, last, count, [(type_, name) for name in names]) as loop:
            sums = shaped(loop.values, rows, vectors, how.planes)
            if ask is not None:
                ask(loop.index, count)
            for number in range(count):
                step.add(fn.add(loop.index, number), sums)
            loop.next = list(_flat(sums))
        names = loop.results
    return shaped(names, rows, vectors, how.planes)


def broadcast(
    fn: Function, how: Arithmetic, pointer: str, nbytes: int, lanes: int, align: int
) -> Vectors:
    """Write a load of the unit `nbytes` behind a pointer; return vectors with it in each lane.

    It is a unit of a row, as it is multiplied.
    """
    there = fn.gep(pointer, nbytes)
    planes = []
    for plane in range(how.planes):
        one = fn.load(how.unit, fn.gep(there, plane, how.unit), align)
        planes.append(fn.splat(how.unit, one, lanes))
    return how.moved(fn, lanes, tuple(planes))


def zeros(how: Arithmetic, rows: int, vectors: int, lanes: int) -> list[list[Vectors]]:
    """Return a tile of sums of nothing."""
    return [[how.zero(lanes)] * vectors for _ in range(rows)]


def _flat(tile: list[list[Vectors]]) -> Iterator[str]:
    for row in tile:
        for vector in row:
            yield from vector


def shaped(names: list[str], rows: int, vectors: int, planes: int) -> list[list[Vectors]]:
    """Return the vectors of a tile from one list of all their planes, row by row."""
    rest = iter(names)
    return [
        [tuple([next(rest) for _ in range(planes)]) for _ in range(vectors)] for _ in range(rows)
    ]
