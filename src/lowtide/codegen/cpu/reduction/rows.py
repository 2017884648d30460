"""Kernels that run along rows: each row once, or several times where results need reductions.

A unit is a block of rows, or a part of one row where rows are few and long; then a second phase
adds up the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from lowtide.codegen.cpu.cost import widest
from lowtide.codegen.cpu.element_streaming import cache_for, fence, fetch_ahead
from lowtide.codegen.cpu.fetching import fetching_for
from lowtide.codegen.cpu.reduction.caching import Kept, kept_values
from lowtide.codegen.cpu.reduction.grid import ReductionGrid, total_count
from lowtide.codegen.cpu.reduction.partials import Partials
from lowtide.codegen.cpu.reduction.results import store_points, store_rows
from lowtide.codegen.cpu.reduction.strip import Strip, StripStep
from lowtide.codegen.cpu.reduction.totals import Totals
from lowtide.codegen.cpu.vector_elements import VectorMemory, vector_elements
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.operands import bind, members
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.library.scratch import ScratchArray, ThreadScratch
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value
from lowtide.ir import Instruction
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

UNIT: Final = 8192
"""Points of a unit of work, at least where there are as many."""


LONGEST_FETCHED: Final = 1 << 17
"""Bytes of a row up to which the next one is fetched while this one is in the caches."""

AHEAD_OF_ROWS: Final = 2048
"""How many bytes behind the same place of the next row."""


class RowsKernel:
    """Writes the function of a kernel along rows; `partials` says in which parts, if any."""

    def __init__(
        self,
        grid: ReductionGrid,
        target: Target,
        partials: Partials | None = None,
        *,
        name: str = "rows",
        is_streaming: bool = False,
    ) -> None:
        self.grid = grid
        self.form = grid.form
        self.target = target
        self.partials = partials
        self.function = Function(name, ARGUMENTS)
        self.memory = VectorMemory(is_streaming, grid.is_paired)
        lanes = grid.lanes if grid.lanes > 1 else 0
        self.elements = vector_elements(self.function, target, lanes, self.memory)
        self.cache = cache_for(target, self.form.instruction, grid.row_count * grid.row_length)
        self.scratch = ThreadScratch()
        self.kept = kept_values(self.form)
        slots = {(x.value.shape.element_type, x.slot): x for x in self.kept}
        self.kept_arrays = {slot: self._field(x) for slot, x in slots.items()}
        self.known: dict[Instruction, Element] = {}

    def _field(self, kept: Kept) -> ScratchArray:
        """Scratch of a thread for the values of a row, or of as many rows as there are lanes."""
        count = self.grid.row_length + self.grid.lanes // self.grid.abreast
        if self.grid.is_across:
            count = self.grid.row_length * self.grid.lanes
        return self.scratch.add(kept.value.shape.element_type, count)

    # -- units ---------------------------------------------------------------------------------

    @property
    def _outer(self) -> int:
        """The number of rows, or of lines of rows where lanes are rows."""
        sizes = self.grid.row_sizes
        count = 1
        for size in sizes[:-1] if self.grid.is_across else sizes:
            count *= size
        return count

    @property
    def _block(self) -> int:
        """How many rows, or along a line of them, are one unit."""
        most = max(1, UNIT // self.grid.row_length)
        if not self.grid.is_across:
            return min(most, self._outer)
        lanes = self.grid.lanes
        return min(-(-most // lanes), -(-self.grid.row_sizes[-1] // lanes)) * lanes

    @property
    def units(self) -> int:
        """The number of units."""
        if self.partials is not None:
            return self._outer * self.partials.count
        if self.grid.is_across:
            return self._outer * -(-self.grid.row_sizes[-1] // self._block)
        return -(-self._outer // self._block)

    @cached_property
    def fetching(self) -> dict[int, int]:
        """In which run along a row operands are fetched, and how many bytes ahead.

        The first run finds its row in the caches where a later one, which waits for no memory,
        fetches the next row.
        """
        nbytes = row_bytes(self.grid)
        if self.form.last_pass == 0 or nbytes > LONGEST_FETCHED:
            return {0: fetching_for(self.target).sums}
        return {1: nbytes + AHEAD_OF_ROWS}

    @property
    def unit_points(self) -> int:
        """About how many points a unit has."""
        return self.grid.row_count * self.grid.row_length // max(self.units, 1)

    def write(self) -> Function:
        """Write the function."""
        self.bound = bind(self.function, self.form.instruction)
        shared = 0 if self.partials is None else self.partials.nbytes
        self.scratch.bind(self.function, shared)
        for hero in self.form.heroes:
            self.elements.provide(hero, self._given(hero))
        if self.partials is not None:
            self._parts()
        elif self.grid.is_across:
            self._lines()
        else:
            self._blocks()
        if self.memory.is_streaming:
            fence(self.function)
        return self.function

    def _given(self, hero: Instruction) -> Callable[[Index, Mask | None], Element]:
        return lambda at, mask: self.known[hero]

    def _bounds(self) -> tuple[Integer, Integer]:
        """The first row, and the one behind the last."""
        fn = self.function
        return fn.mul("%begin", self._block), fn.min(fn.mul("%end", self._block), self._outer)

    def _blocks(self) -> None:
        """A row at a time."""
        elements = self.elements
        start, stop = self._bounds()
        with elements.scopes.loop(start, stop) as loop:
            rows = decomposed(elements, loop.index, self.grid.row_sizes)
            self._row(rows, None)

    def _lines(self) -> None:
        """As many rows at once as there are lanes."""
        fn, elements, size = self.function, self.elements, self.grid.row_sizes[-1]
        lanes, blocks = self.grid.lanes, -(-size // self._block)
        with elements.scopes.loop("%begin", "%end") as unit:
            lead = decomposed(elements, fn.div(unit.index, blocks), self.grid.row_sizes[:-1])
            start = fn.mul(fn.rem(unit.index, blocks), self._block)
            stop = fn.min(fn.add(start, self._block), size)
            whole = size - size % lanes
            with elements.scopes.loop(start, fn.min(stop, whole), lanes) as loop:
                self._row([*lead, lane_variable(elements, loop.index, size)], None)
            if whole < size:
                mask = Mask(first_lanes(size - whole, lanes), lanes, 0)
                with elements.scopes.when(fn.compare("eq", stop, size)):
                    self._row([*lead, lane_variable(elements, whole, size)], mask)

    def _parts(self) -> None:
        """A part of a row at a time, whose totals are left for the second phase."""
        assert self.partials is not None
        fn, elements = self.function, self.elements
        with elements.scopes.loop("%begin", "%end") as unit:
            part = fn.rem(unit.index, self.partials.count)
            row = fn.div(unit.index, self.partials.count)
            rows = decomposed(elements, row, self.grid.row_sizes)
            span = self.partials.span(fn, part)
            totals = Totals(elements, self.bound.frame, self.form.heroes)
            values = self._run(rows, None, 0, totals, span)
            self.partials.store(fn, self.target, values, part, row)

    # -- a row ---------------------------------------------------------------------------------

    def _row(self, rows: Sequence[Affine], mask: Mask | None) -> None:
        """All runs along a row, then its results."""
        self.known.clear()
        lanes = self.grid.lanes if self.grid.is_across else 0
        for number in range(self.form.last_pass + 1):
            heroes = [x for x in self.form.heroes if self.form.pass_of(x) == number]
            totals = Totals(self.elements, self.bound.frame, heroes)
            values = self._run(rows, mask, number, totals, None)
            finished = totals.finished(values, lanes)
            self.known.update(zip(heroes, finished, strict=True))
        store_rows(self.grid, self.elements, self.bound, rows, mask)

    def _run(
        self,
        rows: Sequence[Affine],
        mask: Mask | None,
        number: int,
        totals: Totals,
        span: tuple[Integer, Integer] | None,
    ) -> list[Value]:
        """One run along a row; returns the totals of its reductions."""
        grid, along = self.grid, 0 if self.grid.is_across else self.elements.lanes
        strip = Strip(
            self.elements, grid.inner_sizes, along, has_first=not totals.are_monoids, span=span
        )
        self._provide_kept(number, None)
        turns = total_count(grid) if along else 1
        start = totals.start(self.elements.lanes)

        def body(step: StripStep, before: list[Value]) -> list[Value]:
            return self._point(rows, mask, number, totals, step, before)

        after = strip.write([list(start) for _ in range(turns)], body)
        if not grid.is_across:
            return self._folded(totals, after)
        return after[0]

    def _folded(self, totals: Totals, after: list[list[Value]]) -> list[Value]:
        """What is left of a row's totals, which take turns along it and have lanes."""
        return totals.folded(after)

    def _point(
        self,
        rows: Sequence[Affine],
        mask: Mask | None,
        number: int,
        totals: Totals,
        step: StripStep,
        before: list[Value],
    ) -> list[Value]:
        """What a run does at a point, or at a vector of them."""
        elements, form = self.elements, self.form
        row, inner = self.grid.index(elements, rows, step.inner)
        point = form.point(row, inner)
        wanted = elements.vectors.both(mask, step.mask)
        seen = len(elements.reads)
        self._provide_kept(number, step)
        values = totals.taken(point, wanted, elements.lanes)
        after = totals.added(before, values, step.mask, step.is_first) if before else []
        for kept in self.kept:
            if kept.made == number:
                value = elements.at(kept.value, point, self.bound.frame, wanted)
                self._keep(kept, step, value)
        if number == form.last_pass:
            store_points(form, elements, self.bound, [point], wanted)
        ahead = self.fetching.get(number)
        if wanted is None and ahead:
            fetch_ahead(elements, elements.reads[seen:], ahead, self.cache)
        self._beside(step)
        return after

    def _beside(self, step: StripStep) -> None:
        """What else is done at a point."""

    # -- kept values ---------------------------------------------------------------------------

    def _provide_kept(self, number: int, step: StripStep | None) -> None:
        """Have values of earlier runs come from scratch."""
        for kept in self.kept:
            if kept.made < number and step is not None:
                self.elements.given[kept.value] = self._loaded(kept, step)
            else:
                self.elements.given.pop(kept.value, None)

    def _address(self, kept: Kept, step: StripStep) -> str:
        place = step.linear * (self.grid.lanes if self.grid.is_across else 1)
        return self._kept_array(kept).address(self.function, self.elements.indices.scalar(place))

    def _kept_array(self, kept: Kept) -> ScratchArray:
        return self.kept_arrays[kept.value.shape.element_type, kept.slot]

    def _loaded(self, kept: Kept, step: StripStep) -> Callable[[Index, Mask | None], Element]:
        def given(at: Index, mask: Mask | None) -> Element:
            elements = self.elements
            type_ = kept.value.shape.element_type
            pointer = self._address(kept, step)
            value = self.memory.whole(elements, type_, pointer)
            return Element((value,), elements.scopes.level)

        return given

    def _keep(self, kept: Kept, step: StripStep, value: Value) -> None:
        whole = value
        if not value.lanes and self.elements.lanes:
            whole = self.elements.vectors.splat(value)
        self.memory.keep(self.elements, whole, self._address(kept, step))


def row_bytes(grid: ReductionGrid) -> int:
    """Return the bytes of a row, of elements of the widest type."""
    return grid.row_length * widest(members(grid.form.instruction))
