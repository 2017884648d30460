"""Simulated steps of partitioned programs beside what no order beats, and beside XLA's scheduler.

  python benchmarks/overlap.py BASELINE FOLDER [--only TEXT,..] [--device NAME] [--write PAGE]

BASELINE and FOLDER are those of `benchmarks/spmd.py`. Each row of the baseline is partitioned,
planned, and ordered for the shortest simulated step with an arena of at most a tenth more than the
order of the least memory has. Ratios are of seconds simulated to the bound.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

from latency_hiding import AsyncGraph, latency_hiding_order
from lowtide import compiler
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.cost.devices import DEVICES, DeviceRecord
from lowtide.frontend.files import read
from lowtide.ir import LowtideError
from lowtide.overlap.hiding import HiddenStep, hide_communication
from lowtide.overlap.module_step import module_step, schedule_by
from lowtide.overlap.step_graph import Order, StepGraph, StepModel
from lowtide.spmd.partitioner import partition
from sections import replace_section

MOST_INSTRUCTIONS = 6000
"""Larger modules take minutes each."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: ratios to the bound, and arenas by the cap; or an error."""

    name: str
    found: HiddenStep | None = None
    xla_seconds: float = 0.0
    xla_arena: int = 0
    seconds: float = 0.0
    error: str = ""

    @property
    def ratio(self) -> float:
        """The step by its bound."""
        assert self.found is not None
        return self.found.step.step.seconds / self.found.step.bound_seconds

    @property
    def xla_ratio(self) -> float:
        """The step of XLA's order by the bound."""
        assert self.found is not None
        return self.xla_seconds / self.found.step.bound_seconds


def rows(baseline: Path, folder: Path, only: list[str], device: DeviceRecord) -> Iterator[Row]:
    """Yield the rows of the baseline whose module is in the folder and sends something."""
    with baseline.open() as file:
        given = [row for row in csv.DictReader(file) if row["wire_bytes"]]
    for row in given:
        name = f"{row['program']}.{row['mesh']}.{row['style']}"
        if only and not any(text in name for text in only):
            continue
        paths = [folder / f"{name}.hlo.txt", folder / f"{row['program']}.hlo.txt.xz"]
        path = next((p for p in paths if p.exists()), None)
        if path is None:
            continue
        found = measured(name, path, device)
        if found is not None:
            print(line(found), file=sys.stderr, flush=True)
            yield found


def measured(name: str, path: Path, device: DeviceRecord) -> Row | None:
    """Return the row of one module, None of one that sends nothing or is too large."""
    try:
        module = read(path)
        if module.instruction_count > MOST_INSTRUCTIONS:
            return None
        plan = compiler.plan(partition(module).module)
        start = process_time()
        found = hide_communication(plan, None, device)
        seconds = process_time() - start
        if not found.step.sending:
            return None
        xla_seconds, xla_arena = by_xla(found, device)
    except LowtideError as error:
        return Row(name, error=str(error))
    return Row(name, found, xla_seconds, xla_arena, seconds)


def xla_order(graph: StepGraph, memory: MemoryGraph, given: Order, limit: int) -> Order:
    """Return XLA's order of a step; live bytes decide between nodes of equal depth, to no limit."""
    freed = np.zeros(graph.node_count, np.int64)
    is_made = memory.producer >= 0
    np.add.at(freed, memory.producer[is_made], memory.buffer_bytes[is_made])
    return latency_hiding_order(
        AsyncGraph(
            graph.seconds, graph.transfer, graph.start_of, graph.before, tuple(freed.tolist())
        )
    )


def by_xla(found: HiddenStep, device: DeviceRecord) -> tuple[float, int]:
    """Return the seconds and the arena of the same program in the order of XLA's scheduler."""
    module = found.first.module
    schedule = schedule_by(StepModel(module, device), found.limit, xla_order)
    own, module.schedule = module.schedule, schedule
    try:
        planned = compiler.plan(module)
    finally:
        module.schedule = own
    step = module_step(StepModel(planned.module, device))
    return step.step.seconds, planned.report.ladder.arena_bytes


def line(row: Row) -> str:
    """Return one line of the table."""
    found = row.found
    if found is None:
        return f"| {row.name} | {row.error} | | | | | | | |"
    step = found.step
    cap = max(1, found.cap_bytes)
    given = found.given.step.seconds / step.bound_seconds
    return (
        f"| {row.name} | {step.step.seconds * 1e3:,.3f} | {row.ratio:.3f} | {given:.3f} | "
        f"{step.hidden:.0%} | {found.arena_bytes / cap:.3f} | {row.xla_ratio:.3f} | "
        f"{row.xla_arena / cap:.3f} | {row.seconds:.1f} |"
    )


def page(found: list[Row], name: str) -> str:
    """Return the section of the document."""
    done = [row for row in found if row.found is not None]
    near = sum([row.ratio <= 1.05 for row in done])
    xla = sum([row.xla_ratio <= 1.05 for row in done])
    above = sum([not row.found.fits for row in done if row.found is not None])
    shorter = sum([row.ratio < row.xla_ratio * (1 - 1e-9) for row in done])
    longer = sum([row.ratio > row.xla_ratio * (1 + 1e-9) for row in done])
    over = sum([row.xla_arena > row.found.cap_bytes for row in done if row.found is not None])
    head = [
        f"- device: {name}; rows that send: {len(found)}; errors: {len(found) - len(done)}",
        f"- at most 1.05 of the bound: {near} of {len(done)}; XLA's order: {xla}",
        f"- arenas above the cap: {above}; XLA's order: {over}",
        f"- step shorter than in XLA's order: {shorter}; longer: {longer}",
        "",
        "| program, mesh, style | ms | by bound | nothing hidden | hidden | arena by cap "
        "| XLA's order | its arena | s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    return "\n".join([*head, *[line(row) for row in found]])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("baseline", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default=next(iter(DEVICES)), choices=list(DEVICES))
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    only = [part for part in given.only.split(",") if part]
    found = list(rows(given.baseline, given.folder, only, DEVICES[given.device]))
    if given.write is None:
        print(page(found, given.device))
    else:
        replace_section(given.write, given.device, page(found, given.device))


if __name__ == "__main__":
    main()
