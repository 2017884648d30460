"""Choices of sequences for one budget: what each computation may hold follows from it.

What a step of the entry holds beside the loop that it runs leaves the loop's body so much room,
and so on down. The entry may let go of some of that, which leaves more: bodies are tried with the
room beside all that the schedule holds, beside what the step itself needs, and between these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.budgeting.graphs import BudgetGraph, BudgetGraphs
from lowtide.budgeting.offload import offloaded
from lowtide.budgeting.points import (
    ChoiceSearch,
    HeldBodies,
    Progress,
    SequenceChoice,
    orders_of,
    plain_seconds,
)
from lowtide.cost.machine import HostLink
from lowtide.remat.budget_search import BudgetSearch
from lowtide.remat.frontier import Point
from lowtide.remat.measure import footprints, step_bytes
from lowtide.remat.recompute import quick_sequence
from lowtide.remat.tables import Int64Array, tables_of
from lowtide.scheduling.module_scheduler import SCHEDULERS
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort
from lowtide.search.stopwatch import Stopwatch

_PARTS: Final = (1.1, 1.0, 0.5, 0.0)
"""Which part of what the schedule holds beside a step's own needs has room there."""
_PARTS_BESIDE_LINK: Final = (0.0, 0.5, 1.0)
"""The same where values of the entry may leave."""

_ALIKE: Final = 1.5
"""Choices for another room are alike where they take at most so many times the extra time."""

_FIRST_ROOMS: Final = 0.96, 0.98
"""The parts of a budget for which a first plan is made where that is alike: its arena is above what
graphs say."""

_DEAR: Final = 0.2
"""A first plan of more than this part of a run in extra time is sought from other orders, too."""

_ORDERS: Final = 1 + len(SCHEDULERS)
"""From so many orders a first plan is made then."""

_KEPT_SEARCHES: Final = 12
"""Searches in graphs are kept as long as they are not more than this."""

_BODIES_TIME: Final = 0.4
"""The part of the time left in which bodies are searched further, ahead of the entry."""


def quick_choice(graphs: BudgetGraphs, budget: int) -> SequenceChoice | None:
    """Return a choice for a budget, each sequence found in one try; None where none is found."""
    return _QuickSearch(graphs, Effort.FAST, Deadline(), lambda text: None).choice(budget)


def offload_choices(
    graphs: BudgetGraphs, budget: int, link: HostLink, deadline: Deadline, progress: Progress
) -> tuple[SequenceChoice, ...]:
    """Return choices for a budget with values in the host's memory, cheapest first.

    The computations that the entry runs are brought to less room as long as none fits.
    """
    search = _OffloadSearch(graphs, Effort.FAST, deadline, progress)
    return search.choices_within(budget, link)


class _RoomSearch(ChoiceSearch):
    """Searches in which computations keep to the room that a budget leaves them."""

    rooms: list[int]

    def held_beside(self, budget: int, part: float) -> HeldBodies:
        """Return what bodies hold in the room that some part of a schedule's values leaves."""
        self.rooms = self._rooms(budget, part)
        return self.held(part)

    def _rooms(self, budget: int, part: float) -> list[int]:
        """The bytes that each computation may hold; callers stand behind what they run."""
        graphs = self.graphs.graphs
        found: list[int | None] = [None] * len(graphs)
        found[-1] = budget + self.graphs.entry.state_bytes
        for number in range(len(graphs) - 1, -1, -1):
            calls, room = graphs[number].found.calls, found[number]
            if not calls or room is None:
                continue
            around = self._around(graphs[number], part)
            for call in calls:
                left = room - around[call.node] + call.less
                known = found[call.callee]
                found[call.callee] = left if known is None else min(known, left)
        return [self.plain.peaks[i] if x is None else max(0, x) for i, x in enumerate(found)]

    def _around(self, graph: BudgetGraph, part: float) -> list[int]:
        """Per node what a step holds beside what it runs: its own needs, and a part of the rest."""
        memory = graph.holding(self.plain.peaks, self.plain.totals)
        tables = tables_of(memory, graph.once)
        least = footprints(tables)
        steps = np.empty_like(least)
        steps[graph.order] = step_bytes(tables, graph.order)
        found = least + np.ceil(part * (steps - least)).astype(np.int64) - memory.inner_bytes
        return [int(x) for x in found]

    def point(
        self, number: int, graph: BudgetGraph, memory: MemoryGraph, share: float
    ) -> Point | None:
        """Return the sequence of a computation in its room; None where it stays as it is."""
        room = self.rooms[number]
        tables = tables_of(memory, graph.once)
        needed = int(step_bytes(tables, graph.order).max(initial=0))
        if needed <= room or not self.is_large(number):
            return None
        least = int(footprints(tables).max(initial=0))
        for cap in dict.fromkeys([max(room, least), (max(room, least) + needed) // 2]):
            found = self.sequence(number, graph, memory, cap)
            if found is not None:
                peak = int(step_bytes(tables, found).max(initial=0))
                return Point(peak, tables.seconds(found), tuple(found.tolist()))
        return None

    def sequence(
        self, number: int, graph: BudgetGraph, memory: MemoryGraph, cap: int
    ) -> Int64Array | None:
        """Return a sequence of at most `cap` bytes, found in one try; None where none is found."""
        return quick_sequence(memory, graph.order, cap, graph.once)

    @property
    def parts(self) -> tuple[float, ...]:
        """What is tried: one where the entry runs nothing."""
        return _PARTS if len(self.graphs.graphs) > 1 else _PARTS[1:2]


class _QuickSearch(_RoomSearch):
    def choice(self, budget: int) -> SequenceChoice | None:
        graph, seen = self.graphs.entry, set[tuple[int, ...]]()
        for part in self.parts:
            held = self.held_beside(budget, part)
            if held.peaks in seen:
                continue
            seen.add(held.peaks)
            memory = graph.holding(held.peaks, held.totals)
            found = quick_sequence(memory, graph.order, budget + graph.state_bytes, graph.once)
            if found is not None:
                return self.choice_of(held, memory, _point_of(graph, memory, found))
        return None


class TargetSearch(_RoomSearch):
    """Searches choices for budgets, each of which starts from what others have found."""

    def __init__(
        self, graphs: BudgetGraphs, effort: Effort, deadline: Deadline, progress: Progress
    ) -> None:
        super().__init__(graphs, effort, deadline, progress)
        self._searches: dict[tuple[int, bytes, bytes], BudgetSearch] = {}
        self._latest: dict[int, BudgetSearch] = {}
        self._is_deep = self._is_ended = False
        self._part: float | None = None
        self._seconds = 0.0
        """What was best the last time, and its extra seconds."""
        self._whole = deadline
        self._schedule_watch, self._orders_watch = Stopwatch(deadline), Stopwatch(deadline)
        """What a choice from the schedule takes, and one from each order."""

    def best(self, budget: int, deadline: Deadline) -> SequenceChoice | None:
        """Return the quickest choice found for a budget until the deadline."""
        self.deadline, self._is_ended = deadline, deadline.is_timed
        begun = self._begun(budget)
        if not begun:
            return None
        best = min(begun, key=lambda x: x[0].extra_seconds)
        self._part, self._seconds = best[1], best[0].extra_seconds
        self._is_deep = True
        try:
            self.deadline = deadline.part(_BODIES_TIME)
            held = self.held_beside(budget, best[1])
        finally:
            self._is_deep, self.deadline = False, deadline
        found = [best[0], *self._choices(held, budget)]
        return min(found, key=lambda x: x.extra_seconds)

    def quick(self, budget: int, reserve: float | None = None) -> SequenceChoice | None:
        """Return a choice for a budget, made at once; for somewhat less where that is alike.

        It is made from the schedule or, where that gives none or a dear one, from each order. With
        a deadline nothing else is begun that by what its like has taken ends less than `reserve`
        seconds ahead of it; where that is None, until there is one.
        """
        self.deadline = self._whole
        with self._schedule_watch.running():
            found = quick_choice(self.graphs, budget)
        enough = math.inf if found is None else _ALIKE * found.extra_seconds
        for part in _FIRST_ROOMS:
            if not self._has_time(self._schedule_watch, found, reserve):
                break
            less = quick_choice(self.graphs, int(budget * part))
            if less is not None and less.extra_seconds <= enough:
                found = less
                break
        most = _DEAR * plain_seconds(self.graphs)
        if found is not None and found.extra_seconds <= most:
            return found
        for part in (1.0, _FIRST_ROOMS[-1]):
            if not self._has_time(self._orders_watch, found, reserve):
                break
            self.deadline = self._whole.part(less=reserve or 0.0)
            self._is_ended = self._whole.is_timed and reserve is not None
            with self._orders_watch.running():
                made = self.first(int(budget * part))
            if made is not None:
                return made
        return found

    def _has_time(
        self, watch: Stopwatch, found: SequenceChoice | None, reserve: float | None
    ) -> bool:
        """Whether another choice is tried."""
        if not self._whole.is_timed or (found is None and reserve is None):
            return True
        if watch.has_run:
            return watch.is_in_time(reserve or 0.0)
        return self._whole.leaves(_ORDERS * self._schedule_watch.reserve + (reserve or 0.0))

    def first(self, budget: int) -> SequenceChoice | None:
        """Return a choice for a budget, each sequence made in one try from each order."""
        begun = [choice for choice, _ in self._begun(budget)]
        return min(begun, key=lambda x: x.extra_seconds, default=None)

    def _begun(self, budget: int) -> list[tuple[SequenceChoice, float]]:
        """Choices made in one try each, with the part of what is held that bodies leave.

        Where a part was the best one before, others are tried only if it gives nothing alike.
        """
        found: list[tuple[SequenceChoice, float]] = []
        seen = set[tuple[int, ...]]()
        parts = self.parts if self._part is None else (self._part, *self.parts)
        watch = Stopwatch(self.deadline)
        for part in dict.fromkeys(parts):
            is_alike = found and found[0][0].extra_seconds <= _ALIKE * self._seconds
            if is_alike or (found and self.deadline.passed):
                break
            if self._is_ended and watch.has_run and not watch.is_in_time():
                break
            with watch.running():
                held = self.held_beside(budget, part)
                if held.peaks in seen:
                    continue
                seen.add(held.peaks)
                memory, search = self._entry(held)
                sequence = search.first(budget + self.graphs.entry.state_bytes)
            if sequence is not None:
                point = _point_of(self.graphs.entry, memory, sequence)
                found.append((self.choice_of(held, memory, point), part))
        return found

    def _choices(self, held: HeldBodies, budget: int) -> Iterator[SequenceChoice]:
        memory, search = self._entry(held)
        for sequence in search.better(budget + self.graphs.entry.state_bytes):
            point = _point_of(self.graphs.entry, memory, sequence)
            yield self.choice_of(held, memory, point)

    def _entry(self, held: HeldBodies) -> tuple[MemoryGraph, BudgetSearch]:
        graph = self.graphs.entry
        memory = graph.holding(held.peaks, held.totals)
        return memory, self._search_in(len(held.peaks), graph, memory)

    def sequence(
        self, number: int, graph: BudgetGraph, memory: MemoryGraph, cap: int
    ) -> Int64Array | None:
        """Return a sequence of at most `cap` bytes, the best one known where it is searched on."""
        search = self._search_in(number, graph, memory)
        if not self._is_deep:
            return search.first(cap)
        return next(reversed(list(search.better(cap))), None)

    def _search_in(self, number: int, graph: BudgetGraph, memory: MemoryGraph) -> BudgetSearch:
        """The search in a graph, which knows what was found where its callees took other room."""
        key = number, memory.inner_bytes.tobytes(), memory.seconds.tobytes()
        if key not in self._searches:
            self.progress(f"recomputation in {graph.computation.name}")
            tables = tables_of(memory, graph.once)
            latest = self._latest.get(number)
            found = BudgetSearch(tables, orders_of(graph, memory), self.effort, self.deadline)
            if latest is not None:
                found.learn(latest)
            self._searches[key] = found
            while len(self._searches) > _KEPT_SEARCHES:
                self._searches.pop(next(iter(self._searches)))
        self._latest[number] = self._searches[key]
        self._latest[number].deadline = self.deadline
        return self._latest[number]


class _OffloadSearch(_RoomSearch):
    def choices_within(self, budget: int, link: HostLink) -> tuple[SequenceChoice, ...]:
        graph, seen = self.graphs.entry, set[tuple[int, ...]]()
        self.progress(f"values of {graph.computation.name} in the host's memory")
        for part in _PARTS_BESIDE_LINK if len(self.graphs.graphs) > 1 else _PARTS[:1]:
            held = self.held_beside(budget, part)
            if held.peaks in seen:
                continue
            seen.add(held.peaks)
            found = self._offloaded(held, budget + graph.state_bytes, link)
            if found or self.deadline.passed:
                return tuple(sorted(found, key=lambda x: (x.extra_seconds, x.nbytes)))
        return ()

    def _offloaded(self, held: HeldBodies, cap: int, link: HostLink) -> list[SequenceChoice]:
        graph = self.graphs.entry
        memory = graph.holding(held.peaks, held.totals)
        inside = float(memory.seconds.sum()) - self.plain.totals[graph.computation]
        return [
            SequenceChoice(
                made.peak_bytes - graph.state_bytes,
                max(0.0, made.extra_seconds + inside),
                {**held.sequences, graph.computation: made.steps},
            )
            for made in dict.fromkeys(offloaded(graph, memory, cap, link, self.deadline))
        ]


def _point_of(graph: BudgetGraph, memory: MemoryGraph, sequence: Int64Array) -> Point:
    """A sequence as a point."""
    tables = tables_of(memory, graph.once)
    peak = int(step_bytes(tables, sequence).max(initial=0))
    return Point(peak, tables.seconds(sequence), tuple(sequence.tolist()))
