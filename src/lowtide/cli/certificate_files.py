"""Certificates that `lowtide plan -o NAME.certificate.json` writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lowtide.autopsy.assigners import AssignedPlan
    from lowtide.budgeting.fits import Fit
    from lowtide.budgeting.planner import BudgetPlanner
    from lowtide.cli.plan_graph import SolvedGraph
    from lowtide.remat.budget import BudgetPlan, Budgets

_SUFFIX: Final = ".certificate.json"


def is_certificate_file(path: Path | None) -> bool:
    """Whether a file of that name holds a certificate."""
    return path is not None and path.name.lower().endswith(_SUFFIX)


def of_module(planned: AssignedPlan) -> bytes:
    """Return the certificate of a plan; raises UsageError where another assigner made it."""
    from lowtide.autopsy.assigners import ARENA
    from lowtide.cli.exit_codes import UsageError
    from lowtide.compiler.certificates import certificate_of, certify

    if planned.assigner != ARENA:
        raise UsageError(f"a certificate is of a plan by --assigner {ARENA}")
    own = planned.own
    return _bytes(certify(planned.module) if own is None else certificate_of(own))


def of_fit(planner: BudgetPlanner, fit: Fit) -> bytes:
    """Return the certificate of a module's plan within a budget, or of what is proved without one.

    Raises UsageError for a budget of 0 bytes.
    """
    from lowtide.budgeting.certificates import certificate_within

    made = None if fit.point is None else fit.point.plan
    with _usage_errors():
        document = certificate_within(planner.own.graphs, planner.bounds, fit.budget_bytes, made)
    return _bytes(document)


def of_graph(solved: SolvedGraph, path: str) -> bytes:
    """Return the certificate of an order of the graph in a file."""
    from lowtide.certificate.orders import Ordered, order_certificate
    from lowtide.frontend.plan_files import read_plan_bytes

    file, found = solved.file, solved.found
    ordered = Ordered(file.name, file.graph, found.order.tolist(), found.proof)
    return _bytes(order_certificate([ordered], read_plan_bytes(path)))


def of_budget(solved: SolvedGraph, path: str, budgets: Budgets, plan: BudgetPlan) -> bytes:
    """Return the certificate of a plan within a budget of peak bytes, or that there is none.

    Raises UsageError for a budget of 0 bytes.
    """
    from lowtide.certificate.orders import Boundary, Ordered, budget_certificate
    from lowtide.frontend.plan_files import read_plan_bytes

    file, bound = solved.file, plan.bound
    steps = () if plan.point is None else plan.point.sequence
    price = 0.0 if bound.price is None else bound.price.value * bound.tick_seconds
    node = file.graph.node_count if bound.node is None else bound.node
    with _usage_errors():
        document = budget_certificate(
            [Ordered(file.name, file.graph, steps)],
            read_plan_bytes(path),
            plan.budget_bytes,
            [Boundary(node, price)],
            packed=False,
            has_plan=plan.point is not None,
        )
    return _bytes(document)


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Have a budget of which there can be no certificate end the command as a wrong option does."""
    from lowtide.cli.exit_codes import UsageError

    try:
        yield
    except ValueError as error:
        raise UsageError(f"no certificate for {error}") from None


def _bytes(document: dict[str, Any]) -> bytes:
    from lowtide.planning.certificates import certificate_text

    return f"{certificate_text(document)}\n".encode("ascii")
