"""`lowtide plan` of a memory graph: an order of least peak, and a proven bound."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lowtide.cli.plan_packing import PackingRequest
from lowtide.cli.plan_request import PlanRequest, effort_named
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.frontend.graph_json import GraphFile
    from lowtide.report.drawing import Paint
    from lowtide.scheduling.proof import Proof
    from lowtide.scheduling.search import SearchResult
    from lowtide.search.deadline import Deadline

SCHEMA: Final = "lowtide.graph/1"

_STOPPED: Final = {
    "limit": "The search ended at the limit of its effort; --effort proof looks further.",
    "deadline": "The search ended at its deadline.",
    "interrupt": "The search was interrupted; this is the best that it had.",
}


@dataclass(frozen=True, eq=False, slots=True)
class SolvedGraph:
    """A graph, its order, the bytes of each step, and how long the search took."""

    file: GraphFile
    found: SearchResult
    steps: list[int]
    given_peak: int | None
    seconds: float

    @property
    def was_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search for an order."""
        return self.found.stopped.value == "interrupt"

    def highest(self, limit: int) -> list[int]:
        """Return the places of the largest steps, largest first."""
        return sorted(range(len(self.steps)), key=lambda i: (-self.steps[i], i))[:limit]


def plan_graph(path: str, packing: PackingRequest, request: PlanRequest) -> None:
    """Find an order and write it.

    Raises InputError for a malformed file, OverBudgetError for a peak above the capacity, and
    KeyboardInterrupt once what was found is written.
    """
    from lowtide.cli.certificate_files import of_graph
    from lowtide.cli.exit_codes import OverBudgetError
    from lowtide.search.interrupts import ending_at

    _check(packing, request)
    file = read_graph(path)
    with ending_at(request.deadline) as deadline:
        solved = solve(file, request, deadline)
        with deadline.held():
            deliver(
                graph_document(solved, packing.capacity, deadline.remarks()),
                request,
                lambda width, paint: graph_screen(solved, request.limit, width, paint),
                lambda: of_graph(solved, path),
            )
    if deadline.was_interrupted or solved.was_interrupted:
        raise KeyboardInterrupt
    fault = _capacity_fault(solved, packing.capacity)
    if fault:
        raise OverBudgetError(f"{solved.file.name}: {fault}")


def deliver(
    document: dict[str, Any],
    request: PlanRequest,
    lines: Callable[[int, Paint], list[str]],
    certificate: Callable[[], bytes],
) -> None:
    """Write a document to the file asked for; and it, or lines of some width, to the screen.

    A file that is named as one gets the certificate instead.
    """
    from lowtide.cli import console
    from lowtide.cli.certificate_files import is_certificate_file
    from lowtide.options import display_for
    from lowtide.report.drawing import Paint

    if request.output is not None:
        is_proof = is_certificate_file(request.output)
        text = console.json_text(document)
        data = certificate() if is_proof else text.encode("utf-8", "surrogateescape")
        console.write_file(request.output, lambda stream: stream.write(data))
    if request.json:
        console.write_json(document)
        return
    display = display_for(sys.stdout)
    console.write("\n".join(lines(display.width, Paint(color=display.color))))


def read_graph(path: str) -> GraphFile:
    """Return the graph in a file; raises InputError with the place of what is wrong."""
    from lowtide.cli.progress import progress
    from lowtide.frontend.compressed import read_bytes
    from lowtide.frontend.graph_json import read_graph_json

    with progress(f"reading {path}"), Path(path).open("rb") as stream:
        return read_graph_json(read_bytes(stream, path), path)


def _check(packing: PackingRequest, request: PlanRequest) -> None:
    from lowtide.cli.exit_codes import UsageError

    if packing.strategy or packing.compare or request.svg or request.html:
        raise UsageError("--strategy, --compare and pictures are for packings, not for graphs")
    if request.output is not None and request.output.suffix.lower() != ".json":
        raise UsageError(f"{request.output}: the order of a graph is written as .json")


def solve(file: GraphFile, request: PlanRequest, deadline: Deadline) -> SolvedGraph:
    """Return a graph with the best order found for it, and what is proved about that."""
    from lowtide.analysis.graph_tables import tables_of
    from lowtide.analysis.memory_profile import peak_bytes, step_bytes
    from lowtide.cli.progress import progress
    from lowtide.scheduling.search import search_order
    from lowtide.scheduling.settling import settled

    start = perf_counter()
    with progress(f"ordering {file.name}") as line:
        found = search_order(file.graph, effort_named(request.effort), deadline, line.show_search)
    seconds = perf_counter() - start
    with deadline.held():
        given = np.arange(file.graph.node_count)
        order = settled(tables_of(file.graph), given)
        is_valid = order is not None and np.array_equal(order, given)
        given_peak = peak_bytes(file.graph, given) if is_valid else None
        steps = step_bytes(file.graph, found.order).tolist()
    return SolvedGraph(file, found, steps, given_peak, seconds)


def graph_document(solved: SolvedGraph, capacity: int | None, caveats: list[str]) -> dict[str, Any]:
    """Return the document of --json; `seconds` is all that varies from run to run."""
    found, file = solved.found, solved.file
    return {
        "schema": SCHEMA,
        "graph": file.name,
        "nodes": file.graph.node_count,
        "buffers": len(file.graph.buffer_bytes),
        "peak_bytes": found.peak_bytes,
        "bound_bytes": found.bound_bytes,
        "optimal": found.is_optimal,
        "bound_by": _proof_text(found.proof),
        "stopped": found.stopped.value,
        "given_peak_bytes": solved.given_peak,
        "capacity": capacity,
        "feasible": _feasible(found, capacity),
        "caveats": caveats,
        "order": found.order.tolist(),
        "other_orders": len(found.others),
        "seconds": solved.seconds,
    }


def _proof_text(proof: Proof) -> str:
    from lowtide.scheduling.proof import CutBound, KeptBytes

    if isinstance(proof, KeptBytes):
        return "what is live at the end"
    if isinstance(proof, CutBound):
        return "a minimum cut at one node"
    return "cases of which node runs first, each with a minimum cut"


def _feasible(found: SearchResult, capacity: int | None) -> bool | None:
    """Whether an order within the capacity exists; None where that is not known, or not asked."""
    if capacity is None:
        return None
    if found.peak_bytes <= capacity:
        return True
    return False if found.bound_bytes > capacity else None


def _capacity_fault(solved: SolvedGraph, capacity: int | None) -> str:
    found = solved.found
    if capacity is None or found.peak_bytes <= capacity:
        return ""
    if found.bound_bytes > capacity:
        return f"every order needs {found.bound_bytes:,} bytes, above {capacity:,}"
    return f"the best order found needs {found.peak_bytes:,} bytes, above {capacity:,}"


def graph_screen(solved: SolvedGraph, limit: int, width: int, paint: Paint) -> list[str]:
    """Return the peak, how good it is, and as many of the largest steps."""
    from lowtide.report.drawing import bar, elide

    file, found = solved.file, solved.found
    lines = [
        paint("title", f"{file.name}: {file.graph.node_count:,} nodes"),
        f"peak   {found.peak_bytes:>20,} bytes{_as_given(solved)}",
        f"bound  {found.bound_bytes:>20,} bytes, {_gap(found)}",
        f"       by {_proof_text(found.proof)}",
    ]
    if found.stopped.value in _STOPPED:
        lines.append(paint("warn", _STOPPED[found.stopped.value]))
    if not limit:
        return lines
    lines += ["", paint("dim", f"{'step':>7} {'bytes':>18}  node")]
    for place in solved.highest(limit):
        node = int(found.order[place])
        label = f"{file.node_names[node]} ({file.opcodes[node]})"
        drawn = bar(solved.steps[place], found.peak_bytes, 10)
        row = f"{place:>7} {solved.steps[place]:>18,}  {drawn:<10} "
        lines.append(row + elide(label, max(8, width - len(row))))
    return lines


def _as_given(solved: SolvedGraph) -> str:
    if solved.given_peak is None:
        return ""
    return f"; {solved.given_peak:,} in the order of the file"


def _gap(found: SearchResult) -> str:
    if found.is_optimal:
        return "so no order needs less"
    over = 100 * (found.peak_bytes / max(1, found.bound_bytes) - 1)
    return f"so the peak is at most {over:.4f}% above the least"
