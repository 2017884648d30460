"""The search for the quickest sequence within one cap of bytes, for as long as there is time.

The first sequences are those of plans, and what is known of other caps with more runs put in. Each
round goes on from a sequence that is known: runs go and others come (`run_search.py`), and runs of
the outcome move. What is known of one cap is where the search for a lower one starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Orders
from typing import Final

import numpy as np

from lowtide.records import dataclass
from lowtide.remat.gaps import base_of
from lowtide.remat.levels import LevelSearch
from lowtide.remat.measure import step_bytes
from lowtide.remat.recompute import Recompute, RematPlan
from lowtide.remat.run_search import RunSearch
from lowtide.remat.tables import Int64Array, RematTables
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort

_ROUNDS: Final = {Effort.FAST: 8, Effort.DEFAULT: 12, Effort.PROOF: 48}
"""How many rounds are made for one cap."""
_TRIALS: Final = 200
"""Trials in each of the first rounds."""
_ROUNDS_OF_EQUAL_TRIALS: Final = 6
"""Behind so many rounds each one has twice as many trials."""
_ROUNDS_FROM_ONE: Final = 4
"""Behind so many rounds plans of other orders are searched, too: a plan is there sooner."""
_KEPT: Final = 4
"""The sequences that rounds go on from."""
_REACHES: Final = (60, 20, 8, 3, 1)


@dataclass(frozen=True, eq=False, slots=True)
class _Known:
    """A sequence, the bytes of its largest step, and its ticks."""

    sequence: Int64Array
    nbytes: int
    ticks: int


class BudgetSearch(LevelSearch):
    """Searches sequences for caps, each from what is known of others."""

    def __init__(
        self,
        tables: RematTables,
        orders: Orders[Int64Array],
        effort: Effort,
        deadline: Deadline | None = None,
    ) -> None:
        super().__init__(tables, orders, Effort.FAST, deadline)
        self._rounds = _ROUNDS[effort]
        self._known: list[_Known] = []
        self._begun: set[int] = set()
        self._seed = 0
        self._runs = RunSearch(tables)

    @property
    def deadline(self) -> Deadline | None:
        """When its searches have to end."""
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: Deadline | None) -> None:
        self._deadline = self._bounds.deadline = deadline

    def learn(self, other: BudgetSearch) -> None:
        """Know what another search of the same nodes and buffers has found."""
        for known in other._known:
            self._know(known.sequence)

    def first(self, cap: int) -> Int64Array | None:
        """Return a sequence of at most `cap` bytes, None where none is found.

        Those are tried that are known for other caps, and each order by itself.
        """
        if cap not in self._begun and cap >= self._bounds.bytes_of_steps:
            self._begun.add(cap)
            for known in self._nearest(cap):
                fitted = self._runs.fitted(known.sequence, cap)
                if fitted is not None:
                    self._add(fitted, cap)
            for maker, plan in self._first_plans(cap):
                self._add(maker.sequence(plan.dropped, plan.reach), cap)
        found = self._fitting(cap)
        return found[0].sequence if found else None

    def better(self, cap: int) -> Iterator[Int64Array]:
        """Yield sequences of at most `cap` bytes, each quicker than the one before it."""
        sequence = self.first(cap)
        if sequence is None:
            return
        yield sequence
        for number in range(self._rounds):
            if self._late() or self._is_near_bound(sequence, cap):
                return
            if number == _ROUNDS_FROM_ONE:
                self._from_orders(cap)
            self._round(cap, number)
            found = self._fitting(cap)[0]
            if found.ticks < self._ticks(sequence):
                sequence = found.sequence
                yield sequence

    def _fitting(self, cap: int) -> list[_Known]:
        """What is known within a cap, the quickest first."""
        return sorted([x for x in self._known if x.nbytes <= cap], key=lambda x: x.ticks)

    def _nearest(self, cap: int) -> list[_Known]:
        """What is known nearest to a cap: within it, the quickest."""
        return sorted(self._known, key=lambda x: (max(0, x.nbytes - cap), x.ticks))[:_KEPT]

    def _first_plans(self, cap: int) -> Iterator[tuple[Recompute, RematPlan]]:
        """Yield plans for a cap: on what is known near it, then one at once, else of all orders."""
        for known in self._nearest(cap):
            yield from self._on(known.sequence, cap)
        plans = list(self._quick(cap, []).plans)
        if plans:
            yield self._makers[plans[0].base], plans[0]
        else:
            yield from self._plans_of_orders(cap)

    def _plans_of_orders(self, cap: int) -> Iterator[tuple[Recompute, RematPlan]]:
        """Yield the best plans of different orders for a cap."""
        plans = [plan for reach in _REACHES for plan in self._from_each(cap, reach)]
        plans.sort(key=lambda plan: plan.key)
        first_of = {plan.base: plan for plan in reversed(plans)}
        for plan in sorted(first_of.values(), key=lambda plan: plan.key)[:_KEPT]:
            yield self._makers[plan.base], plan

    def _round(self, cap: int, number: int) -> None:
        """Search near a sequence: the quickest in every other round, else the next ones in turn."""
        known = self._fitting(cap)[:_KEPT]
        turn = 1 + number // 2 % (_KEPT - 1)
        chosen = known[min(turn, len(known) - 1) if number % 2 else 0]
        trials = _TRIALS << number // _ROUNDS_OF_EQUAL_TRIALS
        self._seed += 1
        found = self._runs.searched(chosen.sequence, cap, trials, self._late, self._seed)
        self._add(found, cap)

    def _from_orders(self, cap: int) -> None:
        """Search near plans of different orders."""
        for maker, plan in self._plans_of_orders(cap):
            if self._late():
                return
            start = self._improver.improved(maker.sequence(plan.dropped, plan.reach), cap)
            self._seed += 1
            found = self._runs.searched(start, cap, _TRIALS, self._late, self._seed)
            self._add(found, cap)

    def _on(self, sequence: Int64Array, cap: int) -> list[tuple[Recompute, RematPlan]]:
        """The plan that a sequence is, on the order of its first runs; none where that fails."""
        _, first = np.unique(sequence, return_index=True)
        maker = Recompute(base_of(self._tables, sequence[np.sort(first)]), self._scratch)
        dropped = maker.base.dropped_in(sequence)
        plans = [maker.plan(0, dropped.copy(), cap, reach) for reach in _REACHES]
        found = [plan for plan in plans if plan is not None]
        return [(maker, min(found, key=lambda plan: plan.key))] if found else []

    def _add(self, sequence: Int64Array, cap: int) -> None:
        """Have a sequence within a cap known, improved where there is time."""
        if not self._late():
            sequence = self._improver.improved(sequence, cap)
        self._know(sequence)

    def _know(self, sequence: Int64Array) -> None:
        ticks = self._ticks(sequence)
        nbytes = int(step_bytes(self._tables, sequence).max(initial=0))
        if all((x.ticks, x.nbytes) != (ticks, nbytes) for x in self._known):
            self._known.append(_Known(sequence, nbytes, ticks))
