"""The plan of a module within a budget, in one call."""

from __future__ import annotations

from lowtide.budgeting.errors import OverMemoryError, refusal
from lowtide.budgeting.planner import BudgetPlanner
from lowtide.compiler import DEFAULT_PLAN, ModulePlan, PlanOptions, plan
from lowtide.ir import Module


def plan_within(
    module: Module, memory: int | None, options: PlanOptions = DEFAULT_PLAN
) -> ModulePlan:
    """Return the cheapest plan whose arena has at most `memory` bytes; None is any number of them.

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
    return BudgetPlanner(module, plan(module, options), options)
