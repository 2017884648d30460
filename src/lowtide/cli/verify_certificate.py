"""`lowtide verify CERTIFICATE [MODULE]`: whether it is right, and about that module."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from lowtide.certificate.orders import Ordered, ProgramArena


def verify_certificate(
    data: bytes, file: str, module: str | None, as_json: bool, budget: int | None = None
) -> None:
    """Write one of the three answers; raise what ends the command with its exit status.

    With a module, or the file of a memory graph, the certificate has to be about that: its text, or
    what compiling it within a budget of bytes gives, has the digest in the certificate, and the
    same graphs. Raises UsageError for a certificate that is not of an order, and OverMemoryError
    where no plan is known to fit the budget.
    """
    from lowtide.certificate import NOT_CERTIFIED, REJECTED, Verdict, check
    from lowtide.cli import console
    from lowtide.cli.exit_codes import ExitCode, VerificationError
    from lowtide.cli.progress import progress

    with progress(f"checking {file}"):
        verdict = check(data)
    if module is not None and verdict.answer != REJECTED:
        found = _differences(json.loads(data), file, module, budget)
        if found:
            verdict = Verdict(REJECTED, "; ".join(found))
    if as_json:
        console.write_json(verdict._asdict())
    else:
        console.write(f"{verdict.answer}: {verdict.detail}")
    if verdict.answer == REJECTED:
        raise VerificationError(f"{file}: the certificate is rejected")
    if verdict.answer == NOT_CERTIFIED:
        raise typer.Exit(ExitCode.OVER_BUDGET)


def _differences(document: dict[str, Any], file: str, module: str, budget: int | None) -> list[str]:
    from lowtide.certificate.modules import differences
    from lowtide.cli.exit_codes import UsageError

    if document["kind"] != "order":
        raise UsageError(f"{file}: a certificate of kind {document['kind']} goes without MODULE")
    found = _facts(module, budget)
    wrong = differences(document, found.computations, found.arena)
    if document["problem"]["text"] in found.digests:
        return wrong
    compiled = "what compiling it gives" if found.was_compiled else "its text"
    return [f"{module} is not what it is about, nor is {compiled}", *(wrong or [_OTHER_TEXT])]


_OTHER_TEXT: Final = "it has the same graphs and orders under another text"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a certificate is held against: graphs and orders, an arena, digests of their texts."""

    computations: Sequence[Ordered]
    arena: ProgramArena | None
    digests: tuple[str, ...]
    was_compiled: bool = False


def _facts(path: str, budget: int | None = None) -> _Facts:
    """The facts of a memory graph, of a scheduled module, or of what compiling a module gives."""
    from lowtide.budgeting.within import plan_within
    from lowtide.certificate.modules import module_orders
    from lowtide.certificate.orders import Ordered
    from lowtide.certifying import arena_of
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.client.plan_files import read_plan_bytes
    from lowtide.frontend.graph_json import looks_like_graph, read_graph_json

    data = read_plan_bytes(path)
    if looks_like_graph(data):
        graph = read_graph_json(data, path)
        return _Facts([Ordered(graph.name, graph.graph, ())], None, (_digest(data),))
    module = load(path).module
    with progress(f"compiling {path}"):
        made = plan_within(module, budget)
    texts = [str(made.module).encode(), *([data] if module.is_scheduled else [])]
    return _Facts(
        module_orders(made.module, {}),
        arena_of(made),
        tuple([_digest(text) for text in texts]),
        was_compiled=not module.is_scheduled,
    )


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
