"""What a total order saves: temporaries under three orders of execution, of the same module.

    python benchmarks/orderings.py [FILE ...] [--write docs/orderings.md]

Each module is copied, gets its copies, a flat call graph and the schedule that is best for memory,
and is then planned by both of XLA's assigners: when each computation runs in that order, when the
entry is launched in that order on several streams, and when an instruction waits for nothing but
its operands. Called computations run in sequence in the first two cases.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lowtide
from lowtide.buffers.copy_insertion import insert_copies
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.scheduling.module_scheduler import schedule_module
from lowtide.transforms.flatten_call_graph import flatten_call_graph
from lowtide.transforms.optimize_input_output_alias import optimize_input_output_alias
from lowtide.xla.analysis.gpu_ordering import gpu_ordering
from lowtide.xla.analysis.ordering import DependencyOrdering, Ordering, SequentialOrdering
from lowtide.xla.assigners import ASSIGNERS
from lowtide.xla.streams.streams import assign_streams

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
ORDERS: Final = ("sequential", "launch", "dependency")
LARGEST: Final = 20_000
"""Modules with more instructions are left out by default: each pair of values is looked at."""


@dataclass(frozen=True)
class Row:
    """Bytes of temporaries by order, as the assigner found them and the least that is valid."""

    module: str
    instructions: int
    streams: int
    assigner: str
    found: Mapping[str, int]
    seconds: float

    @property
    def least(self) -> dict[str, int]:
        """The least bytes by order: a plan for a looser order holds under a tighter one, too."""
        best: dict[str, int] = {}
        least: int | None = None
        for order in reversed(ORDERS):
            least = self.found[order] if least is None else min(least, self.found[order])
            best[order] = least
        return best


def prepared(path: Path) -> Module:
    """Read a module and do what has to be done before its buffers are assigned."""
    module = clone_module(lowtide.read(path))
    flatten_call_graph(module)
    optimize_input_output_alias(module)
    insert_copies(module)
    module.schedule = schedule_module(module)
    return module


def orderings(module: Module) -> dict[str, Ordering]:
    """Return the three orders of a scheduled module."""
    assert module.schedule is not None
    sequence = module.schedule.sequence(module.entry)
    streams = assign_streams(module).streams
    return {
        "sequential": SequentialOrdering(module),
        "launch": gpu_ordering(module, sequence, streams, module.schedule),
        "dependency": DependencyOrdering(module),
    }


def rows(path: Path) -> list[Row]:
    """Plan one module in each order by each assigner."""
    module = prepared(path)
    found = []
    for name, assigner in ASSIGNERS.items():
        start = time.perf_counter()
        by_order = orderings(module)
        needed = {order: assigner(module, by_order[order]).temp_bytes for order in ORDERS}
        found.append(
            Row(
                path.name.partition(".")[0],
                module.instruction_count,
                assign_streams(module).count,
                name,
                needed,
                time.perf_counter() - start,
            )
        )
    return found


def document(table: Sequence[Row], left_out: Sequence[str]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# What a total order saves",
        "",
        "Written by `python benchmarks/orderings.py --write docs/orderings.md`. Megabytes (10^6)",
        "of temporaries, of the same module with the same copies, when each computation runs in",
        "one order, when the entry is launched in that order on the streams of TensorFlow 1.14,",
        "and when nothing but data and control dependencies orders it. What is unordered may run",
        "at once, so that fewer values can share memory: sequential <= launch <= dependency. With",
        "one stream the order of launches is total.",
        "",
        "The assigners are greedy. Where one finds a smaller plan for a looser order, that plan,",
        "which holds under the tighter order too, is taken instead; `*` marks it, with what was",
        "found in brackets.",
        "",
        "| module | instructions | streams | assigner | sequential | launch | dependency | |",
        "|---|--:|--:|---|--:|--:|--:|--:|",
    ]
    for row in table:
        cells = [_cell(row, order) for order in ORDERS]
        least = row.least
        ratio = least["dependency"] / least["sequential"] if least["sequential"] else 1.0
        lines.append(
            f"| {row.module} | {row.instructions:,} | {row.streams} | {row.assigner} | "
            f"{' | '.join(cells)} | {ratio:.2f} x |"
        )
    if left_out:
        lines += ["", f"Left out, with more than {LARGEST:,} instructions: {', '.join(left_out)}."]
    return "\n".join(lines) + "\n"


def _cell(row: Row, order: str) -> str:
    least, found = row.least[order], row.found[order]
    text = f"{least / 1e6:,.3f}"
    return text if found == least else f"{text} * ({found / 1e6:,.3f})"


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    files = options.files or sorted(EXAMPLES.glob("*.hlo.xz"))
    table: list[Row] = []
    left_out = []
    for path in files:
        if not options.files and lowtide.read(path).instruction_count > LARGEST:
            left_out.append(path.name.partition(".")[0])
            continue
        table += rows(path)
        print(*[f"{x.module} {x.assigner} {dict(x.found)} {x.seconds:.1f} s" for x in table[-2:]])
    text = document(table, left_out)
    if options.write is None:
        print(text)
    else:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
