"""`lowtide plan` of a memory graph with a budget: recomputation, its cost and bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lowtide.cli.plan_request import PlanRequest, effort_named
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cli.arguments import Budget
    from lowtide.cli.plan_graph import SolvedGraph
    from lowtide.remat.budget import BudgetPlan, Budgets
    from lowtide.report.drawing import Paint
    from lowtide.search.deadline import Deadline

CAVEAT: Final = "the bound is for this graph, any order and recomputation only"

_ONCE: Final = frozenset(
    {"infeed", "outfeed", "send", "send-done", "recv", "recv-done"}
    | {"rng", "rng-get-and-update-state"}
)
"""Opcodes of nodes that may not run again: each run has an effect, or another result."""


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """The options of `lowtide plan` about recomputation."""

    budget: Budget | None = None
    method: str | None = None
    pareto: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether any of them is given."""
        return self != BudgetRequest()

    def bytes_of(self, solved: SolvedGraph) -> int:
        """The budget in bytes; a share is one of the peak of the order without a budget."""
        from lowtide.ir.sizes import in_bytes

        return in_bytes(self.budget or 0, solved.found.peak_bytes)

    def check(self) -> None:
        """Raise UsageError for options that do not fit, and for an unknown method."""
        from lowtide.cli.exit_codes import UsageError
        from lowtide.remat.budget import METHODS
        from lowtide.suggestions import nearest

        if self.method is not None and self.method not in METHODS:
            near = nearest(self.method, METHODS)
            raise UsageError(f"no --remat {self.method!r}; there are: {', '.join(METHODS)}{near}")
        if self.method is not None and self.budget is None:
            raise UsageError("--remat says how to keep to a budget: give --budget SIZE, too")


def plan_budget(path: str, request: PlanRequest, wanted: BudgetRequest) -> None:
    """Find a plan within a budget, or the frontier of memory against time, and write it.

    Raises InputError for a malformed file, OverBudgetError where no plan that is known fits, and
    KeyboardInterrupt once what was found is written.
    """
    from lowtide.cli.certificate_files import of_budget, of_graph
    from lowtide.cli.exit_codes import OverBudgetError
    from lowtide.cli.plan_graph import deliver, graph_screen, read_graph, solve
    from lowtide.cli.plan_module import clock_lines
    from lowtide.remat.budget import METHODS
    from lowtide.search.interrupts import ending_at

    wanted.check()
    file = read_graph(path)
    with ending_at(request.deadline) as deadline:
        solved = solve(file, request, deadline)
        with deadline.held():
            budgets = _budgets(solved, request, deadline, wanted)
            plan = None
            if wanted.budget is not None:
                plan = budgets.plan(wanted.bytes_of(solved), wanted.method or METHODS[0])
            document = _document(solved, plan, budgets if wanted.pareto else None)
            document["caveats"] = [*deadline.remarks(), CAVEAT]

            def screen(width: int, paint: Paint) -> list[str]:
                lines = graph_screen(solved, 0, width, paint)
                lines += _plan_lines(solved, plan) if plan is not None else []
                lines += _frontier_lines(document["pareto"], solved, paint) if wanted.pareto else []
                lines += clock_lines(deadline)
                return [*lines, paint("dim", f"{CAVEAT.capitalize()}.")]

            def certificate() -> bytes:
                if plan is None:
                    return of_graph(solved, path)
                return of_budget(solved, path, budgets, plan)

            deliver(document, request, screen, certificate)
    if solved.was_interrupted or budgets.frontier.was_interrupted or deadline.was_interrupted:
        raise KeyboardInterrupt
    if plan is not None and not plan.is_feasible:
        raise OverBudgetError(f"{solved.file.name}: {_refusal(solved, plan)}")


def _budgets(
    solved: SolvedGraph, request: PlanRequest, deadline: Deadline, wanted: BudgetRequest
) -> Budgets:
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.progress import progress
    from lowtide.remat.budget import Budgets
    from lowtide.scheduling.module_scheduler import SCHEDULERS

    graph, found = solved.file.graph, solved.found
    orders = [found.order, *found.others, *[x(graph) for x in SCHEDULERS.values()]]
    once = [i for i, opcode in enumerate(solved.file.opcodes) if opcode in _ONCE]
    try:
        made = Budgets(graph, orders, effort_named(request.effort), deadline, once)
    except ValueError as error:
        raise UsageError(f"{solved.file.name}: {error}") from None
    with progress(f"recomputation in {solved.file.name}"), deadline.until_interrupted():
        if wanted.budget is not None:
            made.prove(wanted.bytes_of(solved))
        _ = made.frontier
    return made


def _document(
    solved: SolvedGraph, plan: BudgetPlan | None, budgets: Budgets | None
) -> dict[str, Any]:
    """Return the document of --json: that of the order, with what was asked for beside it."""
    from lowtide.cli.plan_graph import graph_document

    document = graph_document(solved, None, [])
    if plan is not None:
        document["budget"] = plan.document(solved.file.node_names)
        document["sequence"] = None if plan.point is None else list(plan.point.sequence)
    if budgets is not None:
        document["pareto"] = budgets.pareto()
    return document


def _plan_lines(solved: SolvedGraph, plan: BudgetPlan) -> list[str]:
    lines = ["", f"budget {plan.budget_bytes:>20,} bytes"]
    if plan.point is None:
        return [*lines, "       no plan that is known fits"]
    extra, bound = plan.point.extra_seconds, plan.bound.extra_seconds
    again = len(plan.point.sequence) - solved.file.graph.node_count
    lines.append(
        f"needs  {plan.point.peak_bytes:>20,} bytes; {again:,} nodes run again, "
        f"{_share(extra, plan)} more time"
    )
    lines.append(f"bound  {_share(bound, plan):>20} more time: no plan within the budget has less")
    return lines


def _share(seconds: float, plan: BudgetPlan) -> str:
    return f"{100 * seconds / plan.base_seconds:.3f}%" if plan.base_seconds else f"{seconds:.3g} s"


def _refusal(solved: SolvedGraph, plan: BudgetPlan) -> str:
    proof = "no plan fits, which is proved" if plan.bound.is_infeasible else "no plan found fits"
    node = plan.binding_node
    name = "what lives to the end" if node is None else solved.file.node_names[node]
    return (
        f"{proof}: {name} takes {plan.binding_bytes:,} bytes; the smallest feasible budget known "
        f"is {plan.least.peak_bytes:,} bytes"
    )


def _frontier_lines(pareto: dict[str, Any], solved: SolvedGraph, paint: Paint) -> list[str]:
    """The points of the frontier, least memory last, with the bound at each."""
    from lowtide.report.units import unit_for

    base, most = pareto["base_seconds"] or 1.0, max(1, solved.found.peak_bytes)
    unit = unit_for(most)
    lines = ["", paint("dim", f"{'needs':>14} {'of peak':>8} {'more time':>10} {'bound':>10}")]
    for point, bound in zip(pareto["points"], pareto["bound"], strict=True):
        lower = bound["extra_seconds"]
        shown = "none fits" if lower is None else f"{100 * lower / base:.3f}%"
        lines.append(
            f"{unit.text(point['bytes']):>14} {100 * point['bytes'] / most:>7.1f}% "
            f"{100 * point['extra_seconds'] / base:>9.3f}% {shown:>10}"
        )
    return [*lines, f"No plan is below {unit.text(pareto['infeasible_below_bytes'])}."]
