"""What operations of JAX need beyond arguments and results, natively and by XLA:CPU, one by one.

    python benchmarks/operation_memory.py [--large] [--threads N] [--taken] [WORD ...]

The lines are those of `single_operations.txt`, with --large those of `operation_memory.txt`, whose
arrays have 1 to 64 MB; words choose among them. Printed, in bytes: results, what both sides plan
beside arguments and results (ours with the scratch of kernels; XLA's `memory_analysis()`, which
leaves out what its libraries take), and with --taken what XLA:CPU really took: by how much the
resident set was higher at most during a call, less the results. That has an error of some 100 KB.
--write FILE puts a table into FILE, of the lines where a side takes more than 1% of its results.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any, Final

import jax

import lowtide
from sections import replace_section
from single_operations import TABLE, lines

LARGE: Final = Path(__file__).with_suffix(".txt")
SECTION: Final = "operation memory"
STATUS: Final = Path("/proc/self/status")
MALLOC: Final = "MALLOC_MMAP_THRESHOLD_"
"""A variable of glibc: what is at least as large goes back to the system as soon as it is freed."""

CALLS: Final = 3
SETTLING: Final = 0.1
"""Seconds in which the threads of XLA's client let go of memory."""

SLACK: Final = 0.01
NOISE: Final = 200_000
"""Bytes by which a resident set varies by itself."""


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes of one operation: results, and what each side needs beside arguments and results."""

    name: str
    results: int
    ours: int
    planned: int
    taken: int | None

    @property
    def ratio(self) -> float:
        """Our memory beyond arguments over what XLA plans."""
        return (self.results + self.ours) / max(1, self.results + self.planned)

    @property
    def real_ratio(self) -> float:
        """Our memory beyond arguments over what XLA plans or takes, whichever is more."""
        most = self.planned if self.taken is None else max(self.planned, self.taken)
        return (self.results + self.ours) / max(1, self.results + most)


def _awaited(compiled: Callable[..., Any], arguments: list[Any]) -> Any:
    return jax.block_until_ready(compiled(*arguments))


def _resident(field: str) -> int:
    with STATUS.open() as found:
        return next(int(x.split()[1]) * 1024 for x in found if x.startswith(field))


def taken(call: Callable[[], Any]) -> int:
    """Return by how many bytes the resident set was higher at most during a call that is warm."""
    least = sys.maxsize
    call()
    for _ in range(CALLS):
        gc.collect()
        sleep(SETTLING)
        Path("/proc/self/clear_refs").write_text("5")
        before = _resident("VmRSS")
        result = call()
        least = min(least, _resident("VmHWM") - before)
        del result
    return least


def measure(table: Path, words: list[str], threads: int, really: bool) -> Iterator[Row]:
    """Yield the rows of a table's lines that have one of the words."""
    for name, function, arguments in lines(words, table):
        compiled = jax.jit(function).lower(*arguments).compile()
        stats = compiled.memory_analysis()
        ours = lowtide.jit(function, threads=threads).lower(*arguments).compile()
        most = None
        if really:
            most = taken(partial(_awaited, compiled, arguments))
            most = max(0, most - stats.output_size_in_bytes)
        results = int(stats.output_size_in_bytes)
        temporaries = int(stats.temp_size_in_bytes)
        yield Row(name, results, ours.executable.arena_bytes - results, temporaries, most)


def table_of(rows: list[Row]) -> str:
    """Return the lines of a table in Markdown."""
    found = [
        "| operation | results | ours | XLA plans | XLA takes | ratio to planned | to taken |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for x in rows:
        if max(x.ours, x.planned, x.taken or 0) * 100 > x.results:
            most = "" if x.taken is None else f"{x.taken:,}" if x.taken > NOISE else "-"
            found.append(
                f"| {x.name} | {x.results:,} | {x.ours:,} | {x.planned:,} | {most} "
                f"| {x.ratio:.2f} | {x.real_ratio:.2f} |"
            )
    return "\n".join(found)


def main() -> None:
    """Print a line for each operation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--taken", action="store_true")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    if given.taken and MALLOC not in os.environ:
        os.environ |= {MALLOC: "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
        os.execv(sys.executable, [sys.executable, *sys.argv])
    rows = []
    print(f"{'':26}{'results':>12}{'ours':>12}{'XLA plans':>12}{'takes':>12}{'ratio':>7}{'':>7}")
    table = LARGE if given.large else TABLE
    for x in measure(table, given.words, given.threads, given.taken):
        rows.append(x)
        most = "" if x.taken is None else str(x.taken)
        print(
            f"{x.name:26}{x.results:12}{x.ours:12}{x.planned:12}{most:>12}"
            f"{x.ratio:7.2f}{x.real_ratio:7.2f}",
            flush=True,
        )
    above = sum(x.ratio > 1 + SLACK for x in rows)
    print(f"{len(rows)} operations, {above} more than 1% above what XLA plans")
    if given.write:
        replace_section(given.write, SECTION, table_of(rows))


if __name__ == "__main__":
    main()
