"""Plans of one module for many budgets.

The plans to choose from do not depend on the budget. A budget picks the first plan, in order of
extra time, whose arena fits. So it is never exceeded, and as it grows the extra time never rises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from lowtide.budgeting.bounds import ModuleBound, ModuleBounds
from lowtide.budgeting.errors import OverMemoryError, refusal
from lowtide.budgeting.families import Family
from lowtide.budgeting.fits import Fit, PlannedPoint
from lowtide.budgeting.graphs import budget_graphs
from lowtide.budgeting.points import Progress, plain_seconds, xla_choice
from lowtide.budgeting.rewriting import with_sequences
from lowtide.budgeting.variants import MEMORY_VARIANTS, ProgramVariant, variant_of
from lowtide.compiler import DEFAULT_PLAN, ModulePlan, PlanOptions
from lowtide.compiler import plan as plan_module
from lowtide.compiler.planned_passes import TooLateError
from lowtide.cost.machine import HostLink
from lowtide.ir import Module
from lowtide.ir.sizes import Budget, in_bytes


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
        is_timed = self.deadline.is_timed and budget >= self.bounds.known_bytes
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
        was_late = self.deadline.passed or budget in self.own.late_for
        if quick is not None:
            best = min(quick, best or quick, key=lambda x: x.extra_seconds)
        least = self.least if best is None else None
        if least is not None and least.arena_bytes <= budget:
            best, least = least, None
        return Fit(budget, best, least, bound, was_late or self.deadline.passed)

    def each_within(self, budgets: Sequence[Budget]) -> Iterator[Fit]:
        """Yield what `within` returns for each of some budgets, in this order.

        Where there is a deadline it is one for all of them: each has an equal share of the time
        that those before it left. Budgets that nothing is searched for have none.
        """
        sizes = [self.bytes_of(budget) for budget in budgets]
        plain = self.own.plain.arena_bytes
        for number, size in enumerate(sizes):
            later = [x for x in sizes[number + 1 :] if self.bounds.known_bytes <= x < plain]
            with self.deadline.turn(1 / (1 + len(later))):
                found = self.within(size)
            yield found

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

        Copies to the host come first, in a part of the time: parts run again there, too. Unless
        they take no more time than the plain plan, what recomputation does alone is found as well;
        ahead of them where there is little time.
        """
        if self.link is None:
            return self._first_fit(self.own, budget)
        best = None
        has_time = self.own.has_time_for_links
        for is_alone in (False, True) if has_time else (True, False):
            if best is not None and (best.extra_seconds <= 0 or self.deadline.passed):
                break
            if is_alone:
                found = self._first_fit(self.own, budget)
            else:
                found = self._told(self.own.beside_link(budget))
            if best is None or (found is not None and found.extra_seconds < best.extra_seconds):
                best = found
        return best

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
        is_begun = variant.stage in self._bases
        if self.deadline.passed or not (is_begun or self.deadline.leaves(self._plain_seconds)):
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
