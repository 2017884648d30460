"""The speed of native code beside jax.jit on XLA:CPU: one process, calls in turn, both warm.

    python benchmarks/vs_xla.py [--programs FILE] [--scale medium] [--threads 2] [--only NAME,...]

FILE registers programs as `lowtide.testing.jax_programs` says. With one thread the process is kept
on one core before anything is imported. A call of either side is made with arrays that are where it
wants them; arguments that are donated are the results of the call before. Both sides take turns
in slices; the time is the least of all slices, per call. Compile times are of a process whose
caches are empty, with the passes; memory is what is planned beyond arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from time import perf_counter
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds per call, seconds to compile, and bytes beyond arguments, of both sides."""

    name: str
    ours: float
    theirs: float
    our_compile: float
    their_compile: float
    our_bytes: int
    their_bytes: int

    @property
    def speedup(self) -> float:
        """How many times as fast native code is."""
        return self.theirs / self.ours


def fed_back(
    call: Callable[..., Any], arguments: list[Any], aliases: list[tuple[int, int]]
) -> Callable[[], Any]:
    """Return a call without arguments; donated ones are replaced by the results."""

    def once() -> Any:
        results = call(arguments)
        for output, argument in aliases:
            arguments[argument] = results[output]
        return results

    return once


def alternating(
    sides: list[Callable[[], Any]], seconds: float, slice_seconds: float = 0.02
) -> list[float]:
    """Return the least seconds per call of each side."""
    counts = []
    for side in sides:
        side()
        start = perf_counter()
        side()
        counts.append(max(1, int(slice_seconds / max(perf_counter() - start, 1e-7))))
    best = [float("inf")] * len(sides)
    stop = perf_counter() + seconds
    rounds = 0
    while rounds < 5 or perf_counter() < stop:
        rounds += 1
        for number, (side, count) in enumerate(zip(sides, counts, strict=True)):
            start = perf_counter()
            for _ in range(count):
                side()
            best[number] = min(best[number], (perf_counter() - start) / count)
    return best


def measure(program: Any, threads: int, seconds: float) -> Row:
    """Compile a program on both sides, compare the results, and time it."""
    import jax
    import numpy as np

    from lowtide import native
    from lowtide.analysis.donation import aliases as aliases_of
    from lowtide.evaluator import value_leaves
    from lowtide.runtime.call import Executable

    module = program.module()
    start = perf_counter()
    compiled = native.compile_module(module, threads=threads)
    executable = Executable(compiled.program)
    our_compile = perf_counter() - start
    aliases = [(x.output, x.parameter) for x in aliases_of(module)]
    with jax.enable_x64(program.is_64_bit):
        lowered = program._lowered()
        start = perf_counter()
        reference = lowered.compile()
        their_compile = perf_counter() - start
        leaves = [jax.numpy.array(x) for x in jax.tree.leaves(program.tree)]
        structure = jax.tree.structure(program.tree)
        memory = reference.memory_analysis()

        def theirs(arguments: list[Any]) -> Any:
            given = jax.tree.unflatten(structure, arguments)
            return jax.tree.leaves(jax.block_until_ready(reference(*given)))

        given = [np.array(x) for x in program.arguments()]
        ours = fed_back(
            lambda a: list(value_leaves(executable(*a, consume=bool(aliases)))), given, aliases
        )
        other = fed_back(theirs, leaves, aliases)
        check(program.name, ours(), other())
        our_time, their_time = alternating([ours, other], seconds)
    report = compiled.plan.report
    return Row(
        program.name,
        our_time,
        their_time,
        our_compile,
        their_compile,
        report.ladder.arena_bytes,
        memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes,
    )


def check(name: str, ours: list[Any], theirs: list[Any]) -> None:
    """Say on stderr where results differ by more than rounding."""
    import numpy as np

    for number, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        y = np.asarray(y)
        if y.dtype.kind not in "fc" and y.dtype.name != "bfloat16":
            worst = float(np.count_nonzero(x != y)) / max(y.size, 1)
        else:
            a, b = (np.asarray(z).astype(np.complex128) for z in (x, y))
            scale = np.abs(b[np.isfinite(b)]).max(initial=1e-30)
            difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
            worst = float(difference.max(initial=0) / scale)
        if not worst <= 1e-2:
            print(f"{name}: result {number} differs by {worst:.3g}", file=sys.stderr)


def mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return exp(sum([log(x) for x in values]) / len(values))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--scale", default="medium")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if given.threads == 1:
        os.sched_setaffinity(0, cores[-1:])
    from lowtide.testing.jax_programs import jax_programs

    rows = []
    print(f"{'':30} {'ours ms':>9} {'XLA ms':>9} {'speed':>6}  {'compile s':>12}  memory MB")
    for program in jax_programs(given.programs, given.scale):
        if given.only and not any(x in program.name for x in given.only.split(",")):
            continue
        try:
            row = measure(program, given.threads, given.seconds)
        except Exception as error:
            print(f"{program.name:30} {type(error).__name__}: {str(error)[:120]}", flush=True)
            continue
        rows.append(row)
        print(
            f"{row.name:30} {row.ours * 1e3:9.3f} {row.theirs * 1e3:9.3f} {row.speedup:6.2f}  "
            f"{row.our_compile:5.2f} {row.their_compile:6.2f}  "
            f"{row.our_bytes / 1e6:8.1f} {row.their_bytes / 1e6:8.1f}",
            flush=True,
        )
    if rows:
        print(
            f"geometric mean {mean([x.speedup for x in rows]):.2f}, least "
            f"{min([x.speedup for x in rows]):.2f}; compile "
            f"{mean([x.our_compile / x.their_compile for x in rows]):.2f} of XLA's"
        )


if __name__ == "__main__":
    main()
