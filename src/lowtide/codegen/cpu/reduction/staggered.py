"""Runs along rows where the last one, which only stores, goes along with one of the next row.

So memory is read and written at the same time as most of the computing is done. This is for results
that caches have no room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeAlias

from lowtide.codegen.cpu.reduction.caching import Kept
from lowtide.codegen.cpu.reduction.grid import ReductionGrid
from lowtide.codegen.cpu.reduction.results import store_points, store_rows
from lowtide.codegen.cpu.reduction.rows import AHEAD_OF_ROWS, RowsKernel, row_bytes
from lowtide.codegen.cpu.reduction.strip import StripStep
from lowtide.codegen.cpu.reduction.totals import Totals
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elements.values import Element
from lowtide.codegen.indexing import Affine
from lowtide.codegen.library.scratch import ScratchArray
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value
from lowtide.ir import Instruction
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target

MOST_BYTES: Final = 1 << 15
"""Bytes of a row, of which two are in the caches at once."""

Known: TypeAlias = "dict[Instruction, Element]"


def is_staggered(grid: ReductionGrid) -> bool:
    """Whether rows are run along like this: reductions are over before the last run begins."""
    form = grid.form
    if grid.is_across or grid.row_count < 2 or form.last_pass == 0:
        return False
    are_over = all(form.pass_of(x) < form.last_pass for x in form.heroes)
    return are_over and row_bytes(grid) <= MOST_BYTES


class StaggeredRows(RowsKernel):
    """Writes the function; the values that are kept of a row and of the one before lie apart."""

    def __init__(self, grid: ReductionGrid, target: Target, name: str) -> None:
        super().__init__(grid, target, name=name, is_streaming=True)
        self._half: Integer = 0
        self._other: Integer = 0
        self._before: tuple[Sequence[Affine], Known] | None = None

    @property
    def _kept_count(self) -> int:
        lanes = max(self.grid.lanes, 1)
        return -(-self.grid.row_length // lanes) * lanes

    def _field(self, kept: Kept) -> ScratchArray:
        """Scratch of a thread for the values of two rows."""
        return self.scratch.add(kept.value.shape.element_type, 2 * self._kept_count)

    def _address(self, kept: Kept, step: StripStep) -> str:
        fn = self.function
        place = fn.add(self.elements.indices.scalar(step.linear), self._half)
        return self._kept_array(kept).address(fn, place)

    @cached_property
    def fetching(self) -> dict[int, int]:
        """In which run along a row operands are fetched, and how many bytes ahead."""
        run = self.form.last_pass - 1
        return {run: (row_bytes(self.grid) if run else 0) + AHEAD_OF_ROWS}

    # -- rows ----------------------------------------------------------------------------------

    def _blocks(self) -> None:
        """A row at a time, the first and the last one by themselves."""
        fn, elements = self.function, self.elements
        start, stop = self._bounds()
        with elements.scopes.when(fn.compare("slt", start, stop)):
            known = self._begun(start, None)
            flat = [x for hero in self.form.heroes for x in known[hero].values]
            with elements.scopes.loop(fn.add(start, 1), stop, 1, carried(flat)) as loop:
                before = self._split(renamed(flat, loop.values))
                known = self._begun(loop.index, before)
                loop.next = [
                    name
                    for hero in self.form.heroes
                    for x in known[hero].values
                    for name in x.names
                ]
            self._ended(fn.sub(stop, 1), self._split(renamed(flat, loop.results)))

    def _split(self, values: Sequence[Value]) -> Known:
        """What reductions yielded, from all values one after the other."""
        left = iter(values)
        return {
            hero: Element(
                tuple([next(left) for _ in range(len(hero.operands) // 2)]),
                self.elements.scopes.level,
            )
            for hero in self.form.heroes
        }

    def _at(self, row: Integer) -> list[Affine]:
        return decomposed(self.elements, row, self.grid.row_sizes)

    def _begun(self, row: Integer, before: Known | None) -> Known:
        """All runs along a row but the last, which is done for the row before."""
        fn, last = self.function, self.form.last_pass
        self._half = fn.mul(fn.rem(row, 2), self._kept_count)
        self._other = fn.sub(self._kept_count, self._half)
        rows = self._at(row)
        earlier = None if before is None else (self._at(fn.sub(row, 1)), before)
        self.known = {}
        for number in range(last):
            heroes = [x for x in self.form.heroes if self.form.pass_of(x) == number]
            totals = Totals(self.elements, self.bound.frame, heroes)
            self._before = earlier if number == last - 1 else None
            values = self._run(rows, None, number, totals, None)
            self.known.update(zip(heroes, totals.finished(values, 0), strict=True))
        self._before = None
        store_rows(self.grid, self.elements, self.bound, rows, None)
        return self.known

    def _ended(self, row: Integer, known: Known) -> None:
        """The last run along the last row."""
        self._half = self.function.mul(self.function.rem(row, 2), self._kept_count)
        self.known = known
        totals = Totals(self.elements, self.bound.frame, [])
        self._run(self._at(row), None, self.form.last_pass, totals, None)

    def _beside(self, step: StripStep) -> None:
        """What the last run along the row before does at a point."""
        if self._before is None:
            return
        rows, known = self._before
        here, self.known = self.known, known
        self._half, self._other = self._other, self._half
        row, inner = self.grid.index(self.elements, rows, step.inner)
        self._provide_kept(self.form.last_pass, step)
        point = self.form.point(row, inner)
        store_points(self.form, self.elements, self.bound, [point], step.mask)
        self._half, self._other = self._other, self._half
        self.known = here
