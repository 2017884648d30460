"""Compare all strategies on networks, hard instances and the live ranges of modules.

    python benchmarks/planners.py [--only TEXT] [--deadline S] [--write docs/planners.md]

Sizes are given over the best proven bound of each problem: of the arena's height for offsets, of
the sum of the objects for shared objects. Times are wall seconds, one strategy after the other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from typing import Final

import lowtide
from lowtide.frontend.packing_csv import read_packing_csv
from lowtide.packing.compare import StrategyResult, compare
from lowtide.packing.named import NamedProblem, named_problem
from lowtide.packing.of_module import module_problem
from lowtide.planning import SearchOptions, packing_problem
from networks import NETWORKS

SHARED: Final = Path(__file__).parents[2] / "shared"
MARK: Final = "<!-- Tables: all below is written by benchmarks/planners.py. -->"
EXAMPLES: Final = Path(__file__).parents[1] / "examples"


@dataclass
class Column:
    """The figures of all strategies on one problem, and the best bound of each kind."""

    title: str
    buffers: int
    rows: list[StrategyResult] = field(default_factory=list)
    bounds: dict[str, int] = field(default_factory=dict)

    def ratio(self, row: StrategyResult) -> float | None:
        """Size over bound, None where there is no plan or nothing to place."""
        bound = self.bounds.get(row.kind, 0)
        return None if row.nbytes is None or not bound else row.nbytes / bound


def problems(only: str) -> Iterator[NamedProblem]:
    """Yield the networks, the packing instances and the modules whose name has `only` in it."""
    for title, records in NETWORKS.items():
        if only in title:
            tensors = records()
            names = tuple([str(i) for i in range(len(tensors))])
            yield NamedProblem(title, names, packing_problem(tensors))
    for path in sorted((SHARED / "minimalloc").glob("*.csv")):
        if only in path.name:
            problem = named_problem(read_packing_csv(path.read_bytes(), path.name))
            yield NamedProblem(f"MiniMalloc {path.name[0]}", problem.names, problem.problem)
    folder = SHARED / "corpus" if (SHARED / "corpus").is_dir() else EXAMPLES
    for path in sorted(folder.glob("*.xz")):
        if only in path.name:
            module = lowtide.read(path)
            found = module_problem(module)
            yield NamedProblem(path.name.split(".hlo")[0], found.names, found.problem)


def measured(named: NamedProblem, deadline: float) -> Column:
    """Run all strategies on one problem."""
    column = Column(named.title, len(named.problem))
    for row, solved in compare(named, SearchOptions(), deadline):
        column.rows.append(row)
        if solved is not None:
            known = column.bounds.get(row.kind, 0)
            column.bounds[row.kind] = max(known, solved.lower_bound)
        print(f"{named.title:<40} {row.kind}:{row.strategy:<24} {row.nbytes}", file=sys.stderr)
    return column


def cell(column: Column, row: StrategyResult) -> str:
    """Return ratio and seconds, a dash where there is no plan."""
    ratio = column.ratio(row)
    if ratio is None:
        return "-" if row.nbytes is None else "1.0000"
    mark = "*" if row.changes else ""
    return f"{ratio:.4f}{mark} ({row.seconds:.2f})"


def table(columns: list[Column], title: str) -> Iterator[str]:
    """Yield a table of some problems, one column each."""
    if not columns:
        return
    yield f"## {title}"
    yield ""
    yield "| strategy | " + " | ".join([f"{x.title} ({x.buffers:,})" for x in columns]) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for kind in ("offsets", "objects"):
        sizes = [f"{column.bounds.get(kind, 0):,}" for column in columns]
        yield f"| *bound of {kind}, bytes* | " + " | ".join(sizes) + " |"
        for number, row in enumerate(columns[0].rows):
            if row.kind == kind:
                cells = [cell(column, column.rows[number]) for column in columns]
                yield f"| {kind}:{row.strategy} | " + " | ".join(cells) + " |"
    yield ""


def summary(columns: list[Column], title: str) -> Iterator[str]:
    """Yield one line for each strategy over many problems."""
    if not columns:
        return
    yield f"## {title}"
    yield ""
    yield "| strategy | geometric mean | worst | at the bound | no plan | seconds in all |"
    yield "|---|--:|--:|--:|--:|--:|"
    for number, first in enumerate(columns[0].rows):
        pairs = [(column, column.rows[number]) for column in columns]
        ratios = [x for column, row in pairs if (x := column.ratio(row)) is not None]
        seconds = sum([row.seconds for _, row in pairs])
        mean = exp(sum(map(log, ratios)) / len(ratios)) if ratios else float("nan")
        tight = sum([x <= 1 for x in ratios])
        missing = sum([row.nbytes is None for _, row in pairs])
        yield (
            f"| {first.kind}:{first.strategy} | {mean:.4f} | {max(ratios, default=mean):.4f} | "
            f"{tight} of {len(ratios)} | {missing} | {seconds:.1f} |"
        )
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="problems whose name has this in it")
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds for each strategy")
    parser.add_argument("--write", type=Path, help="replace the tables in a file")
    arguments = parser.parse_args()
    columns = [measured(x, arguments.deadline) for x in problems(arguments.only)]
    nets = [x for x in columns if x.title in NETWORKS]
    hard = [x for x in columns if x.title.startswith("MiniMalloc")]
    rest = [x for x in columns if x not in nets and x not in hard]
    lines = [
        MARK,
        "",
        f"Made by `python benchmarks/planners.py --deadline {arguments.deadline:g} --write "
        "docs/planners.md`. A figure is size over the best proven bound, with wall seconds in "
        "brackets; `*` marks a problem that was simplified for the strategy (gaps filled, "
        "arguments left out). The number of buffers stands in brackets behind each problem.",
        "",
        *table(nets, "Networks, float32"),
        *table(hard, "Hard packing instances"),
        *summary(rest, f"Live ranges of {len(rest)} modules"),
    ]
    text = "\n".join(lines)
    if arguments.write is not None:
        before = arguments.write.read_text().partition(MARK)[0]
        arguments.write.write_text(before + text)
    print(text)


if __name__ == "__main__":
    main()
