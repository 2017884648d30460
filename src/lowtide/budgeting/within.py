"""The plan of a module within a budget, in one call."""

from __future__ import annotations

from dataclasses import replace

from lowtide import compiler
from lowtide.budgeting.errors import OverMemoryError, refusal
from lowtide.budgeting.planner import BudgetPlanner, Settings
from lowtide.buffers.assignment import DEFAULT_SEARCH
from lowtide.ir import Module
from lowtide.options import DEFAULT_STAGE
from lowtide.search.effort import SearchOptions


def plan_within(
    module: Module,
    memory: int | None,
    stage: str = DEFAULT_STAGE,
    search: SearchOptions = DEFAULT_SEARCH,
) -> compiler.Plan:
    """Return the cheapest plan whose arena has at most `memory` bytes; None is any number of them.

    Raises OverMemoryError where no plan is known to fit, and what `compiler.plan` raises.
    """
    planner = planner_of(module, stage, search)
    plain = planner.own.plain.plan
    if memory is None:
        return plain
    fit = planner.within(memory)
    if fit.point is None:
        raise OverMemoryError(refusal(plain.report, fit))
    return planner.with_remarks(fit.point.plan)


def planner_of(
    module: Module, stage: str = DEFAULT_STAGE, search: SearchOptions = DEFAULT_SEARCH
) -> BudgetPlanner:
    """Return the plans of a module for many budgets, once it is planned without one.

    Raises what `compiler.plan` raises.
    """
    deadline = search.begun()
    search = replace(search, deadline=deadline)

    def make_plan(changed: Module, until: str) -> compiler.Plan:
        return compiler.plan(changed, until, search=search)

    settings = Settings(make_plan, stage, None, search.effort)
    return BudgetPlanner(module, make_plan(module, stage), settings, deadline)
