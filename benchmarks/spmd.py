"""Bytes that one device sends, and memory that it needs, beside XLA's partitioner.

  python benchmarks/spmd.py BASELINE FOLDER [--only TEXT,..] [--no-memory] [--write PAGE]

BASELINE is a CSV of XLA's figures, FOLDER the texts before partitioning that `xla_spmd.py --dump`
writes, `PROGRAM.MESH.STYLE.hlo.txt`, or modules `PROGRAM.hlo.txt.xz` with shardings. Bytes sent are
those of the ring model, loop bodies times their trips; seconds are of CPU.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Final

from lowtide import compiler
from lowtide.frontend.files import read
from lowtide.ir import LowtideError
from lowtide.spmd.partitioner import partition
from lowtide.spmd.wire import wire_traffic
from sections import replace_section

LEAST: Final = 1e-3
"""A ratio below this one counts as this one, so that no row outweighs all others."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: bytes sent, temp bytes (None: not planned), seconds, or an error."""

    name: str
    xla_sent: int
    xla_temp: int
    sent: int = 0
    temp: int | None = None
    seconds: float = 0.0
    error: str = ""

    @property
    def ratio(self) -> float | None:
        """Bytes sent by XLA's; None where neither sends any."""
        if self.error or not (self.sent or self.xla_sent):
            return None
        return self.sent / self.xla_sent if self.xla_sent else math.inf

    @property
    def temp_ratio(self) -> float | None:
        """Temp bytes by XLA's."""
        return None if self.temp is None else self.temp / max(1, self.xla_temp)


def rows(baseline: Path, folder: Path, only: list[str], *, memory: bool) -> Iterator[Row]:
    """Yield the rows of the baseline whose module is in the folder."""
    with baseline.open() as file:
        given = [row for row in csv.DictReader(file) if row["wire_bytes"]]
    for row in given:
        name = f"{row['program']}.{row['mesh']}.{row['style']}"
        if only and not any(text in name for text in only):
            continue
        paths = [folder / f"{name}.hlo.txt", folder / f"{row['program']}.hlo.txt.xz"]
        path = next((p for p in paths if p.exists()), None)
        if path is not None:
            found = measured(name, path, int(row["wire_bytes"]), int(row["temp"]), memory=memory)
            print(line(found), file=sys.stderr, flush=True)
            yield found


def measured(name: str, path: Path, sent: int, temp: int, *, memory: bool) -> Row:
    """Return the row of one module."""
    start = process_time()
    try:
        parts = partition(read(path))
        seconds = process_time() - start
        own = wire_traffic(parts.module).wire_bytes
        planned = compiler.explain(parts.module).temp_bytes if memory else None
    except LowtideError as error:
        return Row(name, sent, temp, error=str(error))
    return Row(name, sent, temp, own, planned, seconds)


def text(value: float | None) -> str:
    """Return a ratio, or a dash."""
    return "-" if value is None else f"{value:.3f}"


def line(row: Row) -> str:
    """Return one line of the table."""
    if row.error:
        return f"| {row.name} | {row.xla_sent:,} | {row.error} | | | | |"
    temp = "-" if row.temp is None else f"{row.temp:,}"
    return (
        f"| {row.name} | {row.xla_sent:,} | {row.sent:,} | {text(row.ratio)} | {temp} | "
        f"{text(row.temp_ratio)} | {row.seconds:.1f} |"
    )


def mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum([math.log(max(x, LEAST)) for x in ratios]) / max(1, len(ratios)))


def page(found: list[Row]) -> str:
    """Return the section of the document."""
    ratios = [row.ratio for row in found if row.ratio is not None]
    temps = [row.temp_ratio for row in found if row.temp_ratio is not None]
    silent = sum([row.ratio is None and not row.error for row in found])
    head = [
        f"- rows: {len(found)}, of which {silent} send nothing either way; "
        f"errors: {sum([bool(row.error) for row in found])}",
        f"- bytes sent, ours by XLA's: geometric mean {mean(ratios):.3f}, largest "
        f"{max(ratios, default=0):.3f}",
        f"- temp bytes, ours by XLA's: geometric mean {mean(temps):.3f}, largest "
        f"{max(temps, default=0):.3f}",
        "",
        "| program, mesh, style | XLA sends | sent | ratio | temp | by XLA's | s |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    return "\n".join([*head, *[line(row) for row in found]])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("baseline", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    only = [part for part in given.only.split(",") if part]
    found = list(rows(given.baseline, given.folder, only, memory=given.memory))
    if given.write is None:
        print(page(found))
    else:
        replace_section(given.write, "rows", page(found))


if __name__ == "__main__":
    main()
