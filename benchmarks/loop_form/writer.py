"""The writer of nests: what is done at rows and points, alike on all targets.

A target says how its loops run (`run`), how reduced axes are swept (`sweep`), and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum

from benchmarks.loop_form.form import Kind, LoopForm, Positions

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.reduction.partials import Partials
from lowtide.codegen.cpu.reduction.totals import Totals
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.outputs import stored
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import Affine, Index, linear
from lowtide.codegen.value import Value
from lowtide.ir import Instruction
from lowtide.llvm.function import Integer


class Stage(Enum):
    """What a nest makes of rows: results; totals of parts of rows; results of such totals."""

    WHOLE = "whole"
    PARTS = "parts"
    FINISH = "finish"


class NestWriter(ABC):
    """Writes the function of a form; `lanes` is the length of vectors across rows."""

    def __init__(
        self, form: LoopForm, elements: Elements, stage: Stage, partials: Partials | None
    ) -> None:
        self.form = form
        self.elements = elements
        self.function = elements.function
        self.stage = stage
        self.partials = partials
        self.bound = form.bound(elements)
        self.known: dict[Instruction, Element] = {}
        self.part: Integer = 0
        for hero in form.sums.heroes if form.sums else ():
            elements.provide(hero, self._given(hero))

    def _given(self, hero: Instruction) -> Callable[..., Element]:
        return lambda at, mask: self.known[hero]

    @abstractmethod
    def sweep(
        self, rows: Sequence[Positions], mask: Mask | None, number: int, totals: Totals
    ) -> list[Value]:
        """Write sweep `number` along rows; return the totals of all of them in turn."""

    # -- rows ----------------------------------------------------------------------------------

    def rows(self, rows: Sequence[Positions], mask: Mask | None, lanes: int) -> None:
        """Write what is made at positions along all parallel axes; values have so many lanes."""
        form, elements, frame = self.form, self.elements, self.bound.frame
        if form.sums is None:
            indices = [form.index(elements, x) for x in rows]
            stored(elements, form.outputs, self.bound, indices, mask)
            return
        self.known.clear()
        for number in range(form.sweeps):
            heroes = [x for x in form.sums.heroes if form.sums.pass_of(x) == number]
            totals = Totals(elements, frame, heroes)
            if self.stage is Stage.FINISH:
                values = self.gathered(rows[0], mask, totals, lanes)
            else:
                values = self.sweep(rows, mask, number, totals)
            each = len(values) // len(rows)
            for i, at in enumerate(rows):
                self.swept(at, mask, number, totals, values[i * each : (i + 1) * each])

    def swept(
        self, at: Positions, mask: Mask | None, number: int, totals: Totals, values: list[Value]
    ) -> None:
        """Write what is done after sweep `number` of a row, which made totals."""
        if self.stage is Stage.PARTS:
            self.keep_part(at, mask, values)
            return
        lanes = values[0].lanes if values else 0
        self.known.update(zip(totals.heroes, totals.finished(values, lanes), strict=True))
        if number == self.form.sweeps - 1:
            self.store_rows(at, mask)

    def store_rows(self, at: Positions, mask: Mask | None) -> None:
        """Store the results that have one element for each row."""
        sums, elements = self.form.sums, self.elements
        assert sums is not None
        row, found = self.form.row(elements, at), []
        for result in [x for x in sums.results if not x.is_full]:
            place = sums.place(result, row, ())
            element = elements.all_at(result.source, place, self.bound.frame, mask)
            found.append((result, place, element.values[result.component]))
        for result, place, value in found:
            elements.store(self.bound.results[result.array], place, value, mask)

    # -- points --------------------------------------------------------------------------------

    def point(
        self,
        at: Positions,
        number: int,
        totals: Totals,
        before: list[Value],
        wanted: Mask | None,
        added: Mask | None,
        is_first: str | None = None,
    ) -> list[Value]:
        """Write a point of a sweep; return the totals after it, in lanes that are `added`."""
        index = self.form.index(self.elements, at)
        after = []
        if before:
            values = totals.taken(index, wanted, before[0].lanes)
            after = totals.added(before, values, added, is_first)
        if number == self.form.sweeps - 1:
            self.store_points([index], wanted)
        return after

    def store_points(self, points: Sequence[Index], mask: Mask | None) -> None:
        """Compute the results that have an element for each point, then store them."""
        assert self.form.sums is not None
        full = [x for x in self.form.sums.results if x.is_full]
        frame, elements = self.bound.frame, self.elements
        made = [(x, y, elements.at(x.source, y, frame, mask)) for y in points for x in full]
        for result, index, value in made:
            self.store(self.bound.results[result.array], index, value, mask)

    def store(self, array: Array, index: Index, value: Value, mask: Mask | None) -> None:
        """Store a value of a point."""
        self.elements.store(array, index, value, mask)

    # -- parts of rows ---------------------------------------------------------------------------

    def _row_number(self, at: Positions) -> Integer:
        own = self.form.numbers(Kind.PARALLEL)
        sizes = tuple([self.form.axes[x].size for x in own])
        return self.elements.indices.scalar(linear(tuple([at[x] for x in own]), sizes))

    def keep_part(self, at: Positions, mask: Mask | None, values: Sequence[Value]) -> None:
        """Store the totals of a part of a row."""
        assert self.partials is not None
        row, name = self._row_number(at), None if mask is None else mask.name
        self.partials.store(self.function, self.form.target, values, self.part, row, name)

    def loaded_part(
        self, at: Positions, part: Integer, lanes: int, mask: Mask | None
    ) -> list[Value]:
        """Load the totals of a part of a row."""
        assert self.partials is not None
        row, name = self._row_number(at), None if mask is None else mask.name
        return self.partials.load(self.function, self.form.target, part, row, lanes, name)

    def gathered(self, at: Positions, mask: Mask | None, totals: Totals, lanes: int) -> list[Value]:
        """The totals of a row, of which parts are in scratch."""
        assert self.partials is not None
        first = self.loaded_part(at, 0, lanes, mask)
        with self.elements.scopes.loop(1, self.partials.count, 1, carried(first)) as loop:
            more = self.loaded_part(at, loop.index, lanes, mask)
            after = totals.combined(renamed(first, loop.values), more)
            loop.next = [name for x in after for name in x.names]
        return renamed(first, loop.results)


def positions(numbers: Sequence[int], at: Sequence[Affine]) -> dict[int, Affine]:
    """Return positions by the numbers of their axes."""
    return dict(zip(numbers, at, strict=True))
