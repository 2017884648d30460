"""Budgets on a card with a link to its host: recomputation alone beside values stored there.

  python benchmarks/offload_shares.py FILE [FILE ...] [--shares 80 60 45] [--rate 64e9]
                                      [--deadline S] [--write PAGE]

A FILE is a module as HLO text or protobuf, planned as for `--target cuda`: the target's record says
what a kernel takes, `--rate` how many bytes the link carries each way in a second. Extra time and
its bounds are parts of one run by that model: nothing is run. A budget is a share of what the plan
without one needs beyond arguments. Other forms of a program (`budgeting/variants.py`) are left out.
Each planner, with a link and without, stops after S seconds of CPU; that is for all budgets of a
module together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from time import process_time

from lowtide.budgeting.fits import Fit
from lowtide.budgeting.planner import BudgetPlanner
from lowtide.compiler import PlanOptions, plan
from lowtide.cost.machine import HostLink
from lowtide.frontend.files import read
from lowtide.fusion.target_record import GPU_TARGET
from lowtide.ir import Module
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, SearchOptions
from sections import replace_section

SHARES = (80, 60, 45)


@dataclass(frozen=True, slots=True)
class Found:
    """Parts of the time of one run, None where nothing fits, and bytes with the host."""

    extra: float | None
    bound: float | None
    host_bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """A program within a budget, without a link and with one.

    `seconds` of CPU are those of the slower of the two planners, for all budgets.
    """

    module: str
    share: int
    plain_bytes: int
    alone: Found
    beside: Found
    seconds: float


def measured(path: Path, shares: Sequence[int], rate: float, deadline: float) -> list[Row]:
    """Return the rows of a module, for shares of what it needs without a budget."""
    module = read(str(path))
    link = HostLink(rate, GPU_TARGET.host_link.start_seconds if GPU_TARGET.host_link else 0.0)
    found, seconds, needed = [], [], 0
    for way in (None, link):
        begin = process_time()
        planner = planner_of(module, way, deadline)
        needed = planner.own.plain.arena_bytes
        fits = planner.each_within([needed * x // 100 for x in shares])
        found.append([_found(planner, fit) for fit in fits])
        seconds.append(process_time() - begin)
    name = path.name.split(".hlo")[0]
    return [
        Row(name, share, needed, alone, beside, max(seconds))
        for share, alone, beside in zip(shares, *found, strict=True)
    ]


def planner_of(module: Module, link: HostLink | None, deadline: float) -> BudgetPlanner:
    """Return the plans of a module for a card with or without a link."""
    search = SearchOptions(Effort.FAST, Deadline.of_cpu_seconds(deadline))
    options = PlanOptions(search=search, target=replace(GPU_TARGET, host_link=link)).begun()
    return BudgetPlanner(module, plan(module, options), options, variants=())


def _found(planner: BudgetPlanner, fit: Fit) -> Found:
    base = planner.base_seconds or 1.0
    point, bound = fit.point, fit.bound
    least = 0.0 if bound is None else bound.extra_seconds / base
    return Found(
        None if point is None else point.extra_seconds / base,
        None if bound is not None and bound.is_infeasible else least,
        fit.document().get("host_bytes", 0),
    )


def table(rows: Sequence[Row], rate: float, deadline: float) -> str:
    """Return the rows as a section of a document."""
    alone = sum([x.alone.extra is not None for x in rows])
    beside = sum([x.beside.extra is not None for x in rows])
    lines = [
        "### Recomputation beside copies to the host",
        "",
        "Written by `python benchmarks/offload_shares.py FILES --write docs/budgets.md`. A model:",
        "no card ran anything. Times are those of the record of an H100 of 80 GB with a link of",
        f"{rate / 1e9:.0f} GB/s each way; extra time and bounds are parts of one run, bytes those",
        f"beyond the arguments. Each planner stops after {deadline:.0f} s of CPU.",
        "",
        f"- {len(rows)} budgets of {len({x.module for x in rows})} programs: a plan by",
        f"  recomputation alone for {alone}, with copies for {beside}",
        f"- with copies it takes less time in {sum([_is_less(x) for x in rows])} of them",
        "- a run takes "
        f"{_over_bound([x.alone for x in rows]):.3f} of its bound in the geometric mean by",
        f"  recomputation alone, {_over_bound([x.beside for x in rows]):.3f} with copies",
        "- a planner is done with all budgets of a program after "
        f"{max([x.seconds for x in rows]):.1f} s at most",
        "",
        "| program | MB | budget | alone | bound | with copies | bound | with the host, MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {x.module} | {x.plain_bytes / 1e6:,.1f} | {x.share}% | {_part(x.alone.extra)} "
        f"| {_part(x.alone.bound)} | {_part(x.beside.extra)} | {_part(x.beside.bound)} "
        f"| {x.beside.host_bytes / 1e6:,.1f} |"
        for x in rows
    ]
    return "\n".join(lines)


def _over_bound(found: Sequence[Found]) -> float:
    """The time of a run within a budget over the least proved for it, where there is a plan."""
    known = [x for x in found if x.extra is not None and x.bound is not None]
    return geometric_mean([(1 + (x.extra or 0.0)) / (1 + (x.bound or 0.0)) for x in known] or [1.0])


def _is_less(row: Row) -> bool:
    if row.beside.extra is None:
        return False
    return row.alone.extra is None or row.beside.extra < row.alone.extra - 1e-9


def _part(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.3f}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--shares", type=int, nargs="+", default=SHARES)
    parser.add_argument("--rate", type=float, default=64e9)
    parser.add_argument("--deadline", type=float, default=60.0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    for path in options.files:
        begin = process_time()
        rows += measured(path, options.shares, options.rate, options.deadline)
        print(*rows[-len(options.shares) :], process_time() - begin, sep="\n", file=sys.stderr)
        if options.write is not None:
            replace_section(options.write, "offload", table(rows, options.rate, options.deadline))
    if options.write is None:
        print(table(rows, options.rate, options.deadline))


if __name__ == "__main__":
    main()
