"""The second phase of reductions in parts: it adds them up, and stores what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from lowtide.codegen.cpu.reduction.grid import ReductionGrid
from lowtide.codegen.cpu.reduction.partials import Partials
from lowtide.codegen.cpu.reduction.results import store_rows
from lowtide.codegen.cpu.reduction.totals import Totals
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import Affine, Index, linear
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

ROWS_OF_UNIT: Final = 1024
"""Rows of a unit of the second phase."""


@final
class PartialsFinish:
    """Writes the function of the second phase: it adds up parts, and stores results of rows."""

    def __init__(self, grid: ReductionGrid, target: Target, partials: Partials) -> None:
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
        self.elements = vector_elements(self.function, target, self.lanes)

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
        with elements.scopes.loop("%begin", "%end") as unit:
            lead = decomposed(elements, fn.div(unit.index, blocks), self.sizes[:-1])
            start = fn.mul(fn.rem(unit.index, blocks), ROWS_OF_UNIT)
            stop = fn.min(fn.add(start, ROWS_OF_UNIT), size)
            self._line(lead, start, stop, size)
        return fn

    def _line(self, lead: list[Affine], start: Integer, stop: Integer, size: int) -> None:
        fn, elements, step = self.function, self.elements, self.lanes or 1
        whole = size - size % step
        with elements.scopes.loop(start, fn.min(stop, whole), step) as loop:
            self._rows([*lead, lane_variable(elements, loop.index, size)], None)
        if whole < size:
            mask = Mask(first_lanes(size - whole, step), step, 0)
            with elements.scopes.when(fn.compare("eq", stop, size)):
                self._rows([*lead, lane_variable(elements, whole, size)], mask)

    def _rows(self, rows: list[Affine], mask: Mask | None) -> None:
        fn, elements, form = self.function, self.elements, self.grid.form
        row = elements.indices.scalar(linear(tuple(rows), self.sizes))
        name = None if mask is None else mask.name
        totals = Totals(elements, self.bound.frame, form.heroes)
        lanes = self.lanes if rows else 0
        first = self.partials.load(fn, self.target, 0, row, lanes, name)
        with elements.scopes.loop(1, self.partials.count, 1, carried(first)) as loop:
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
