"""Hard packing problems: how low the exact search gets, and how long it takes.

  python benchmarks/exact_packing.py [--seconds S] [--seeds N] [FILE.csv ...]

Files are in MiniMalloc's format; the families that are generated fit into 1,048,576 bytes:
rectangles cut at random (no byte is free at any time), the same with some taken out, and the same
with lives shortened at both ends (nobody knows the least height of these).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from lowtide.planning.assign import place
from lowtide.planning.problem import PackingProblem, TensorUsageRecord, packing_problem
from lowtide.search.effort import SearchOptions

SIDE: Final = 1 << 20
UNIT: Final = 1024

Rectangle = tuple[int, int, int, int]
"""First time, time behind, lowest address, address behind."""


def cut(count: int, random: np.random.Generator) -> list[Rectangle]:
    """Cut a square into rectangles, the larger ones rather, in time or in address."""
    found: list[Rectangle] = [(0, SIDE, 0, SIDE)]
    while len(found) < count:
        areas = np.array([(b - a) * (d - c) for a, b, c, d in found], float)
        chosen = int(random.choice(len(found), p=areas / areas.sum()))
        a, b, c, d = found[chosen]
        in_time = random.random() < 0.5
        low, high = (a, b) if in_time else (c, d)
        if high - low < 2 * UNIT:
            continue
        at = low + UNIT * int(random.integers(1, (high - low) // UNIT))
        found[chosen] = (a, at, c, d) if in_time else (a, b, c, at)
        found.append((at, b, c, d) if in_time else (a, b, at, d))
    return [found[i] for i in random.permutation(count)]


def full(random: np.random.Generator) -> list[Rectangle]:
    return cut(200, random)


def thinned(random: np.random.Generator) -> list[Rectangle]:
    return [x for x in cut(220, random) if random.random() >= 0.1]


def shortened(random: np.random.Generator) -> list[Rectangle]:
    found = []
    for a, b, c, d in cut(200, random):
        less = (b - a) * 0.1 * random.random()
        before = int(less * random.random()) // UNIT * UNIT
        behind = int(less - before) // UNIT * UNIT
        found.append((a + before, max(a + before + UNIT, b - max(0, behind)), c, d))
    return found


FAMILIES: Final[dict[str, Callable[[np.random.Generator], list[Rectangle]]]] = {
    "full": full,
    "thinned": thinned,
    "shortened": shortened,
}


def problems(files: list[Path], seeds: int) -> Iterator[tuple[str, PackingProblem]]:
    for path in files:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        fields = [(int(x["size"]), int(x["lower"]), int(x["upper"]) - 1) for x in rows]
        yield path.stem, packing_problem([TensorUsageRecord(*row) for row in fields])
    for name, family in FAMILIES.items():
        for seed in range(seeds):
            found = family(np.random.default_rng(seed))
            records = [TensorUsageRecord(d - c, a, b - 1) for a, b, c, d in found]
            yield f"{name} {seed}", packing_problem(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    print("problem         buffers     height      bound   ratio  seconds  at 1 MiB  stopped")
    for name, problem in problems(options.files, options.seeds):
        begun = perf_counter()
        fits: list[float] = []

        def progress(height: int, _: int, begun: float = begun, fits: list[float] = fits) -> None:
            if height <= SIDE and not fits:
                fits.append(perf_counter() - begun)

        search = SearchOptions(deadline=options.seconds, progress=progress)
        found = place(problem, "exact", search)
        seconds = perf_counter() - begun
        at = f"{fits[0]:8.2f}" if fits else "       -"
        print(
            f"{name:14} {len(problem):8} {found.total_size:10,} {found.lower_bound:10,} "
            f"{found.total_size / max(1, found.lower_bound):7.4f} {seconds:8.2f}  {at}  "
            f"{found.stopped}",
            flush=True,
        )


if __name__ == "__main__":
    main()
