"""Plans of one scheduled module, with recomputation and without, to choose from for budgets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from lowtide.budgeting.fits import NEXT_ROOMS, PlannedPoint, less_room
from lowtide.budgeting.graphs import BudgetGraphs, budget_graphs
from lowtide.budgeting.points import Progress, SequenceChoice, choices
from lowtide.budgeting.rewriting import with_sequences
from lowtide.budgeting.targets import TargetSearch, offload_choices
from lowtide.compiler import PlanOptions
from lowtide.compiler import plan as plan_module
from lowtide.cost.machine import HostLink
from lowtide.search.deadline import Deadline
from lowtide.search.stopwatch import Stopwatch

_MARGIN: Final = 1.25
"""Where graphs are exact, no arena is smaller than what they say by more than this factor: copies
that share a buffer may save a little."""

_QUICK_TRIES: Final = 4
"""How often a first plan is tried."""

_LATE_ROOM: Final = 0.96
"""Behind the deadline no more than this part of a budget is asked for where a first try failed."""

_TRIES_IN_TIME: Final = 3  # With less time than for these, what is likely to fit is asked for.
_TARGET_TIME: Final = 0.4
"""The part of the time left in which a sequence for one budget is searched."""

_PLANNING: Final = 0.2
"""A first plan of a choice is expected to take this part of what the plain plan has taken."""

_LINK_SHARES: Final = tuple([k / 10 for k in range(9, 0, -1)])
"""For which parts of the plain arena values are stored in the host's memory without a budget."""

_LINK_TIME: Final = 0.5
"""The part of the time left in which values are stored with the host: what recomputation does alone
has the rest."""

_LINK_TRIES: Final = 6
"""With less time than for so many first tries, what recomputation does alone comes first."""

_DESCENT: Final = 0.9
_DESCENT_TRIES: Final = 12
"""The smallest plan beside a link is searched in so many steps, of this part of the bytes first."""

_KEPT_INSTRUCTIONS: Final = 100_000
"""Plans of a family are kept as long as they have not more instructions than this together."""


class Family:
    """The plans of one scheduled module, with recomputation and without."""

    def __init__(self, plain: PlannedPoint, options: PlanOptions, progress: Progress) -> None:
        self.plain = plain
        self._smallest = plain  # Of all plans that were made.
        self._options = options
        self._deadline = options.deadline
        self._progress = progress
        self._planned: OrderedDict[int, PlannedPoint] = OrderedDict()
        self._arenas: dict[int, int] = {}
        expected = _PLANNING * self._deadline.elapsed if self._deadline.is_timed else 0.0
        self._planning = Stopwatch(self._deadline, expected)
        self._first_tries = Stopwatch(self._deadline, expected)
        """What a plan takes, and a try of a first plan: a sequence made at once, and its plan."""
        self._began_late = self._deadline.is_timed and self._deadline.passed
        self._first_budget: int | None = None
        """Where the plain plan has taken all the time, this budget has a plan all the same."""
        self._filled = 1.0  # The part of the latest plan's arena that its graphs say it needs.
        self._at_hand: set[int] = set()
        """Budgets for which a first plan was made: more are made for them only in time."""
        self.late_for: set[int] = set()
        """Budgets for which something was not begun, as it would come behind the deadline."""
        self._asked = 0
        self._rooms: dict[int, float] = {}
        self._too_large: dict[int, float] = {}
        """Per budget the most bytes for which what fits was made, and the least for what did not.
        """

    @cached_property
    def graphs(self) -> BudgetGraphs:
        """The graphs of the plain plan's module."""
        options = self._options
        module = self.plain.plan.module
        return budget_graphs(module, options.scratch_bytes, options.target.machine)

    @cached_property
    def choices(self) -> tuple[SequenceChoice, ...]:
        """What there is to choose from beside the plain plan, cheapest first."""
        effort = self._options.search.effort
        return choices(self.graphs, effort, self._search_end(self._asked), self._progress)

    @cached_property
    def _targets(self) -> TargetSearch:
        effort = self._options.search.effort
        return TargetSearch(self.graphs, effort, self._deadline, self._progress)

    def _search_end(self, budget: int) -> Deadline:
        """The end of a search: where a plan is at hand, in time to make one of its outcome."""
        less = 0.0 if self._is_urgent(budget) else self._planning.reserve
        return self._deadline.part(less=less)

    def _is_too_late(self, budget: int) -> bool:
        """Whether another plan for a budget would come too late.

        Where none is at hand and only Ctrl-C ends the search, one is made.
        """
        if self._is_urgent(budget) or not (self._deadline.is_timed or budget in self._at_hand):
            return False
        return not self._planning.is_in_time() and self._comes_later(budget)

    def _comes_later(self, budget: int) -> bool:
        """True, once it is noted that the deadline came first for a budget."""
        self._deadline.leave_out()
        self.late_for.add(budget)
        return True

    def _is_urgent(self, budget: int) -> bool:
        """Whether a plan is made whatever the deadline: it is the first, no time was left for."""
        return self._began_late and not self._at_hand and budget == self._first_budget

    def quick(self, budget: int) -> PlannedPoint | None:
        """Return a plan that fits a budget, the first that is found; None where a few tries fail.

        Arenas may be larger than graphs say, so the next tries are for less. They are made where
        they end in time by what tries have taken; those for the first budget also where the plain
        plan left no time.
        """
        found = None
        if self._first_budget is None:
            self._first_budget = budget
        with self._deadline.until_interrupted():
            found = next(self._quick_plans(budget), None)
        if found is not None:
            self._at_hand.add(budget)
        return found

    def _quick_plans(self, budget: int) -> Iterator[PlannedPoint]:
        """Yield plans within a budget, each tried for as much less as the last one was above it."""
        has_time = self._deadline.leaves(_TRIES_IN_TIME * self._first_tries.seconds)
        room = budget * (1.0 if has_time else self._filled)
        is_urgent = self._is_urgent(budget)
        for number in range(_QUICK_TRIES):
            is_first = not (self._first_tries.has_run or self._deadline.passed)
            if not (is_urgent or is_first or self._first_tries.is_in_time()):
                self._comes_later(budget)
                return
            with self._first_tries.running():
                reserve = None if is_urgent else self._planning.reserve
                choice = self._targets.quick(int(room), reserve)
                found = None if choice is None else self._plan_of(choice)
            if choice is None or found is None:
                return
            if found.arena_bytes <= budget:
                if budget in self._too_large:
                    self._rooms[budget] = room
                yield found
            else:
                self._too_large[budget] = room
            room = less_room(room, choice.nbytes, found.arena_bytes, budget, number + 1)
            if self._deadline.passed:
                room = min(room, _LATE_ROOM * budget)

    def targeted(self, budget: int) -> PlannedPoint | None:
        """Return the quickest plan found for a budget by itself; asked again, it goes on."""
        found = None
        with self._deadline.until_interrupted():
            found = next(self._target_plans(budget), None)
        if found is not None:
            self._at_hand.add(budget)
        return found

    def _target_plans(self, budget: int) -> Iterator[PlannedPoint]:
        """Yield plans within a budget, each tried for as much less as the last one was above it."""
        has_time = self._deadline.leaves(_TRIES_IN_TIME * self._planning.seconds)
        room = self._room_between(budget, budget * (1.0 if has_time else self._filled))
        for number in range(_QUICK_TRIES):
            end = self._deadline.part(less=self._planning.reserve).part(_TARGET_TIME)
            choice = None if self._is_too_late(budget) else self._targets.best(int(room), end)
            if choice is None:
                return
            found = self._plan_of(choice)
            if found.arena_bytes <= budget:
                self._rooms[budget] = max(room, self._rooms.get(budget, 0.0))
                yield found
            else:
                self._too_large[budget] = min(room, self._too_large.get(budget, room))
            less = less_room(room, choice.nbytes, found.arena_bytes, budget, number + 1)
            room = self._room_between(budget, less)

    def _room_between(self, budget: int, first: float) -> float:
        """What to ask for: where some has fitted and more has not, halfway between them."""
        fitted = self._rooms.get(budget)
        if fitted is None:
            return first
        return (fitted + max(fitted, self._too_large.get(budget, fitted))) / 2

    def points(self, budget: int) -> Iterator[PlannedPoint]:
        """Yield the plans that fit a budget, cheapest first.

        Those that are known to need more are not worked out, nor from the deadline on more than the
        one that is likely to fit. Where there is a deadline only the best one found for this budget
        by itself is given, if there is one. Else the one that is likely to fit is worked out first:
        it is there where the others come too late.
        """
        if self.plain.arena_bytes <= budget:
            yield self.plain
            return
        self._asked = budget
        if self._deadline.is_timed:
            found = self.targeted(budget)
            if found is not None:
                yield found
                return
            if self._is_too_late(budget):
                return
            self._expect(budget)
        exact = self.graphs.is_exact
        for number, choice in enumerate(self.choices):
            if exact and choice.nbytes > budget * _MARGIN:
                continue
            is_last = self._deadline.passed and number not in self._arenas
            if is_last and choice.nbytes > budget:
                continue
            if number not in self._arenas and self._is_too_late(budget):
                return
            found = None
            with self._deadline.until_interrupted():
                found = self.planned(number) if self.arena_bytes(number) <= budget else None
            if found is not None:
                yield found
            if is_last:
                return

    def beside_link(self, budget: int) -> PlannedPoint | None:
        """Return the cheapest plan found within a budget with values in the host's memory.

        None where there is none, or the target has no link.
        """
        found, link = None, self._options.target.host_link
        if link is not None and not self._deadline.passed:
            with self._deadline.until_interrupted():
                found = next(self._link_plans(budget, link), None)
        return found

    def _link_plans(self, budget: int, link: HostLink) -> Iterator[PlannedPoint]:
        """Yield plans within a budget, cheapest first; arenas may be larger than graphs say."""
        end = self._search_end(budget).part(_LINK_TIME)
        for room in (budget, int(budget * NEXT_ROOMS[1])):
            found = offload_choices(self.graphs, room, link, end, self._progress)
            for choice in found[:_QUICK_TRIES]:
                if self._is_too_late(budget):
                    return
                planned = self._plan_of(choice)
                if planned.arena_bytes <= budget:
                    yield planned

    @property
    def has_time_for_links(self) -> bool:
        """Whether values are stored with the host ahead of what recomputation does alone."""
        is_timed = self._deadline.is_timed
        return not is_timed or self._deadline.leaves(_LINK_TRIES * self._first_tries.reserve)

    def link_descent(self, start: PlannedPoint) -> Iterator[PlannedPoint]:
        """Yield plans with values in the host's memory of ever fewer bytes than a plan has.

        Each budget is some part of the last that was met; where none fits it is halfway to that.
        """
        most, part = start.arena_bytes, _DESCENT
        for _ in range(_DESCENT_TRIES):
            if self._is_late:
                return
            found = self.beside_link(int(most * part))
            if found is None:
                part = (1 + part) / 2
            else:
                most = found.arena_bytes
                yield found

    def link_curve(self) -> Iterator[PlannedPoint]:
        """Yield plans with values in the host's memory, for ever less of the plain arena."""
        for share in _LINK_SHARES:
            found = self.beside_link(int(self.plain.arena_bytes * share))
            if found is None:
                return
            yield found

    def _expect(self, budget: int) -> None:
        """Work out the cheapest plan that fits a budget by the graphs."""
        fitting = (i for i, choice in enumerate(self.choices) if choice.nbytes <= budget)
        with self._deadline.until_interrupted():
            likely = next(fitting, None)
            if likely is not None and not self._is_too_late(budget):
                self.arena_bytes(likely)

    @property
    def _is_late(self) -> bool:
        """Whether a plan that is begun now ends behind a time that was set."""
        return self._deadline.is_timed and not self._planning.is_in_time()

    def is_left_out(self, number: int) -> bool:
        """Whether the plan of a choice is not made yet, and would come behind the deadline."""
        return number not in self._arenas and (self._deadline.passed or self._is_late)

    def arena_bytes(self, number: int) -> int:
        """Return the arena of the plan of a choice, worked out when it is first asked for."""
        if number not in self._arenas:
            self._arenas[number] = self.planned(number).arena_bytes
        return self._arenas[number]

    def extra_seconds(self, number: int) -> float:
        """Return the seconds of a choice beyond those of the module's plain plan."""
        return self.plain.extra_seconds + self.choices[number].extra_seconds

    def planned(self, number: int) -> PlannedPoint:
        """Return the plan of a choice; of large modules only the last few are kept."""
        if number not in self._planned:
            found = self._planned[number] = self._plan_of(self.choices[number])
            most = max(2, _KEPT_INSTRUCTIONS // max(1, found.plan.module.instruction_count))
            while len(self._planned) > most:
                self._planned.popitem(last=False)
        return self._planned[number]

    def _plan_of(self, choice: SequenceChoice) -> PlannedPoint:
        self._progress(f"planning for {choice.nbytes:,} bytes")
        with self._planning.running():
            module = with_sequences(self.graphs.module, self.graphs.flows, choice.sequences)
            plan = plan_module(module, self._options.at_stage("input"))
        self._filled = min(1.0, choice.nbytes / max(1, plan.report.ladder.arena_bytes))
        extra = self.plain.extra_seconds + choice.extra_seconds
        found = PlannedPoint(plan, extra, self.plain.variant, choice.has_transfers)
        self._smallest = min(self._smallest, found, key=_by_bytes)
        return found

    def least(self) -> PlannedPoint:
        """Return the plan of the smallest arena, the cheapest of equal ones.

        From the deadline on, of those not worked out yet at most the most likely one is.
        """
        best, exact = self._smallest, self.graphs.is_exact
        least = best.arena_bytes
        count = 0 if self._is_late and "choices" not in vars(self) else len(self.choices)
        for number in reversed(range(count)):
            if exact and self.choices[number].nbytes > least * _MARGIN:
                continue
            is_begun = number == count - 1 and not self._deadline.is_timed
            if not is_begun and self.is_left_out(number):
                continue
            with self._deadline.until_interrupted():
                arena, extra = self.arena_bytes(number), self.extra_seconds(number)
                if (arena, extra) < (least, best.extra_seconds):
                    best, least = self.planned(number), arena
        return min([best, *self.link_descent(best)], key=_by_bytes)


def _by_bytes(point: PlannedPoint) -> tuple[int, float]:
    return point.arena_bytes, point.extra_seconds
