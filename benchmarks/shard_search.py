"""Searched divisions of programs over devices beside those by hand, under caps on memory.

  python benchmarks/shard_search.py [--only TEXT,..] [--meshes 8,4x2] [--write PAGE]

Each program of `shard_programs.py`, forward and as a step of training, is divided by hand (by data,
fully sharded, by tensors, in two dimensions) and by the search, with what `lowtide partition` says
of each: the simulated step and the peak of one device. The caps are a twentieth above the peak of
the division by data, above the least peak of those by hand, and above the mean of these. Seconds of
the search are of CPU.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Final

from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.ir import Module
from lowtide.sharding_search.division import Division
from lowtide.sharding_search.evaluation import PlannedDivision
from lowtide.sharding_search.mesh import mesh_of_devices, mesh_of_text
from lowtide.sharding_search.search import PreparedSearch, prepared, search_prepared
from sections import replace_section
from shard_programs import LARGE, PROGRAMS, by_hand

WAYS: Final = ("data", "fully", "tensor", "2d")
ABOVE: Final = 1.05


@dataclass(frozen=True)
class Row:
    """A program on a mesh under a cap: the best by hand that fits, and what the search found.

    Seconds are None where nothing fits. `took` are the seconds of CPU of the search.
    """

    program: str
    mesh: str
    cap: int
    way: str
    by_hand: float | None
    found: float | None
    peak: int | None
    took: float
    planned: int

    @property
    def ratio(self) -> float | None:
        """The time of what was found by that of the best by hand."""
        if self.by_hand is None or self.found is None:
            return None
        return self.found / self.by_hand


def hand_divisions(search: PreparedSearch) -> dict[str, Division]:
    """Return the divisions by hand; over one axis there are none in two dimensions."""
    program = search.program
    names = [leaf.name for leaf in program.leaves]
    sizes = program.mesh.sizes
    ways = [way for way in WAYS if len(sizes) > 1 or not way.startswith("2d")]
    return {way: Division(by_hand(names, program.sizes, sizes, way)) for way in ways}


def rows(name: str, module: Module, mesh: str) -> Iterator[Row]:
    """Yield the rows of a program on a mesh, for each cap."""
    chosen = mesh_of_devices(int(mesh)) if mesh.isdecimal() else mesh_of_text(mesh)
    search = prepared(module, chosen, keeps=True)
    hand = hand_divisions(search)
    free = {way: search.planner.plan(division, None) for way, division in hand.items()}
    most, least = free["data"].peak_bytes, min([x.peak_bytes for x in free.values()])
    for cap in sorted({math.ceil(ABOVE * x) for x in (most, math.sqrt(most * least), least)}):
        planned = {way: search.planner.plan(division, cap) for way, division in hand.items()}
        fitting = {way: x for way, x in planned.items() if x.peak_bytes <= cap}
        yield found_row(search, (name, mesh, cap), fitting)


def found_row(
    search: PreparedSearch, case: tuple[str, str, int], fitting: dict[str, PlannedDivision]
) -> Row:
    """Return the row of one cap, given the divisions by hand that fit."""
    way = min(fitting, key=lambda x: fitting[x].seconds, default="-")
    start = process_time()
    report = search_prepared(search, case[2])
    took = process_time() - start
    best = report.best
    return Row(
        *case,
        way,
        fitting[way].seconds if fitting else None,
        None if best is None else best.seconds,
        None if best is None else best.peak_bytes,
        took,
        report.planned,
    )


def text(value: float | None, scale: float = 1.0, digits: int = 3) -> str:
    """Return a number, or a dash."""
    return "-" if value is None else f"{value * scale:,.{digits}f}"


def line(row: Row) -> str:
    """Return one line of the table."""
    return (
        f"| {row.program} | {row.mesh} | {text(row.cap, 1e-6, 1)} | {row.way} | "
        f"{text(row.by_hand, 1e3)} | {text(row.found, 1e3)} | {text(row.ratio)} | "
        f"{text(row.peak, 1e-6, 1)} | {row.planned} | {row.took:.1f} |"
    )


def page(found: list[Row]) -> str:
    """Return the section of the document."""
    ratios = [row.ratio for row in found if row.ratio is not None]
    mean = math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))
    quicker = sum([ratio < 0.999 for ratio in ratios])
    missing = sum([row.found is None for row in found])
    head = [
        f"- rows: {len(found)}; nothing found that fits: {missing}",
        f"- step, ours by the best by hand that fits: geometric mean {mean:.3f}, largest "
        f"{max(ratios, default=0):.3f}; quicker in {quicker} of {len(ratios)}",
        "",
        "| program | mesh | cap MB | best by hand | ms | ours ms | ratio | peak MB | planned | s |",
        "|---|---|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    return "\n".join([*head, *map(line, found)])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--meshes", default="8,4x2")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    only = [part for part in given.only.split(",") if part]
    found: list[Row] = []
    for make in PROGRAMS.values():
        program = make(LARGE)
        for train in (False, True):
            name = f"{program.name} {'step' if train else 'forward'}"
            if only and not any(part in name for part in only):
                continue
            hlo = program.lowered(train=train).compiler_ir("hlo")
            module = read_hlo_proto(hlo.as_serialized_hlo_module_proto())
            for mesh in given.meshes.split(","):
                for row in rows(name, module, mesh):
                    print(line(row), file=sys.stderr, flush=True)
                    found.append(row)
                if given.write is not None:
                    replace_section(given.write, "rows", page(found))
    if given.write is None:
        print(page(found))


if __name__ == "__main__":
    main()
