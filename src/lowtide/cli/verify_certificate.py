"""`lowtide verify CERTIFICATE [MODULE]`: whether it is right, and about that module."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import typer

from lowtide.options import DEFAULT_STAGE
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.budgeting.planner import BudgetPlanner
    from lowtide.certificate.orders import Ordered
    from lowtide.cli.arguments import Budget
    from lowtide.ir import Module


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """How a module is compiled again: the options of `lowtide plan` that change what comes out."""

    budget: Budget | None = None
    stage: str = DEFAULT_STAGE
    effort: str = "default"
    reoptimize: bool = False


def verify_certificate(
    data: bytes, file: str, module: str | None, as_json: bool, request: CompileRequest
) -> None:
    """Write one of the three answers; raise what ends the command with its exit status.

    With a module, or the file of a memory graph, the certificate has to be about that: its text, or
    what compiling it as requested gives, has the digest in the certificate, and the same graphs.
    Raises UsageError for a certificate that is not of an order, and OverMemoryError where no plan
    is known to fit the budget.
    """
    from lowtide.certificate import NOT_CERTIFIED, REJECTED, Verdict, check
    from lowtide.cli import console
    from lowtide.cli.exit_codes import ExitCode, VerificationError
    from lowtide.cli.progress import progress
    from lowtide.cli.verify_compilation import is_about_compilations, verify_compilation

    if is_about_compilations(data):
        verify_compilation(data, file, module, as_json, request)
        return
    with progress(f"checking {file}"):
        verdict = check(data)
    if module is not None and verdict.answer != REJECTED:
        found = _compare(json.loads(data), file, module, request)
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


def _compare(
    document: dict[str, Any], file: str, path: str, request: CompileRequest
) -> _Comparison:
    from lowtide.budgeting.certificates import is_within
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.frontend.graph_json import looks_like_graph
    from lowtide.frontend.plan_files import read_plan_bytes

    if document["kind"] != "order":
        raise UsageError(f"{file}: a certificate of kind {document['kind']} goes without MODULE")
    budget = document["problem"]["budget"]
    if budget and isinstance(request.budget, int) and request.budget != budget:
        return _another_budget(budget, request.budget)
    data = read_plan_bytes(path)
    if looks_like_graph(data):
        return _compare_with_facts(document, path, _facts_of_graph(data, path, request))
    module = load(path, reoptimize=request.reoptimize).module
    if budget and not is_within(document):
        return _Comparison([f"{path}: it is about the order of a memory graph, not a module"])
    with progress(f"compiling {path}"):
        planner = _planner(module, request)
        if budget and request.budget is not None and planner.bytes_of(request.budget) != budget:
            return _another_budget(budget, planner.bytes_of(request.budget))
        if budget:
            return _compare_within_budget(document, path, planner)
        texts = [data] if module.is_scheduled else []
        facts = _facts_of_plan(planner, request.budget, texts)
    return _compare_with_facts(document, path, facts)


def _another_budget(budget: int, given: int) -> _Comparison:
    return _Comparison([f"it is for a budget of {budget:,} bytes, not of {given:,}"])


def _planner(module: Module, request: CompileRequest) -> BudgetPlanner:
    from lowtide.budgeting.planner import planner_of
    from lowtide.cli.plan_request import effort_named
    from lowtide.compiler import PlanOptions
    from lowtide.planning import SearchOptions

    search = SearchOptions(effort_named(request.effort))
    return planner_of(module, PlanOptions(request.stage, search=search))


_MADE_ANEW: Final = (
    "the plan is made anew, with the --budget, --stage, --effort and --reoptimize that it was made "
    "with; one whose search ended early may be another"
)


# -- within a budget -------------------------------------------------------------------------------


def _compare_within_budget(
    document: dict[str, Any], path: str, planner: BudgetPlanner
) -> _Comparison:
    """Compare a certificate with a budget with what the module has; its plan is made again."""
    from lowtide.budgeting.certificates import differences_within

    if not document["plan"]:
        return _Comparison(differences_within(document, planner.own.graphs, None))
    point = planner.within(document["problem"]["budget"]).point
    if point is None or point.variant:
        what = "no plan is known to fit" if point is None else f"the plan is {point.variant}"
        return _Comparison([f"{path}: within that budget {what}", _MADE_ANEW])
    found = differences_within(document, planner.own.graphs, point.plan)
    return _Comparison([*found, _MADE_ANEW] if found else ())


# -- orders ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a certificate is held against: graphs and orders, an arena, digests of their texts.

    `compiled` says that a search made them now; `remark`, what they do not prove.
    """

    computations: Sequence[Ordered]
    digests: Sequence[str]
    arena: Mapping[str, Any] = field(default_factory=dict)
    compiled: bool = False
    remark: str = ""


def _facts_of_graph(data: bytes, path: str, request: CompileRequest) -> _Facts:
    from lowtide.certificate.orders import Ordered
    from lowtide.cli.exit_codes import UsageError
    from lowtide.frontend.graph_json import read_graph_json

    if CompileRequest(request.budget) != request:
        raise UsageError(f"{path}: --stage, --effort and --reoptimize are for modules")
    if request.budget is not None and not isinstance(request.budget, int):
        raise UsageError(f"{path}: the budget of a memory graph is given in bytes here")
    graph = read_graph_json(data, path)
    return _Facts([Ordered(graph.name, graph.graph, ())], [_digest(data)])


def _facts_of_plan(planner: BudgetPlanner, budget: Budget | None, texts: Sequence[bytes]) -> _Facts:
    """The facts of a module's plan, within a budget if there is one; `texts` name it as well.

    Without `texts` the module had no schedule. Raises OverMemoryError where no plan is known.
    """
    from lowtide.budgeting.errors import OverMemoryError, refusal
    from lowtide.certificate.modules import module_orders
    from lowtide.compiler.certificates import arena_of

    point = planner.own.plain
    if budget is not None:
        fit = planner.within(budget)
        if fit.point is None:
            raise OverMemoryError(refusal(point.plan.report, fit))
        point = fit.point
    made, remark = point.plan, ""
    if point.variant:
        remark = f"it is a plan of {point.variant}, of whose cost nothing is proved"
    return _Facts(
        module_orders(made.module, {}),
        [_digest(text) for text in (str(made.module).encode(), *texts)],
        arena_of(made).rows,
        compiled=not texts,
        remark=remark,
    )


def _compare_with_facts(document: dict[str, Any], path: str, facts: _Facts) -> _Comparison:
    """Compare; what differs stands behind what says that it is about another text if it is."""
    from lowtide.certificate.modules import differences

    found = differences(document, facts.computations, facts.arena)
    if document["problem"]["text"] in facts.digests:
        return _Comparison(found, facts.remark)
    text = "what compiling it gives" if facts.compiled else "its text"
    found = [f"{path} is not what it is about, nor is {text}", *(found or [_OTHER_TEXT])]
    return _Comparison([*found, _MADE_ANEW] if facts.compiled else found)


_OTHER_TEXT: Final = "it has the same graphs and orders under another text"


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
