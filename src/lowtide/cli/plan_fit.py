"""`lowtide plan` of a module with a budget: recomputation, its cost and bound."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lowtide.cli.plan_budget import BudgetRequest
from lowtide.cli.plan_module import ModuleRequest, check_planned, clock_lines, deliver_plan
from lowtide.cli.plan_request import PlanRequest

if TYPE_CHECKING:
    from lowtide.budgeting.fits import Fit, PlannedPoint
    from lowtide.budgeting.pareto import Pareto
    from lowtide.budgeting.planner import BudgetPlanner
    from lowtide.compiler import ModulePlan
    from lowtide.ir import Module
    from lowtide.planning import SearchOptions
    from lowtide.report.drawing import Paint

CAVEAT: Final = (
    "bounds on extra time are for this fused module, any order and recomputation only; times are "
    "those of a model"
)
_LINK_CAVEAT: Final = (
    "bounds on extra time are for this fused module, any order, recomputation and values of the "
    "entry in the host's memory; times and the link to the host are those of a model"
)


def plan_fit(
    module: Module, wanted: ModuleRequest, request: PlanRequest, budget: BudgetRequest
) -> None:
    """Find the plan of a module within a budget, or its frontier, and write it.

    Raises UsageError for options that do not fit, OverBudgetError where no plan that is known fits,
    KeyboardInterrupt once what was found is written, and what `compiler.plan` raises.
    """
    from lowtide.budgeting.errors import refusal
    from lowtide.budgeting.pareto import pareto
    from lowtide.cli.exit_codes import OverBudgetError
    from lowtide.cli.progress import progress
    from lowtide.remat.budget import METHODS
    from lowtide.report.caveats import time_caveats
    from lowtide.search.interrupts import ending_at

    _check(wanted, budget)
    with ending_at(request.deadline) as deadline, ExitStack() as rest:
        with progress(f"planning {module.name}") as line:

            def tell(text: str) -> None:
                line.state = f": {text},"

            plain, planner = _planner(module, wanted, request.search(deadline), tell)
            rest.enter_context(deadline.held())
            fit, curve = None, None
            if budget.budget is not None:
                by_xla = (budget.method or METHODS[0]) == "xla"
                fit = planner.by_xla(budget.budget) if by_xla else planner.within(budget.budget)
            if budget.pareto:
                curve = pareto(planner)
        remarks = [_LINK_CAVEAT if planner.link else CAVEAT, *time_caveats(module)]
        _deliver(planner, _shown(planner, fit), wanted, request, fit, curve, remarks)
    if deadline.was_interrupted:
        raise KeyboardInterrupt
    if fit is None:
        return
    fit.check()
    if not fit.is_feasible:
        raise OverBudgetError(refusal(plain.report, fit))


def _check(wanted: ModuleRequest, budget: BudgetRequest) -> None:
    from lowtide.cli.exit_codes import UsageError

    budget.check()
    if wanted.assigner != "arena":
        raise UsageError("--budget and --pareto are for our own assigner; leave out --assigner")


def _planner(
    module: Module, wanted: ModuleRequest, search: SearchOptions, tell: Any
) -> tuple[ModulePlan, BudgetPlanner]:
    from lowtide import compiler
    from lowtide.budgeting.planner import BudgetPlanner

    packing = wanted.packing or compiler.DEFAULT_PACKING
    base = wanted.options()
    options = replace(base, stage=wanted.stage, packing=packing, search=search).begun()
    plain = compiler.plan(module, options)
    return plain, BudgetPlanner(module, plain, options, progress=tell)


def _shown(planner: BudgetPlanner, fit: Fit | None) -> PlannedPoint:
    """The plan to write: the one that fits, the least where none does, the plain one unasked."""
    if fit is None:
        return planner.own.plain
    return fit.point or fit.least or planner.own.plain


def _deliver(
    planner: BudgetPlanner,
    point: PlannedPoint,
    wanted: ModuleRequest,
    request: PlanRequest,
    fit: Fit | None,
    curve: Pareto | None,
    remarks: list[str],
) -> None:
    from lowtide.autopsy.assigners import ARENA, AssignedPlan
    from lowtide.cli import console
    from lowtide.cli.certificate_files import of_fit
    from lowtide.options import display_for
    from lowtide.report.drawing import Paint

    plan = planner.with_remarks(point.plan)
    planned = AssignedPlan(
        ARENA, plan.module, plan.assignment, plan.report, point.arena_bytes, plan
    )
    if wanted.packing is not None:
        check_planned(planned)
    fields: dict[str, Any] = {"caveats": [*plan.report.caveats, *remarks]}
    paint = Paint(color=display_for(sys.stdout).color)
    lines: list[str] = []
    if fit is not None:
        fields["budget"] = fit.document()
        lines += _fit_lines(planner, fit)
    if curve is not None:
        fields["pareto"] = curve.to_json()
        lines += _curve_lines(planner, curve, paint)
        if request.html is not None:
            page = _page(planner, curve, remarks)
            console.write_file(request.html, lambda stream: stream.write(page.encode()))
            request = request.without_html()
    lines += clock_lines(planner.deadline)
    lines += ["", *[paint("dim", f"{x[0].upper()}{x[1:]}.") for x in remarks]]
    certificate = None
    only_runs_again = fit is not None and (fit.point is None or fit.point.only_runs_again)
    if fit is not None and fit.bound is not None and only_runs_again:
        certificate = partial(of_fit, planner, fit)
    with_table = fit is not None or wanted.packing is not None
    deliver_plan(planned, request, fields, lines, certificate, with_table=with_table)


# -- text ------------------------------------------------------------------------------------------


def _fit_lines(planner: BudgetPlanner, fit: Fit) -> list[str]:
    lines = ["", f"budget {fit.budget_bytes:>20,} bytes"]
    point, bound = fit.point, fit.bound
    if point is None:
        return [*lines, "       no plan that is known fits; shown is the one of fewest bytes"]
    by = f" as {point.variant}" if point.variant else ""
    extra = _share(point.extra_seconds, planner)
    lines.append(f"needs  {point.arena_bytes:>20,} bytes{by}, {extra} more time")
    if point.has_transfers:
        stored = point.plan.assignment.host_arena_bytes
        lines.append(f"host   {stored:>20,} bytes, copied there and back beside computation")
    if bound is not None and not point.variant:
        least = _share(bound.extra_seconds, planner)
        what = "recomputation or copy to the host" if planner.link else "recomputation"
        lines.append(f"bound  {least:>20} more time: no {what} within the budget has less")
    return lines


def _share(seconds: float, planner: BudgetPlanner) -> str:
    base = planner.base_seconds
    return f"{100 * seconds / base:.3f}%" if base else f"{seconds:.3g} s"


def _curve_lines(planner: BudgetPlanner, curve: Pareto, paint: Paint) -> list[str]:
    """The points, least memory last, with the bound at each; then those of each variant."""
    from lowtide.report.units import unit_for

    most = max(1, planner.own.plain.arena_bytes)
    unit = unit_for(most)
    header = f"{'needs':>14} {'of plain':>8} {'more time':>10}"
    lines = ["", paint("dim", f"{header} {'bound':>10}")]

    def row(point: Any) -> str:
        extra = _share(point.extra_seconds or 0.0, planner)
        share = f"{100 * point.nbytes / most:.1f}%"
        return f"{unit.text(point.nbytes):>14} {share:>8} {extra:>10}"

    for point, bound in zip(curve.points, curve.bound, strict=True):
        shown = "none fits"
        if bound.extra_seconds is not None:
            shown = _share(bound.extra_seconds, planner)
        lines.append(f"{row(point)} {shown:>10}")
    lines.append(f"No recomputation is below {unit.text(curve.infeasible_below_bytes)}.")
    for name, points in curve.variants:
        lines += ["", paint("dim", f"{header} as {name}"), *map(row, points)]
    return lines


def _page(planner: BudgetPlanner, curve: Pareto, remarks: list[str]) -> str:
    from lowtide.report.frontier_page import Curve, frontier_html

    def rows(points: Any) -> tuple[tuple[int, float], ...]:
        return tuple([(x.nbytes, x.extra_seconds) for x in points if x.extra_seconds is not None])

    curves = [
        Curve("plans", "plan", rows(curve.points)),
        Curve("proven least extra time", "bound", rows(curve.bound)),
        *[Curve(f"as {name}", "variant", rows(points)) for name, points in curve.variants],
    ]
    name = planner.own.plain.plan.module.name
    least = f"No recomputation is below {curve.infeasible_below_bytes:,} bytes."
    title = f"{name}: memory against time"
    return frontier_html(title, curves, curve.base_seconds, [least, *[f"{x}." for x in remarks]])
