"""Totals of parts of rows, which a second phase adds up.

Into how many parts rows are split depends on sizes only, hence so do the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from lowtide.codegen.elementwise import memory
from lowtide.codegen.elements import Element, Elements, Index, Mask
from lowtide.codegen.indexing import Affine, linear
from lowtide.codegen.kernel import ARGUMENTS, rounded
from lowtide.codegen.operands import bind
from lowtide.codegen.reducers import carried, renamed
from lowtide.codegen.reduction.grid import Grid
from lowtide.codegen.reduction.totals import Totals, stored_bytes
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value, memory_type
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

MOST_PARTS: Final = 32
"""Parts of a row: enough for many threads to have about the same work."""

LEAST_POINTS: Final = 1 << 15
"""Points of a part, for all rows that one unit has; less is not worth a second phase."""


def part_count(size: int, turn: int, units: int, points: int) -> int:
    """Return in how many parts to split a loop of `size` iterations, `turn` of which belong together.

    There are `units` pieces of work of `points` points each; 1 says that they are enough.
    """
    wanted = min(MOST_PARTS // max(units, 1), points // LEAST_POINTS, size // max(turn, 1))
    return max(wanted, 1)


@final
class Partials:
    """The totals of `count` parts of each row in scratch that all threads share.

    A part is `length` iterations of the outermost loop along a row, the last one what is left.
    """

    def __init__(self, grid: Grid, types: Sequence[ElementType], count: int, turn: int) -> None:
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


ROWS_OF_UNIT: Final = 1024
"""Rows of a unit of the second phase."""


@final
class Finish:
    """Writes the function of the second phase: it adds up parts, and stores results of rows."""

    def __init__(self, grid: Grid, target: Target, partials: Partials) -> None:
        self.grid = grid
        self.target = target
        self.partials = partials
        self.function = Function("finish", ARGUMENTS)
        self.sizes = grid.row_sizes
        last = self.sizes[-1] if self.sizes else 1
        lanes = 1
        while lanes < min(max(grid.lanes, 2), last):
            lanes *= 2
        self.lanes = lanes if lanes > 1 else 0
        self.elements = Elements(self.function, target, self.lanes)

    @property
    def units(self) -> int:
        """The number of units."""
        last = self.sizes[-1] if self.sizes else 1
        return self.grid.row_count // last * -(-last // ROWS_OF_UNIT)

    def write(self) -> Function:
        """Write the function."""
        fn, elements = self.function, self.elements
        self.bound = bind(fn, self.grid.form.instruction)
        if not self.sizes:
            self._rows([], None)
            return fn
        size = self.sizes[-1]
        blocks = -(-size // ROWS_OF_UNIT)
        with elements.loop("%begin", "%end") as unit:
            lead = decomposed(elements, fn.div(unit.index, blocks), self.sizes[:-1])
            start = fn.mul(fn.rem(unit.index, blocks), ROWS_OF_UNIT)
            stop = fn.min(fn.add(start, ROWS_OF_UNIT), size)
            self._line(lead, start, stop, size)
        return fn

    def _line(self, lead: list[Affine], start: Integer, stop: Integer, size: int) -> None:
        from lowtide.codegen.reduction.strip import first_lanes

        fn, elements, step = self.function, self.elements, self.lanes or 1
        whole = size - size % step
        with elements.loop(start, fn.min(stop, whole), step) as loop:
            self._rows([*lead, lane_variable(elements, loop.index, size)], None)
        if whole < size:
            mask = Mask(first_lanes(size - whole, step), step, 0)
            with elements.when(fn.compare("eq", stop, size)):
                self._rows([*lead, lane_variable(elements, whole, size)], mask)

    def _rows(self, rows: list[Affine], mask: Mask | None) -> None:
        from lowtide.codegen.reduction.rows import store_rows

        fn, elements, form = self.function, self.elements, self.grid.form
        row = elements.scalar(linear(tuple(rows), self.sizes))
        name = None if mask is None else mask.name
        totals = Totals(elements, self.bound.frame, form.heroes)
        lanes = self.lanes if rows else 0
        first = self.partials.load(fn, self.target, 0, row, lanes, name)
        with elements.loop(1, self.partials.count, 1, carried(first)) as loop:
            more = self.partials.load(fn, self.target, loop.index, row, lanes, name)
            after = totals.combined(renamed(first, loop.values), more)
            loop.next = [x for value in after for x in value.names]
        found = totals.finished(renamed(first, loop.results), lanes)
        known = dict(zip(form.heroes, found, strict=True))
        for hero in form.heroes:
            elements.provide(hero, _constantly(known[hero]))
        store_rows(self.grid, elements, self.bound, rows, mask)


def _constantly(element: Element) -> Callable[[Index, Mask | None], Element]:
    return lambda at, mask: element
