"""Totals of parts of rows, which a second phase adds up.

The number of parts depends on sizes only, hence so do the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from lowtide.codegen.cpu.reduction.grid import ReductionGrid
from lowtide.codegen.elementwise import memory
from lowtide.codegen.kernel import rounded
from lowtide.codegen.library.scratch import stored_bytes
from lowtide.codegen.value import Value, memory_type
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

MOST_PARTS: Final = 32
"""Parts of a row: enough for many threads to have about the same work."""

LEAST_POINTS: Final = 1 << 15
"""Points of a part, for all rows that one unit has; less is not worth a second phase."""


def part_count(size: int, turn: int, units: int, points: int) -> int:
    """Return in how many parts to split a loop of `size` iterations.

    `turn` of them belong together. There are `units` pieces of work with `points` points in all.
    """
    wanted = min(MOST_PARTS // max(units, 1), points // LEAST_POINTS, size // max(turn, 1))
    return max(wanted, 1)


@final
class Partials:
    """The totals of `count` parts of each row in scratch that all threads share.

    A part is `length` iterations of the outermost loop along a row, the last one what is left.
    """

    def __init__(
        self, grid: ReductionGrid, types: Sequence[ElementType], count: int, turn: int
    ) -> None:
        self.grid = grid
        self.types = tuple(types)
        size = grid.inner_sizes[0]
        self.length = -(-size // (count * turn)) * turn
        self.count = -(-size // self.length)
        if self.count > 1 and size - (self.count - 1) * self.length < turn:
            self.count -= 1
        self.nbytes = 0
        self._first: list[int] = []
        for type_ in self.types:
            self._first.append(self.nbytes)
            self.nbytes += rounded(self.count * grid.row_count * stored_bytes(type_))

    def span(self, fn: Function, part: Integer) -> tuple[Integer, Integer]:
        """Return the iterations of a part; the last one reaches to the end."""
        size = self.grid.inner_sizes[0]
        start = fn.mul(part, self.length)
        is_last = fn.compare("eq", part, self.count - 1)
        return start, fn.select(is_last, "i64", size, fn.add(start, self.length))

    def _address(self, fn: Function, number: int, part: Integer, row: Integer) -> str:
        base = fn.gep("%scratch", self._first[number])
        element = memory_type(self.types[number])
        if self.types[number].is_complex:
            element = f"{{ {element}, {element} }}"
        place = fn.add(fn.mul(part, self.grid.row_count), row)
        return fn.gep(base, place, element)

    def store(
        self,
        fn: Function,
        target: Target,
        values: Sequence[Value],
        part: Integer,
        row: Integer,
        mask: str | None = None,
    ) -> None:
        """Store the totals of a part of a row, or of as many rows as values have lanes."""
        for number, value in enumerate(values):
            memory.store(fn, target, value, self._address(fn, number, part, row), mask)

    def load(
        self,
        fn: Function,
        target: Target,
        part: Integer,
        row: Integer,
        lanes: int,
        mask: str | None = None,
    ) -> list[Value]:
        """Load what was stored."""
        return [
            memory.load(fn, target, type_, self._address(fn, number, part, row), lanes, mask)
            for number, type_ in enumerate(self.types)
        ]
