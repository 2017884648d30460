"""Kernels that reduce across rows of memory: the lanes of a vector are different columns.

A unit is a block of columns, whose totals lie in scratch while all of it is read in the order of
memory, several lines at a time. Where there are few columns the lines are split into parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, final

from lowtide.codegen.cpu.cost import vector_cycles
from lowtide.codegen.cpu.reduction.grid import ReductionGrid
from lowtide.codegen.cpu.reduction.partials import LEAST_POINTS, Partials
from lowtide.codegen.cpu.reduction.results import store_points, store_rows
from lowtide.codegen.cpu.reduction.totals import Totals, total_types
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.operands import bind, members
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Index, linear
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.library.scratch import ThreadScratch
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value
from lowtide.ir import Instruction
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

MOST_COLUMNS: Final = 2048
"""Columns of a block: their totals stay in the fastest cache."""

LEAST_COLUMNS: Final = 256
"""Columns of a block where there are more: as much of a line as is worth fetching at once."""

UNITS: Final = 16
"""Units that columns are split into, if they can be."""

LINES: Final = 8
"""Lines of all arrays together that are read or written at the same time: where they lie a power
of two apart, more would fall out of the fastest cache."""


def column_block(grid: ReductionGrid) -> int:
    """Return how many columns a unit has.

    Large arrays are rather split into parts of lines, which are read as they lie.
    """
    columns, lanes = grid.row_sizes[-1], grid.lanes
    wanted = -(-columns * prod(grid.row_sizes[:-1]) // UNITS)
    if grid.row_count * grid.row_length >= UNITS * LEAST_POINTS:
        wanted = MOST_COLUMNS
    block = min(max(wanted, LEAST_COLUMNS), MOST_COLUMNS, columns)
    return -(-block // lanes) * lanes


def lines_at_once(grid: ReductionGrid) -> int:
    """Return how many lines are read at the same time: fewer where much is computed of each."""
    form = grid.form
    points = grid.row_count * grid.row_length
    whole = [x for x in form.instruction.operands if _count(x) == points]
    arrays = len(whole) + sum([x.is_full for x in form.results])
    cycles = vector_cycles(members(form.instruction))
    lines = LINES
    while lines > 1 and (
        lines * arrays > LINES or lines * cycles > 80 or lines > grid.inner_sizes[-1]
    ):
        lines //= 2
    return lines


def _count(x: Instruction) -> int:
    return x.shape.element_count if x.shape.is_array else 0


@final
class ColumnsKernel:
    """Writes the function of a kernel across rows; `partials` says in which parts, if any."""

    def __init__(self, grid: ReductionGrid, target: Target, partials: Partials | None) -> None:
        self.grid = grid
        self.form = grid.form
        self.target = target
        self.partials = partials
        self.function = Function("columns", ARGUMENTS)
        self.lanes = max(grid.lanes, 2)
        self.elements = vector_elements(self.function, target, self.lanes)
        self.block = column_block(grid)
        self.lines = lines_at_once(grid)
        self.scratch = ThreadScratch()
        self.fields = [self.scratch.add(x, self.block) for x in total_types(self.form)]
        self.known: dict[Instruction, Element] = {}
        self.part_start: Integer = 0

    @property
    def _parts(self) -> int:
        return 1 if self.partials is None else self.partials.count

    @property
    def _blocks(self) -> int:
        return -(-self.grid.row_sizes[-1] // self.block)

    @property
    def units(self) -> int:
        """The number of units."""
        return prod(self.grid.row_sizes[:-1]) * self._blocks * self._parts

    @property
    def unit_points(self) -> int:
        """About how many points a unit has."""
        return self.grid.row_count * self.grid.row_length // max(self.units, 1)

    def write(self) -> Function:
        """Write the function."""
        fn, elements = self.function, self.elements
        self.bound = bind(fn, self.form.instruction)
        self.scratch.bind(fn, 0 if self.partials is None else self.partials.nbytes)
        self.totals = Totals(elements, self.bound.frame, self.form.heroes)
        for hero in self.form.heroes:
            elements.provide(hero, self._given(hero))
        with elements.scopes.loop("%begin", "%end") as unit:
            part = fn.rem(unit.index, self._parts)
            rest = fn.div(unit.index, self._parts)
            lead = decomposed(elements, fn.div(rest, self._blocks), self.grid.row_sizes[:-1])
            self._unit(lead, fn.rem(rest, self._blocks), part)
        return fn

    def _given(self, hero: Instruction) -> Callable[[Index, Mask | None], Element]:
        return lambda at, mask: self.known[hero]

    def _unit(self, lead: list[Affine], block: Integer, part: Integer) -> None:
        """A block of columns: totals are set, added up, and used."""
        fn = self.function
        size = self.grid.row_sizes[-1]
        start = fn.mul(block, self.block)
        stop = fn.min(fn.add(start, self.block), size)
        bounds = (start, stop)
        self._line(bounds, lambda column, place, mask: self._clear(place))
        span: tuple[Integer, Integer] = (0, self.grid.inner_sizes[0])
        if self.partials is not None:
            span = self.partials.span(fn, part)
        self.part_start = span[0]
        self._deeper(lead, bounds, (), span)
        self._line(
            bounds, lambda column, place, mask: self._use([*lead, column], place, mask, part)
        )

    def _line(
        self, bounds: tuple[Integer, Integer], body: Callable[[Affine, Integer, Mask | None], None]
    ) -> None:
        """The columns of a block, a vector at a time; `place` is where their totals are."""
        fn, elements, lanes = self.function, self.elements, self.lanes
        (start, stop), size = bounds, self.grid.row_sizes[-1]
        whole = size - size % lanes
        with elements.scopes.loop(start, fn.min(stop, whole), lanes) as loop:
            body(lane_variable(elements, loop.index, size), fn.sub(loop.index, start), None)
        if whole < size:
            mask = Mask(first_lanes(size - whole, lanes), lanes, 0)
            with elements.scopes.when(fn.compare("eq", stop, size)):
                body(lane_variable(elements, whole, size), fn.sub(whole, start), mask)

    # -- totals --------------------------------------------------------------------------------

    def _load(self, place: Integer) -> list[Value]:
        fn, target = self.function, self.target
        return [
            memory.load(fn, target, x.type, x.address(fn, place), self.lanes) for x in self.fields
        ]

    def _save(self, values: Sequence[Value], place: Integer) -> None:
        fn, target = self.function, self.target
        for field, value in zip(self.fields, values, strict=True):
            memory.store(fn, target, value, field.address(fn, place))

    def _clear(self, place: Integer) -> None:
        self._save(self.totals.start(self.lanes), place)

    def _use(
        self, rows: Sequence[Affine], place: Integer, mask: Mask | None, part: Integer
    ) -> None:
        """Store results of rows, or the totals of a part."""
        values = self._load(place)
        if self.partials is not None:
            row = self._row_number(rows)
            name = None if mask is None else mask.name
            self.partials.store(self.function, self.target, values, part, row, name)
            return
        found = self.totals.finished(values, self.lanes)
        self.known = dict(zip(self.form.heroes, found, strict=True))
        store_rows(self.grid, self.elements, self.bound, rows, mask)

    def _row_number(self, rows: Sequence[Affine]) -> Integer:
        return self.elements.indices.scalar(linear(tuple(rows), self.grid.row_sizes))

    # -- lines ---------------------------------------------------------------------------------

    def _deeper(
        self,
        lead: list[Affine],
        bounds: tuple[Integer, Integer],
        inner: tuple[Affine, ...],
        span: tuple[Integer, Integer],
    ) -> None:
        """Loops over lines; of the innermost several are taken at once."""
        elements, sizes = self.elements, self.grid.inner_sizes
        depth = len(inner)
        start, stop = span
        if depth + 1 < len(sizes):
            with elements.scopes.loop(start, stop) as loop:
                here = (*inner, elements.indices.variable(loop.index, sizes[depth]))
                self._deeper(lead, bounds, here, (0, sizes[depth + 1]))
            return
        size, fn = sizes[depth], self.function
        whole = size - size % self.lines
        last = whole if isinstance(stop, int) else fn.min(stop, whole)
        with elements.scopes.loop(start, last, self.lines) as loop:
            numbers = [fn.add(loop.index, i) for i in range(self.lines)]
            self._lines(lead, bounds, inner, [elements.indices.variable(x, size) for x in numbers])
        if whole == size:
            return
        rest = [elements.indices.variable(whole + i, size) for i in range(size - whole)]
        if isinstance(stop, int):
            self._lines(lead, bounds, inner, rest)
            return
        with elements.scopes.when(fn.compare("eq", stop, size)):
            self._lines(lead, bounds, inner, rest)

    def _lines(
        self,
        lead: list[Affine],
        bounds: tuple[Integer, Integer],
        inner: tuple[Affine, ...],
        at: Sequence[Affine],
    ) -> None:
        steps = [(*inner, x) for x in at]
        is_first = self._is_first(steps[0])
        self._line(
            bounds,
            lambda column, place, mask: self._add([*lead, column], steps, place, mask, is_first),
        )

    def _is_first(self, inner: tuple[Affine, ...]) -> str | None:
        """Whether no line was added before, where totals without a neutral element need that."""
        if self.totals.are_monoids:
            return None
        fn, elements = self.function, self.elements
        sizes = self.grid.inner_sizes
        number = elements.indices.scalar(linear(inner, sizes))
        begin = fn.mul(self.part_start, prod(sizes[1:]))
        return str(fn.compare("eq", number, begin))

    def _add(
        self,
        rows: Sequence[Affine],
        steps: Sequence[tuple[Affine, ...]],
        place: Integer,
        mask: Mask | None,
        is_first: str | None,
    ) -> None:
        """Add a vector of columns of some lines to their totals."""
        elements = self.elements
        points = []
        for inner in steps:
            row, along = self.grid.index(elements, rows, inner)
            points.append(self.form.point(row, along))
        found = [self.totals.taken(x, mask, self.lanes) for x in points]
        store_points(self.form, elements, self.bound, points, mask)
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=False)
            odd = found[-1:] if len(found) % 2 else []
            found = [self.totals.combined(a, b) for a, b in pairs] + odd
        before = self._load(place)
        self._save(self.totals.added(before, found[0], None, is_first), place)
