"""Orders of least peak on memory graphs: peak, proven bound and seconds of each.

  python benchmarks/orders.py FOLDER [--effort NAME] [--only TEXT] [--copies N] [--write PAGE]

FOLDER has graphs, `NAME.json.xz`, and `results.csv` with figures to compare with: those of a
replica of XLA's schedulers, and the best peak and bound known with their CPU seconds. Seconds are
of CPU, without reading the file; kernels are compiled before. `--copies` puts so many copies of
each graph in series, where the results of all but the last die at a barrier.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any, Final

from lowtide.frontend.compressed import read_bytes
from lowtide.frontend.graph_json import GraphFile, read_graph_json
from lowtide.scheduling.search import SearchResult, search_order
from lowtide.search.effort import Effort
from sections import replace_section

LEAST_SECONDS: Final = 0.2
"""What a graph may take however little it took before."""

Known = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table; bytes, and seconds of CPU."""

    name: str
    nodes: int
    xla: int | None
    peak: int
    bound: int
    seconds: float
    misses: tuple[str, ...]

    @property
    def gap(self) -> float:
        """How far the peak may be above the least one, as a share of it."""
        return self.peak / max(1, self.bound) - 1


def known_results(folder: Path) -> Known:
    """Return the rows of `results.csv` about orders, by graph."""
    path = folder / "results.csv"
    if not path.exists():
        return {}
    with path.open() as file:
        return {row["graph"]: row for row in csv.DictReader(file) if row["kind"] == "order"}


def in_series(document: dict[str, Any], copies: int) -> dict[str, Any]:
    """Return a graph of several copies of one, each behind a node that waits for the last."""
    nodes: list[dict[str, Any]] = []
    buffers: list[dict[str, Any]] = []
    count = len(document["nodes"])
    for copy in range(copies):
        first, first_buffer = len(nodes), len(buffers)
        is_last = copy == copies - 1
        barrier = [first - 1] if copy else []
        for node in document["nodes"]:
            control = [first + x for x in node["control"]] + barrier
            nodes.append({**node, "name": f"{copy}/{node['name']}", "control": control})
        for buffer in document["buffers"]:
            is_result = buffer["live_out"] and not is_last
            changes = {
                "producer": first + buffer["producer"] if buffer["producer"] >= 0 else -1,
                "consumers": [first + x for x in buffer["consumers"]]
                + ([first + count] if is_result else []),
                "live_out": buffer["live_out"] and is_last,
                "may_reuse": [first_buffer + x for x in buffer["may_reuse"]],
            }
            buffers.append({**buffer, **changes})
        if not is_last:
            every = list(range(first, first + count))
            wait = {"name": f"barrier.{copy}", "opcode": "after-all", "seconds": 0.0}
            nodes.append({**wait, "scratch_bytes": 0, "control": every})
    name = f"{document['name']} x {copies}"
    return {**document, "name": name, "nodes": nodes, "buffers": buffers}


def read(path: Path, copies: int) -> GraphFile:
    with path.open("rb") as stream:
        data = read_bytes(stream, str(path))
    if copies > 1:
        data = json.dumps(in_series(json.loads(data), copies)).encode()
    return read_graph_json(data, str(path))


def measured(file: GraphFile, effort: Effort, known: Known) -> Row:
    start = process_time()
    found = search_order(file.graph, effort)
    seconds = process_time() - start
    before = known.get(file.name)
    xla = int(before["xla3_peak"]) if before else None
    misses = _misses(found, seconds, before) if before else ()
    return Row(
        file.name, file.graph.node_count, xla, found.peak_bytes, found.bound_bytes, seconds, misses
    )


def _misses(found: SearchResult, seconds: float, before: dict[str, str]) -> tuple[str, ...]:
    allowed = max(LEAST_SECONDS, float(before["seconds"]) / 3)
    checks = {
        "peak": found.peak_bytes <= int(before["best_peak"]),
        "bound": found.bound_bytes >= int(before["bound"]),
        "seconds": seconds <= allowed,
    }
    return tuple([name for name, holds in checks.items() if not holds])


def page(rows: list[Row], effort: Effort) -> str:
    """Return the table as a document."""
    optimal = sum([row.peak == row.bound for row in rows])
    lines = [
        "## Memory graphs: orders and bounds",
        "",
        "Written by `python benchmarks/orders.py FOLDER --write docs/optimality.md`, with effort",
        f"`{effort}`. MB are 10^6 bytes live in the largest step; the bound holds for every order.",
        "XLA's order is the best of list, depth-first and post-order by a replica of XLA's",
        "schedulers, in the same model. Seconds are of CPU, kernels compiled before.",
        "",
        f"- {len(rows)} graphs; no order is better on {optimal} of them",
        f"- the largest gap between peak and bound is {100 * max([r.gap for r in rows]):.4f}%",
        "",
        "| graph | nodes | XLA's order, MB | ours, MB | bound, MB | gap | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row.name} | {row.nodes:,} | {_mb(row.xla)} | {_mb(row.peak)} | {_mb(row.bound)} "
        f"| {100 * row.gap:.4f}% | {row.seconds:.2f} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _mb(nbytes: int | None) -> str:
    return "" if nbytes is None else f"{nbytes / 1e6:,.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--effort", type=Effort, default=Effort.DEFAULT)
    parser.add_argument("--only", default="")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--write", type=Path)
    wanted = parser.parse_args()
    known = known_results(wanted.folder)
    paths = [x for x in sorted(wanted.folder.glob("*.json.xz")) if wanted.only in x.name]
    search_order(read(paths[0], 1).graph, Effort.PROOF)
    rows = []
    for path in paths:
        row = measured(read(path, wanted.copies), wanted.effort, known)
        rows.append(row)
        missed = f"  misses: {', '.join(row.misses)}" if row.misses else ""
        print(
            f"{row.name:40} {row.nodes:7,} peak {row.peak:18,} bound {row.bound:18,} "
            f"gap {100 * row.gap:8.4f}% {row.seconds:7.2f} s{missed}",
            flush=True,
        )
    if wanted.write is not None:
        replace_section(wanted.write, "orders", page(rows, wanted.effort))
    return 1 if any(row.misses for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
