"""Short rows that lie along vectors, as many at a time as a vector has lanes.

The totals of a row are a vector, whose lanes would take more to add up than a short row does. Of
as many rows as there are lanes they are added up together, and what is made of them is computed
and stored for all these rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.codegen.cpu.reduction.folding import folded_turns
from lowtide.codegen.cpu.reduction.grid import ReductionGrid
from lowtide.codegen.cpu.reduction.results import store_rows
from lowtide.codegen.cpu.reduction.rows import UNIT, RowsKernel
from lowtide.codegen.cpu.reduction.totals import Totals
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.indexing import Affine
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value
from lowtide.llvm.function import Integer

LONGEST: Final = 32
"""Vectors of a row up to which adding up their lanes takes a part of its time that matters."""


def is_grouped(grid: ReductionGrid) -> bool:
    """Whether rows are reduced like this: short ones, of which a vector's lanes have one each."""
    form = grid.form
    if grid.is_across or grid.lanes < 4 or form.last_pass or not grid.rows:
        return False
    if any(x.is_full for x in form.results):
        return False
    return grid.row_length <= LONGEST * grid.lanes and grid.row_sizes[-1] >= grid.lanes


class GroupedRows(RowsKernel):
    """Writes the function; a unit is a block along the last loop over rows."""

    @property
    def _line_count(self) -> int:
        """How many lines of rows there are."""
        return self.grid.row_count // self.grid.row_sizes[-1]

    @property
    def _block(self) -> int:
        """How many rows of a line are one unit."""
        lanes, size = self.grid.lanes, self.grid.row_sizes[-1]
        most = max(1, UNIT // self.grid.row_length)
        return min(-(-most // lanes), -(-size // lanes)) * lanes

    @property
    def units(self) -> int:
        """The number of units."""
        return self._line_count * -(-self.grid.row_sizes[-1] // self._block)

    def _blocks(self) -> None:
        fn, elements, lanes = self.function, self.elements, self.grid.lanes
        size = self.grid.row_sizes[-1]
        blocks, whole = -(-size // self._block), size - size % lanes
        self._slots = self._stack()
        with elements.scopes.loop("%begin", "%end") as unit:
            lead = decomposed(elements, fn.div(unit.index, blocks), self.grid.row_sizes[:-1])
            start = fn.mul(fn.rem(unit.index, blocks), self._block)
            stop = fn.min(fn.add(start, self._block), size)
            with elements.scopes.loop(start, fn.min(stop, whole), lanes) as loop:
                self._group(lead, loop.index, lanes, None)
            if whole < size:
                mask = Mask(first_lanes(size - whole, lanes), lanes, 0)
                with elements.scopes.when(fn.compare("eq", stop, size)):
                    self._group(lead, whole, size - whole, mask)

    def _stack(self) -> list[tuple[str, str]]:
        """The type of each vector of totals, and where there is room for one of each row."""
        lanes = self.grid.lanes
        totals = Totals(self.elements, self.bound.frame, self.form.heroes)
        kinds = [x for v in totals.start(lanes) for x in [v.llvm_type] * len(v.names)]
        return [(x, self.function.stack(x, lanes)) for x in kinds]

    def _group(self, lead: Sequence[Affine], first: Integer, count: int, mask: Mask | None) -> None:
        """So many rows of a line from `first` on: their totals, then what is made of them."""
        fn, elements = self.function, self.elements
        size, lanes = self.grid.row_sizes[-1], self.grid.lanes
        totals = Totals(elements, self.bound.frame, self.form.heroes)
        self.known.clear()
        with elements.scopes.loop(0, count) as loop:
            row = elements.indices.variable(fn.add(first, loop.index), size)
            values = self._run([*lead, row], None, 0, totals, None)
            names = [x for v in values for x in v.names]
            for (type_, slots), name in zip(self._slots, names, strict=True):
                fn.store(type_, name, fn.gep(slots, loop.index, type_), 1)
        kinds = totals.start(lanes)
        found = totals.folded_rows(lambda number: self._loaded_row(kinds, number, count), lanes)
        finished = totals.finished(found, lanes)
        self.known.update(zip(self.form.heroes, finished, strict=True))
        row = lane_variable(elements, first, size)
        store_rows(self.grid, elements, self.bound, [*lead, row], mask)

    def _loaded_row(self, kinds: Sequence[Value], number: int, count: int) -> list[Value]:
        """The totals of a row; those of rows that there are not are those of the first."""
        place = number if number < count else 0
        given = iter(self._slots)
        return [
            Value(tuple([self._slot(*next(given), place) for _ in x.names]), x.type, x.lanes)
            for x in kinds
        ]

    def _slot(self, type_: str, slots: str, place: int) -> str:
        return self.function.load(type_, self.function.gep(slots, place, type_), 1)

    def _folded(self, totals: Totals, after: list[list[Value]]) -> list[Value]:
        return folded_turns(after, totals.combined)
