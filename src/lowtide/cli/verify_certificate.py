"""`lowtide verify CERTIFICATE [MODULE]`: whether it is right, and about that module."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import typer

from lowtide.options import DEFAULT_STAGE

if TYPE_CHECKING:
    from lowtide.budgeting.planner import BudgetPlanner
    from lowtide.certificate.orders import Ordered, ProgramArena
    from lowtide.ir import Module


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """How a module is compiled again: the options of `lowtide plan` that change what comes out."""

    budget: int | None = None
    stage: str = DEFAULT_STAGE
    effort: str = "default"


def verify_certificate(
    data: bytes, file: str, module: str | None, as_json: bool, way: CompileRequest
) -> None:
    """Write one of the three answers; raise what ends the command with its exit status.

    With a module, or the file of a memory graph, the certificate has to be about that: its text, or
    what compiling it in a way gives, has the digest in the certificate, and the same graphs. Raises
    UsageError for a certificate that is not of an order, and OverMemoryError where no plan is known
    to fit the budget.
    """
    from lowtide.certificate import NOT_CERTIFIED, REJECTED, Verdict, check
    from lowtide.cli import console
    from lowtide.cli.exit_codes import ExitCode, VerificationError
    from lowtide.cli.progress import progress

    with progress(f"checking {file}"):
        verdict = check(data)
    if module is not None and verdict.answer != REJECTED:
        found = _compared(json.loads(data), file, module, way)
        if found.differences:
            verdict = Verdict(REJECTED, "; ".join(found.differences))
        elif found.remark:
            verdict = verdict._replace(detail=f"{verdict.detail}; {found.remark}")
    if as_json:
        console.write_json(verdict._asdict())
    else:
        console.write(f"{verdict.answer}: {verdict.detail}")
    if verdict.answer == REJECTED:
        raise VerificationError(f"{file}: the certificate is rejected")
    if verdict.answer == NOT_CERTIFIED:
        raise typer.Exit(ExitCode.OVER_BUDGET)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """In what a certificate is not about a module, and what there is to say if it is."""

    differences: Sequence[str] = ()
    remark: str = ""


def _compared(document: dict[str, Any], file: str, path: str, way: CompileRequest) -> _Comparison:
    from lowtide.budgeting.certificates import is_within
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.client.plan_files import read_plan_bytes
    from lowtide.frontend.graph_json import looks_like_graph

    if document["kind"] != "order":
        raise UsageError(f"{file}: a certificate of kind {document['kind']} goes without MODULE")
    budget = document["problem"]["budget"]
    if budget and way.budget not in (None, budget):
        return _Comparison([f"it is for a budget of {budget:,} bytes, not of {way.budget:,}"])
    data = read_plan_bytes(path)
    if looks_like_graph(data):
        return _Comparison(_named(document, path, _facts_of_graph(data, path, way)))
    module = load(path).module
    with progress(f"compiling {path}"):
        planner = _planner(module, way)
        if budget and is_within(document):
            return _Comparison(_differences_within(document, path, planner))
        return _compared_plan(document, path, data, module, planner, way.budget)


def _planner(module: Module, way: CompileRequest) -> BudgetPlanner:
    from lowtide.budgeting.within import planner_of
    from lowtide.cli.plan_packing import effort_named
    from lowtide.planning import SearchOptions

    return planner_of(module, way.stage, SearchOptions(effort_named(way.effort)))


# -- within a budget -------------------------------------------------------------------------------


def _differences_within(document: dict[str, Any], path: str, planner: BudgetPlanner) -> list[str]:
    """What tells a certificate with a budget from what the module has; its plan is made again."""
    from lowtide.budgeting.certificates import differences_within

    made = None
    if document["plan"]:
        point = planner.within(document["problem"]["budget"]).point
        if point is None or point.variant:
            what = "no plan is known to fit" if point is None else f"the plan is {point.variant}"
            return [f"{path}: within that budget {what}"]
        made = point.plan
    return differences_within(document, planner.own.graphs, made)


# -- orders ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a certificate is held against: graphs and orders, an arena, digests of their texts."""

    computations: Sequence[Ordered]
    arena: ProgramArena | None
    digests: tuple[str, ...]
    was_compiled: bool = False


def _facts_of_graph(data: bytes, path: str, way: CompileRequest) -> _Facts:
    from lowtide.certificate.orders import Ordered
    from lowtide.cli.exit_codes import UsageError
    from lowtide.frontend.graph_json import read_graph_json

    if CompileRequest(way.budget) != way:
        raise UsageError(f"{path}: --stage and --effort are for modules")
    graph = read_graph_json(data, path)
    return _Facts([Ordered(graph.name, graph.graph, ())], None, (_digest(data),))


def _compared_plan(
    document: dict[str, Any],
    path: str,
    data: bytes,
    module: Module,
    planner: BudgetPlanner,
    budget: int | None,
) -> _Comparison:
    """Compare with a scheduled module, or what compiling it within a budget gives."""
    from lowtide.budgeting.errors import OverMemoryError, refusal
    from lowtide.certificate.modules import module_orders
    from lowtide.certifying import arena_of

    point, remark = planner.own.plain, ""
    if budget is not None:
        fit = planner.within(budget)
        if fit.point is None:
            raise OverMemoryError(refusal(point.plan.report, fit))
        point = fit.point
    if point.variant:
        remark = f"it is a plan of {point.variant}, of whose cost nothing is proved"
    made = point.plan
    texts = [str(made.module).encode(), *([data] if module.is_scheduled else [])]
    facts = _Facts(
        module_orders(made.module, {}),
        arena_of(made),
        tuple([_digest(text) for text in texts]),
        was_compiled=not module.is_scheduled,
    )
    return _Comparison(_named(document, path, facts), remark)


def _named(document: dict[str, Any], path: str, found: _Facts) -> list[str]:
    """The differences, behind what says that the certificate is about another text if it is."""
    from lowtide.certificate.modules import differences

    wrong = differences(document, found.computations, found.arena)
    if document["problem"]["text"] in found.digests:
        return wrong
    compiled = "what compiling it gives" if found.was_compiled else "its text"
    return [f"{path} is not what it is about, nor is {compiled}", *(wrong or [_OTHER_TEXT])]


_OTHER_TEXT: Final = "it has the same graphs and orders under another text"


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
