"""The sums of reductions: one list of values for all reductions of a run along a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from lowtide.codegen.cpu.reduction.folding import folded_lanes, folded_rows
from lowtide.codegen.cpu.reduction.form import ReductionForm
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.parts import chosen
from lowtide.codegen.elements.reducers import Reducer, neutral
from lowtide.codegen.elements.values import CallFrame, Element, Mask
from lowtide.codegen.indexing import Index
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction


@final
class Totals:
    """The totals of some reductions, one after the other, each with as many as it returns.

    Values here are lists in that order, in the types in which they are added up.
    """

    def __init__(self, elements: Elements, frame: CallFrame, heroes: Sequence[Instruction]) -> None:
        self.elements = elements
        self.frame = frame
        self.heroes = tuple(heroes)
        self.reducers = [Reducer.of(x.called_computations[0]) for x in heroes]

    @property
    def types(self) -> list[ElementType]:
        """The types of the totals."""
        return [x for reducer in self.reducers for x in reducer.types]

    @property
    def are_monoids(self) -> bool:
        """Whether all have neutral elements."""
        return all(x.opcode is not None for x in self.reducers)

    def _parts(self, values: Sequence[Value]) -> list[Sequence[Value]]:
        found, first = [], 0
        for reducer in self.reducers:
            found.append(values[first : first + len(reducer.types)])
            first += len(reducer.types)
        return found

    def initial(self) -> list[Value]:
        """Return the initial values of the reductions."""
        found = []
        for hero, reducer in zip(self.heroes, self.reducers, strict=True):
            given = hero.operands[len(hero.operands) // 2 :]
            elements = [self.elements.all_at(x, (), self.frame) for x in given]
            found += [x.values[0] for x in reducer.taken(self.elements, elements)]
        return found

    def start(self, lanes: int) -> list[Value]:
        """Return what totals are before the first value: neutral where there is such a thing.

        Otherwise any value of the type, which the first value has to replace.
        """
        found = []
        for reducer, initial in zip(self.reducers, self._parts(self.initial()), strict=True):
            if reducer.opcode is not None:
                found.append(neutral(reducer.opcode, reducer.types[0]))
            else:
                found += initial
        return self.widened(found, lanes)

    def widened(self, values: Sequence[Value], lanes: int) -> list[Value]:
        """Return values as vectors."""
        if not lanes:
            return list(values)
        level = self.elements.scopes.level
        return [x if x.lanes else self.elements.vectors.splat(x, level) for x in values]

    def taken(self, index: Index, mask: Mask | None, lanes: int) -> list[Value]:
        """Return what is reduced at a point of the space."""
        found = []
        for hero, reducer in zip(self.heroes, self.reducers, strict=True):
            data = hero.operands[: len(hero.operands) // 2]
            elements = [self.elements.all_at(x, index, self.frame, mask) for x in data]
            found += [x.values[0] for x in reducer.taken(self.elements, elements)]
        return self.widened(found, lanes)

    def combined(self, totals: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Return the totals after values."""
        found = []
        pairs = zip(self.reducers, self._parts(totals), self._parts(values), strict=True)
        for reducer, before, more in pairs:
            found += reducer.combined(self.elements, before, more)
        return self.widened(found, max([x.lanes for x in totals], default=0))

    def where(self, mask: Mask, yes: Sequence[Value], no: Sequence[Value]) -> list[Value]:
        """Return one or the other in each lane."""
        level = self.elements.scopes.level
        return list(
            chosen(
                self.elements, mask, Element(tuple(yes), level), Element(tuple(no), level)
            ).values
        )

    def added(
        self,
        totals: Sequence[Value],
        values: Sequence[Value],
        mask: Mask | None,
        is_first: str | None,
    ) -> list[Value]:
        """Return the totals after values, in lanes where a mask holds.

        `is_first` is an i1 that tells, of reductions without a neutral element, that there are no
        totals yet.
        """
        after = self.combined(totals, values)
        if is_first is not None:
            after = self.where(Mask(is_first, 0, self.elements.scopes.level), values, after)
        return after if mask is None else self.where(mask, after, totals)

    def folded(self, totals: Sequence[Sequence[Value]]) -> list[Value]:
        """Return the total of several totals and of all of their lanes, without lanes."""
        return folded_lanes(self.elements.function, totals, self.combined)

    def folded_rows(self, row: Callable[[int], list[Value]], lanes: int) -> list[Value]:
        """Return totals with that of all lanes of `row(i)` in lane i."""
        return folded_rows(self.elements.function, row, lanes, self.combined)

    def finished(self, totals: Sequence[Value], rows: int) -> list[Element]:
        """Return the result of each reduction, the initial value included.

        `rows` is the number of lanes, 0 where totals are single values.
        """
        whole = self.combined(self.widened(self.initial(), rows), totals)
        found = []
        for reducer, part in zip(self.reducers, self._parts(whole), strict=True):
            values = reducer.finished(self.elements, part)
            found.append(Element(tuple(values), self.elements.scopes.level))
        return found


def total_types(form: ReductionForm) -> list[ElementType]:
    """Return the types of the totals of all reductions of a form."""
    return [x for y in form.heroes for x in Reducer.of(y.called_computations[0]).types]
