"""Packing at scale: height by the most bytes live, seconds and memory, by family and size.

    python benchmarks/intervals.py [--buffers N ...] [--family NAME ...] [--strategy NAME]

Families are drawn with a fixed seed. Sizes of random buffers are log-uniform, from 64 bytes to 16
MiB, multiples of 64. `modules` are the live ranges of modules, of `shared/corpus` where that is
there, else of `examples`, one copy after the other; in `modules_overlapping` a copy begins when the
one before is half over. Each line is a process by itself; seconds are of wall and of CPU time for
`place`, and MB the most memory of that process.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt

from lowtide import planning
from lowtide.planning.problem import PackingProblem, live_profile

Array = npt.NDArray[np.int64]
Intervals = tuple[Array, Array, Array]

ROOT = Path(__file__).parents[1]
MODULES = 4


def sizes(draw: np.random.Generator, count: int) -> Array:
    return np.exp2(draw.uniform(6, 24, count)).astype(np.int64) // 64 * 64


def short_lived(count: int) -> Intervals:
    """Return buffers that live 1 to 100 steps; one begins at each step."""
    draw = np.random.default_rng(1)
    first = draw.integers(0, count, count)
    return sizes(draw, count), first, first + draw.integers(0, 100, count)


def heavy_tailed(count: int) -> Intervals:
    """Return buffers with log-uniform lifetimes, up to a tenth of all steps."""
    draw = np.random.default_rng(2)
    first = draw.integers(0, count, count)
    length = np.exp(draw.uniform(0, np.log(count / 10), count)).astype(np.int64)
    return sizes(draw, count), first, first + length


def pareto(count: int) -> Intervals:
    """Return buffers with lifetimes that follow a power law."""
    draw = np.random.default_rng(3)
    first = draw.integers(0, count, count)
    length = np.minimum(10 * draw.pareto(1.1, count), count / 4).astype(np.int64)
    return sizes(draw, count), first, first + length


def training(count: int) -> Intervals:
    """Return steps of training: half is kept from forward to backward, half is short-lived."""
    draw = np.random.default_rng(4)
    kept, layers = count // 2, max(1, min(2_000, count // 20))
    step = 2 * layers * draw.integers(0, max(1, kept // (10 * layers)), kept)
    forward = draw.integers(0, layers, kept)
    backward = np.maximum(forward, 2 * layers - 1 - forward + draw.integers(-2, 3, kept))
    first = draw.integers(0, int(step.max(initial=0)) + 2 * layers, count - kept)
    begin = np.concatenate([step + forward, first])
    end = np.concatenate([step + backward, first + draw.integers(0, 5, count - kept)])
    return sizes(draw, count), begin, end


def uniform(count: int) -> Intervals:
    """Return buffers between any two steps: a third of all live at once, half of them at most."""
    draw = np.random.default_rng(5)
    one, other = draw.integers(0, count, count), draw.integers(0, count, count)
    return sizes(draw, count), np.minimum(one, other), np.maximum(one, other)


RANDOM: dict[str, Callable[[int], Intervals]] = {
    "short_lived": short_lived,
    "heavy_tailed": heavy_tailed,
    "pareto": pareto,
    "training": training,
    "uniform": uniform,
}
TILED = {"modules": 1.0, "modules_overlapping": 0.5}


def module_ranges() -> list[Intervals]:
    """Return the live ranges of some modules, small and large ones."""
    import lowtide
    from lowtide import compiler

    files = sorted((ROOT / "shared" / "corpus").glob("*.hlo*"))
    files = files or sorted((ROOT / "examples").rglob("*.hlo*"))
    files.sort(key=lambda file: file.stat().st_size)
    found = []
    for file in files[:: -max(1, len(files) // MODULES)][:MODULES]:
        ranges = compiler.plan(lowtide.read(file), compiler.PlanOptions("input")).ranges
        first = np.full(len(ranges.nbytes), np.iinfo(np.int64).max)
        last = np.full(len(ranges.nbytes), -1)
        np.minimum.at(first, ranges.buffer, ranges.first)
        np.maximum.at(last, ranges.buffer, ranges.last)
        kept = (ranges.nbytes > 0) & (last >= 0)
        found.append((ranges.nbytes[kept], first[kept], last[kept]))
    return found


def tiled(modules: list[Intervals], count: int, shift: float) -> Intervals:
    """Return copies of modules in turn, the next after a part `shift` of the one before."""
    copies: list[Intervals] = []
    begin = buffers = 0
    while buffers < count:
        nbytes, first, last = modules[len(copies) % len(modules)]
        copies.append((nbytes, first + begin, last + begin))
        begin += int(shift * (int(last.max()) + 1))
        buffers += len(nbytes)
    nbytes, first, last = (np.concatenate(column)[:count] for column in zip(*copies, strict=True))
    return nbytes, first, last


def problem_of(intervals: Intervals) -> PackingProblem:
    nbytes, first, last = intervals
    count = len(nbytes)
    free, none = np.full(count, planning.FREE), np.zeros(0, np.int64)
    return PackingProblem(
        nbytes, np.gcd(nbytes, 64), np.arange(count), first, last, free, free.copy(), none
    )


def measure(intervals: Intervals, strategy: str) -> str:
    """Return the line of one problem."""
    problem = problem_of(intervals)
    one = PackingProblem(
        np.ones_like(problem.nbytes),
        problem.alignment,
        problem.item,
        problem.first,
        problem.last,
        problem.fixed_offset,
        problem.region_of,
        problem.region_bytes,
    )
    wall, cpu = perf_counter(), process_time()
    answer = planning.place(problem, strategy)
    wall, cpu = perf_counter() - wall, process_time() - cpu
    live = int(live_profile(one).max())
    above = 100 * (answer.total_size / planning.max_live(problem) - 1)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{live:9,d} {above:9.3f} {wall:8.2f} {cpu:8.2f} {megabytes:7,.0f}"


def main() -> None:
    """Print one line for each family and size."""
    parser = argparse.ArgumentParser(description="packing at scale")
    parser.add_argument("--buffers", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--family", nargs="+", default=[*TILED, *RANDOM])
    parser.add_argument("--strategy", default="portfolio")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        with np.load(arguments.one) as columns:
            intervals = columns["nbytes"], columns["first"], columns["last"]
        print(measure(intervals, arguments.strategy))
        return
    print(
        f"{'family':20s} {'buffers':>9s} {'live':>9s} {'% above':>9s} {'seconds':>8s} {'CPU':>8s} "
        f"{'MB':>7s}"
    )
    modules = module_ranges() if set(arguments.family) & set(TILED) else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "intervals.npz"
        for family in arguments.family:
            for count in arguments.buffers:
                chosen = RANDOM[family](count) if family in RANDOM else None
                nbytes, first, last = chosen or tiled(modules, count, TILED[family])
                np.savez(file, nbytes=nbytes, first=first, last=last)
                command = [sys.executable, __file__, "--one", str(file)]
                command += ["--strategy", arguments.strategy]
                line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                print(f"{family:20s} {count:9,d} {line.rstrip()}", flush=True)


if __name__ == "__main__":
    main()
