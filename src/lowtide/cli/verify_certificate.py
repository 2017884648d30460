"""`lowtide verify CERTIFICATE [MODULE]`: whether it is right, and about that module."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from lowtide.certificate.orders import Ordered


def verify_certificate(data: bytes, file: str, module: str | None, as_json: bool) -> None:
    """Write one of the three answers; raise what ends the command with its exit status.

    With a module, or the file of a memory graph, the certificate has to be about that: its text, or
    what compiling it gives, has the digest in the certificate, and the same graphs. Raises
    UsageError for a certificate that is not of an order.
    """
    from lowtide.certificate import NOT_CERTIFIED, REJECTED, Verdict, check
    from lowtide.cli import console
    from lowtide.cli.exit_codes import ExitCode, VerificationError
    from lowtide.cli.progress import progress

    with progress(f"checking {file}"):
        verdict = check(data)
    if module is not None and verdict.answer != REJECTED:
        found = _differences(json.loads(data), file, module)
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


def _differences(document: dict[str, Any], file: str, module: str) -> list[str]:
    from lowtide.certificate.modules import differences
    from lowtide.cli.exit_codes import UsageError

    if document["kind"] != "order":
        raise UsageError(f"{file}: a certificate of kind {document['kind']} goes without MODULE")
    computations = _computations(module, document["problem"]["text"])
    if computations is None:
        return [f"{module} is not what it is about, nor is what compiling it gives"]
    return differences(document, computations)


def _computations(path: str, digest: str) -> list[Ordered] | None:
    """The graphs of a file whose text, compiled or not, has a digest; None if it has another."""
    from lowtide.certificate.modules import module_orders
    from lowtide.certificate.orders import Ordered
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.client.plan_files import read_plan_bytes
    from lowtide.compiler import scheduled
    from lowtide.frontend.graph_json import looks_like_graph, read_graph_json

    data = read_plan_bytes(path)
    if looks_like_graph(data):
        graph = read_graph_json(data, path)
        is_same = sha256(data).hexdigest() == digest
        return [Ordered(graph.name, graph.graph, ())] if is_same else None
    module = load(path).module
    texts = [data, str(module).encode()]
    if not module.is_scheduled or digest not in [sha256(text).hexdigest() for text in texts]:
        with progress(f"compiling {path}"):
            module = scheduled(module)
        if sha256(str(module).encode()).hexdigest() != digest:
            return None
    return module_orders(module, {})
