"""Plans of one module for many budgets.

The plans to choose from do not depend on the budget. A budget picks the first plan, in order of
extra time, whose arena fits. So it is never exceeded, and as it grows the extra time never rises.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from time import process_time
from typing import Final

from lowtide.budgeting.bounds import ModuleBound, ModuleBounds
from lowtide.budgeting.errors import OverMemoryError, refusal
from lowtide.budgeting.fits import NEXT_ROOMS, Fit, PlannedPoint, less_room
from lowtide.budgeting.graphs import BudgetGraphs, budget_graphs
from lowtide.budgeting.points import (
    Progress,
    SequenceChoice,
    choices,
    plain_seconds,
    xla_choice,
)
from lowtide.budgeting.rewriting import with_sequences
from lowtide.budgeting.targets import TargetSearch, offload_choices
from lowtide.budgeting.variants import MEMORY_VARIANTS, ProgramVariant, variant_of
from lowtide.compiler import DEFAULT_PLAN, ModulePlan, PlanOptions
from lowtide.compiler import plan as plan_module
from lowtide.compiler.planned_passes import TooLateError
from lowtide.cost.machine import HostLink
from lowtide.ir import Module
from lowtide.ir.sizes import Budget, in_bytes
from lowtide.search.deadline import Deadline

_MARGIN: Final = 1.25
"""Where graphs are exact, no arena is smaller than what they say by more than this factor: copies
that share a buffer may save a little."""

_QUICK_TRIES: Final = 4
"""How often a first plan is tried."""

_TRIES_IN_TIME: Final = 3  # With less time than for these, what is likely to fit is asked for.
_TARGET_TIME: Final = 0.4
"""The part of the time left in which a sequence for one budget is searched."""

_LINK_SHARES: Final = tuple([k / 10 for k in range(9, 0, -1)])
"""For which parts of the plain arena values are stored in the host's memory without a budget."""

_DESCENT: Final = 0.9
_DESCENT_TRIES: Final = 12
"""The smallest plan beside a link is searched in so many steps, of this part of the bytes first."""

_CURVE_SEARCHES: Final = 4  # All plans by recomputation alone take as long as so many with copies.

_KEPT_INSTRUCTIONS: Final = 100_000
"""Plans of a family are kept as long as they have not more instructions than this together."""


class Family:
    """The plans of one scheduled module, with recomputation and without."""

    def __init__(self, plain: PlannedPoint, options: PlanOptions, progress: Progress) -> None:
        self.plain = plain
        self._options = options
        self._deadline = options.deadline
        self._progress = progress
        self._planned: OrderedDict[int, PlannedPoint] = OrderedDict()
        self._arenas: dict[int, int] = {}
        self._plan_seconds = 0.0
        """What making a plan has taken at most, of CPU."""
        self._filled = 1.0  # The part of the latest plan's arena that its graphs say it needs.
        self._at_hand: set[int] = set()
        """Budgets for which a first plan was made: more are made for them only in time."""
        self._asked = 0
        self._rooms: dict[int, float] = {}  # The bytes for which what fits a budget was made.

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
        less = self._plan_seconds if budget in self._at_hand else 0.0
        return self._deadline.part(less=less)

    def _is_too_late(self, budget: int) -> bool:
        """Whether a plan for a budget is at hand, and another one would come too late."""
        return budget in self._at_hand and not self._deadline.leaves(self._plan_seconds)

    def quick(self, budget: int) -> PlannedPoint | None:
        """Return a plan that fits a budget, the first that is found; None where a few tries fail.

        Arenas may be larger than graphs say, so the next tries are for less.
        """
        found = None
        with self._deadline.until_interrupted():
            found = next(self._quick_plans(budget), None)
        if found is not None:
            self._at_hand.add(budget)
        return found

    def _quick_plans(self, budget: int) -> Iterator[PlannedPoint]:
        """Yield plans within a budget, each tried for as much less as the last one was above it."""
        room = float(budget)
        for _ in range(_QUICK_TRIES):
            choice = self._targets.quick(int(room), self._deadline)
            if choice is None:
                return
            found = self._plan_of(choice)
            if found.arena_bytes <= budget:
                yield found
            room = less_room(room, choice.nbytes, found.arena_bytes, budget)

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
        has_time = self._deadline.leaves(_TRIES_IN_TIME * self._plan_seconds)
        room = self._rooms.get(budget, budget * (1.0 if has_time else self._filled))
        for _ in range(_QUICK_TRIES):
            end = self._deadline.part(less=self._plan_seconds).part(_TARGET_TIME)
            choice = None if self._is_too_late(budget) else self._targets.best(int(room), end)
            if choice is None:
                return
            found = self._plan_of(choice)
            if found.arena_bytes <= budget:
                self._rooms[budget] = room
                yield found
            room = less_room(room, choice.nbytes, found.arena_bytes, budget)

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
        for room in (budget, int(budget * NEXT_ROOMS[1])):
            end = self._search_end(budget)
            found = offload_choices(self.graphs, room, link, end, self._progress)
            for choice in found[:_QUICK_TRIES]:
                if self._is_too_late(budget):
                    return
                planned = self._plan_of(choice)
                if planned.arena_bytes <= budget:
                    yield planned

    def link_descent(self, start: PlannedPoint) -> Iterator[PlannedPoint]:
        """Yield plans with values in the host's memory of ever fewer bytes than a plan has.

        Each budget is some part of the last that was met; where none fits it is halfway to that.
        """
        most, part = start.arena_bytes, _DESCENT
        for _ in range(_DESCENT_TRIES):
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
        begin = process_time()
        module = with_sequences(self.graphs.module, self.graphs.flows, choice.sequences)
        plan = plan_module(module, self._options.at_stage("input"))
        self._plan_seconds = max(self._plan_seconds, process_time() - begin)
        self._filled = min(1.0, choice.nbytes / max(1, plan.report.ladder.arena_bytes))
        extra = self.plain.extra_seconds + choice.extra_seconds
        return PlannedPoint(plan, extra, self.plain.variant, choice.has_transfers)

    def least(self) -> PlannedPoint:
        """Return the plan of the smallest arena, the cheapest of equal ones.

        From the deadline on, of those not worked out yet only the most likely one is.
        """
        best, least, exact = self.plain, self.plain.arena_bytes, self.graphs.is_exact
        for number in reversed(range(len(self.choices))):
            if exact and self.choices[number].nbytes > least * _MARGIN:
                continue
            is_likely = number == len(self.choices) - 1
            if self._deadline.passed and number not in self._arenas and not is_likely:
                continue
            with self._deadline.until_interrupted():
                arena, extra = self.arena_bytes(number), self.extra_seconds(number)
                if (arena, extra) < (least, best.extra_seconds):
                    best, least = self.planned(number), arena
        return min([best, *self.link_descent(best)], key=lambda x: (x.arena_bytes, x.extra_seconds))


class BudgetPlanner:
    """Plans of one module for many budgets: nothing is worked out twice, or before it is needed."""

    def __init__(
        self,
        module: Module,
        plain: ModulePlan,
        options: PlanOptions = DEFAULT_PLAN,
        variants: Sequence[ProgramVariant] = MEMORY_VARIANTS,
        progress: Progress | None = None,
    ) -> None:
        """Take a module and the plan that it has without a budget; all plans have its options."""
        self._module = module
        self._options = options.begun()
        self._tried = variants
        self.deadline = self._options.deadline
        """When its searches have to end."""
        self._progress = progress or (lambda text: None)
        self.own = Family(PlannedPoint(plain, 0.0), self._options, self._progress)
        self._plain_seconds = self.deadline.elapsed if self.deadline.is_timed else 0.0
        """What the plain plan has taken, with what came before it."""
        self._variants: dict[int, Family | None] = {}
        self._bases: dict[str, Module] = {}
        """The module at the stages at which variants begin."""

    @property
    def link(self) -> HostLink | None:
        """The link to the host over which values may be stored there; None where there is none."""
        return self._options.target.host_link

    @cached_property
    def base_seconds(self) -> float:
        """The seconds of one run of the module in the plain plan, by the model."""
        return plain_seconds(self.own.graphs)

    @cached_property
    def bounds(self) -> ModuleBounds:
        """The bounds on the extra time of the module as it is."""
        return ModuleBounds(self.own.graphs, self._options.search.effort, self.deadline, self.link)

    def bytes_of(self, budget: Budget) -> int:
        """Return a budget in bytes; a share is one of the plan without a budget."""
        return in_bytes(budget, self.own.plain.arena_bytes)

    def within(self, budget: Budget) -> Fit:
        """Return the cheapest plan within a budget of memory beyond the arguments.

        Where the plain plan fits it is taken, and nothing is searched. The deadline ends the search
        with the best plan that it has: with one that comes in time, a plan is made at once, and
        taken where nothing better is found.
        """
        budget = self.bytes_of(budget)
        if self.own.plain.arena_bytes <= budget:
            return Fit(budget, self.own.plain, None, None)
        is_timed = self.deadline.is_timed and budget >= self.bounds.bytes_of_steps
        quick = self._told(self.own.quick(budget)) if is_timed else None
        bound = self.bound(budget)  # Before the search, which takes all the time that there is.
        if quick is not None and self.deadline.passed:
            return Fit(budget, quick, None, bound, was_late=True)
        best = None if bound.is_infeasible else self._own_fit(budget)
        for family in self.variants if best is None or best.extra_seconds > 0 else ():
            if best is None or family.plain.extra_seconds < best.extra_seconds:
                found = self._first_fit(family, budget)
                if found is not None and (best is None or found.extra_seconds < best.extra_seconds):
                    best = found
            if best is not None and best.extra_seconds <= 0:
                break
        if best is not None and best.only_runs_again and is_timed and not self.deadline.passed:
            again = self._told(self.own.targeted(budget)) or best
            best = min(best, again, key=lambda x: x.extra_seconds)
        was_late = self.deadline.passed or (best is None and quick is not None)
        if quick is not None:
            best = min(quick, best or quick, key=lambda x: x.extra_seconds)
        least = self.least if best is None else None
        if least is not None and least.arena_bytes <= budget:
            best, least = least, None
        return Fit(budget, best, least, bound, was_late or self.deadline.passed)

    def by_xla(self, budget: Budget) -> Fit:
        """Return what XLA's algorithm makes of the entry for a budget: a baseline."""
        budget = self.bytes_of(budget)
        if self.own.plain.arena_bytes <= budget:
            return Fit(budget, self.own.plain, None, None)
        graphs, plain = self.own.graphs, self.own.plain
        sequence, extra = xla_choice(graphs, budget, self.deadline)
        module = with_sequences(graphs.module, graphs.flows, {graphs.entry.computation: sequence})
        found = PlannedPoint(plan_module(module, self._options.at_stage("input")), extra)
        fits = found.arena_bytes <= budget
        least = min(plain, found, key=lambda x: x.arena_bytes)
        return Fit(budget, found if fits else None, least, self.bound(budget))

    @property
    def variants(self) -> Iterator[Family]:
        """The variants that there are, in order; each is made when it is first asked for."""
        for number, variant in enumerate(self._tried):
            if number not in self._variants:
                self._variants[number] = self._made(variant)
            family = self._variants[number]
            if family is not None:
                yield family

    @cached_property
    def least(self) -> PlannedPoint:
        """The plan of the smallest arena known, the cheapest of equal ones."""
        found = [self.own.least(), *[family.least() for family in self.variants]]
        return min(found, key=lambda x: (x.arena_bytes, x.extra_seconds))

    def with_remarks(self, plan: ModulePlan) -> ModulePlan:
        """Return one of the plans, which also says so where the deadline ended a later search."""
        caveats = dict.fromkeys([*self.deadline.remarks(), *plan.report.caveats])
        return plan.with_report(replace(plan.report, caveats=tuple(caveats)))

    def _own_fit(self, budget: int) -> PlannedPoint | None:
        """The cheapest plan of the module itself that fits.

        Copies to the host come first: parts run again there, too. Where one of these plans fits,
        what recomputation does alone is left out unless it is there before the deadline.
        """
        begin = process_time()
        best = self._told(self.own.beside_link(budget))
        if best is None:
            return self._first_fit(self.own, budget)
        spent = process_time() - begin
        if best.extra_seconds <= 0 or not self.deadline.leaves(_CURVE_SEARCHES * spent):
            return best
        alone = self._first_fit(self.own, budget)
        return best if alone is None else min(best, alone, key=lambda x: x.extra_seconds)

    def _first_fit(self, family: Family, budget: int) -> PlannedPoint | None:
        return self._told(next(family.points(budget), None))

    def _told(self, found: PlannedPoint | None) -> PlannedPoint | None:
        """A plan that fits, if there is one, once whoever waits knows of it."""
        if found is not None:
            with self.deadline.held():
                cost = 100 * found.extra_seconds / max(self.base_seconds, 1e-12)
            of = f" of the program after {found.variant}" if found.variant else ""
            text = f"a plan{of} of {found.arena_bytes:,} bytes takes {cost:.1f}% more time"
            self._progress(text)
        return found

    def bound(self, budget: int) -> ModuleBound:
        """Return what is proved for a budget; the less, the earlier the deadline is."""
        with self.deadline.held():
            return self.bounds.at(budget)

    def _made(self, variant: ProgramVariant) -> Family | None:
        """A variant, None where there is none or the deadline came before it was planned."""
        made = None
        with self.deadline.until_interrupted():
            made = self._variant(variant)
        return made

    def _variant(self, variant: ProgramVariant) -> Family | None:
        options = self._options
        if self.deadline.passed:
            return None
        self._progress(f"variant {variant.name}")
        end = self.deadline.part(less=self._plain_seconds)
        try:
            module = variant_of(self._module, variant, options.stage, self._bases, end)
        except TooLateError:
            return None
        if module is None or not self.deadline.leaves(self._seconds_of(module, variant)):
            return None
        plan = plan_module(module, options)
        machine = options.target.machine
        graphs = budget_graphs(plan.module, options.scratch_bytes, machine)
        seconds = plain_seconds(graphs)
        extra = max(0.0, seconds - self.base_seconds)
        return Family(PlannedPoint(plan, extra, variant.name), options, self._progress)

    def _seconds_of(self, module: Module, variant: ProgramVariant) -> float:
        """What a plan of a variant takes, as long for an instruction as the plain plan."""
        count = self._bases[variant.stage].instruction_count
        return self._plain_seconds * module.instruction_count / max(1, count)


def plan_within(
    module: Module, memory: Budget | None, options: PlanOptions = DEFAULT_PLAN
) -> ModulePlan:
    """Return the cheapest plan whose arena keeps to a budget; None is any number of bytes.

    Raises OverMemoryError where no plan is known to fit, and what `compiler.plan` raises.
    """
    planner = planner_of(module, options)
    plain = planner.own.plain.plan
    if memory is None:
        return plain
    fit = planner.within(memory)
    if fit.point is None:
        raise OverMemoryError(refusal(plain.report, fit))
    return planner.with_remarks(fit.point.plan)


def planner_of(module: Module, options: PlanOptions = DEFAULT_PLAN) -> BudgetPlanner:
    """Return the plans of a module for many budgets, once it is planned without one.

    Raises what `compiler.plan` raises.
    """
    options = options.begun()
    return BudgetPlanner(module, plan_module(module, options), options)
