"""Recomputation to budgets on memory graphs: extra time, its proven bound, and XLA's algorithm.

  python benchmarks/remat.py FOLDER [--effort NAME] [--only TEXT] [--xla] [--budgets N]

FOLDER has graphs, `NAME.json.xz`, and `results.csv`, whose rows `remat N%` say which budgets to
plan for, with the extra time and the bound known. With `--only`, graphs whose names have TEXT are
planned for the same shares of their peak. `--xla` adds XLA's algorithm on the best of the list,
depth-first and post orders; `--budgets` checks so many budgets between the least bytes and the
peak: within each, and monotone. Extra times are parts of one run of all nodes; seconds are of CPU,
for the whole frontier, without orders and compiling.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean
from time import process_time
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.frontend.compressed import read_bytes
from lowtide.frontend.graph_json import GraphFile, read_graph_json
from lowtide.remat.budget import Budgets
from lowtide.remat.xla import xla_sequence
from lowtide.scheduling.module_scheduler import SCHEDULERS
from lowtide.scheduling.search import search_order
from lowtide.search.effort import Effort

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.remat.replay import replay  # noqa: E402

SHARES: Final = (75, 50, 40, 30)

Order = npt.NDArray[np.int64]
Known = dict[tuple[str, int], dict[str, str]]


def read_known(folder: Path) -> Known:
    with (folder / "results.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["kind"].startswith("remat")]
    return {(row["graph"], int(row["kind"].split()[1].rstrip("%"))): row for row in rows}


def chosen(folder: Path, known: Known, only: str | None) -> list[Path]:
    paths = sorted(folder.glob("*.json.xz"))
    if only is not None:
        return [path for path in paths if only in path.name]
    names = {name for name, _ in known}
    return [path for path in paths if path.name.removesuffix(".json.xz") in names]


def orders_of(graph: MemoryGraph, effort: Effort) -> tuple[list[Order], Order]:
    """Orders to start from, and the best of those that XLA's schedulers would have made."""
    plain = [scheduler(graph) for scheduler in SCHEDULERS.values()]
    best = search_order(graph, effort)
    return [best.order, *best.others, *plain], min(plain, key=lambda x: peak_bytes(graph, x))


def part(value: float, base: float) -> str:
    return "-" if math.isinf(value) else f"{100 * value / base:7.3f}"


def check_budgets(graph: MemoryGraph, budgets: Budgets, count: int) -> None:
    """Check every plan by replay, and that extra time and memory are monotone in the budget."""
    frontier = budgets.frontier
    least, most = frontier.least.peak_bytes, frontier.points[0].peak_bytes
    plans = [budgets.plan(int(x)) for x in np.linspace(least, most, count)]
    points = [(plan.budget_bytes, plan.point) for plan in plans if plan.point is not None]
    assert len(points) == count
    for budget, point in points:
        checked = replay(graph, point.sequence)
        assert checked.peak_bytes == point.peak_bytes <= budget
        assert abs(checked.extra_seconds - point.extra_seconds) <= 1e-9 * graph.seconds.sum()
    for (_, first), (_, second) in pairwise(points):
        assert first.extra_seconds >= second.extra_seconds
        assert first.peak_bytes <= second.peak_bytes
    print(f"    {count} budgets from {least} to {most} bytes: kept and monotone")


def xla_extra(graph: MemoryGraph, order: Order, budget: int) -> str:
    """XLA's extra time, or the peak that it ends with, in parts of the budget."""
    checked = replay(graph, xla_sequence(graph, order, budget).tolist())
    if checked.peak_bytes <= budget:
        return part(checked.extra_seconds, float(graph.seconds.sum()))
    return f"over {checked.peak_bytes / budget:.2f}x"


def measure(file: GraphFile, args: argparse.Namespace, known: Known) -> list[float]:
    """Print the rows of a graph; return by what factors plans are over their bounds."""
    graph, base = file.graph, float(file.graph.seconds.sum())
    orders, plain = orders_of(graph, args.effort)
    start = process_time()
    budgets = Budgets(graph, orders, args.effort)
    points = budgets.frontier.points
    peak = points[0].peak_bytes
    seconds = process_time() - start
    print(
        f"{file.name}: {graph.node_count} nodes, {len(points)} points in {seconds:.1f} s, "
        f"least {100 * budgets.frontier.least.peak_bytes / peak:.1f}% of {peak} bytes, "
        f"none below {100 * budgets.bounds.least_bytes / peak:.1f}%"
    )
    factors = []
    for share in SHARES:
        row = known.get((file.name, share), {})
        budget = int(row.get("budget") or peak * share // 100)
        plan = budgets.plan(budget)
        bound = plan.bound.extra_seconds
        extra = math.inf if plan.point is None else plan.point.extra_seconds
        factor = "-"
        if plan.point is not None and bound > 0:
            factors.append(extra / bound)
            factor = f"{factors[-1]:.3f}"
        before = [f"{100 * float(row[x]):.3f}" if row.get(x) else "-" for x in FIELDS]
        theirs = xla_extra(graph, plain, budget) if args.xla else before[0]
        print(
            f"    {share}%  extra {part(extra, base)} (before {before[1]})  bound "
            f"{part(bound, base)} (before {before[2]})  factor {factor}  "
            f"xla {theirs}"
        )
    if args.budgets:
        check_budgets(graph, budgets, args.budgets)
    return factors


FIELDS: Final = ("xla_extra", "our_extra", "extra_bound")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--effort", type=Effort, choices=list(Effort), default=Effort.DEFAULT)
    parser.add_argument("--only")
    parser.add_argument("--xla", action="store_true")
    parser.add_argument("--budgets", type=int, default=0)
    args = parser.parse_args(argv)
    known = read_known(args.folder)
    factors: list[float] = []
    for path in chosen(args.folder, known, args.only):
        with path.open("rb") as stream:
            file = read_graph_json(read_bytes(stream, path.name), path.name)
        factors += measure(file, args, known)
    if factors:
        mean, most = geometric_mean(factors), max(factors)
        print(f"over the bound by a factor of {mean:.3f} (geometric mean), {most:.3f} at most")


if __name__ == "__main__":
    main()
