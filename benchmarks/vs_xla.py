"""The speed of native code beside jax.jit on XLA:CPU: one process, calls in turn, both warm.

    python benchmarks/vs_xla.py --programs FILE [--scale medium] [--threads 2] [--only NAME,...]
    python benchmarks/vs_xla.py --programs FILE --document docs/performance.md

FILE registers programs as `jax_programs.py` says. With one thread the process is kept
on one core before anything is imported. A call of either side is made with arrays that are where it
wants them; arguments that are donated are the results of the call before. Both sides take turns
in slices; the time is the least of all slices, per call. Compiling is timed once a first, tiny
program has been compiled on either side: ours from HLO text to a linked executable, the cache being
the folder that LOWTIDE_CACHE names; XLA's from a lowered function. Memory is what is planned beyond
arguments. `--document` measures each program in processes of its own (`vs_xla_processes.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Any

import vs_xla_processes

TINY = """HloModule tiny
ENTRY main {
  x = f32[8] parameter(0)
  ROOT y = f32[8] add(x, x)
}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds per call, seconds to compile, and bytes beyond arguments, of both sides.

    `differing` has results that differ by more than rounding, in words.
    """

    ours: float
    theirs: float
    our_compile: float
    their_compile: float
    our_bytes: int
    their_bytes: int
    differing: tuple[str, ...] = ()

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


def restrict_to_avx2() -> None:
    """Make both sides write code for AVX2 only; called before JAX is imported.

    XLA's library of products asks the processor and uses AVX-512 all the same: where products take
    the time, compare with the copy that `jaxlib_avx2.py` makes.
    """
    from lowtide.llvm import target

    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_max_isa=AVX2"
    target.pretend_host(target.restricted(target.host_target(), "avx2"))


def compiled(text: str, threads: int) -> tuple[Any, Any, float]:
    """Return the module of a text, its executable, and the seconds that both took."""
    from lowtide.client.executable import compile_module
    from lowtide.frontend.hlo_text import parse_hlo
    from lowtide.options import Options

    start = perf_counter()
    module = parse_hlo(text)
    executable = compile_module(module, Options(threads=threads))
    return module, executable, perf_counter() - start


def hlo_text(program: Any) -> str:
    """Return the HLO of a program before any optimization."""
    text: str = program._lowered().compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    return text


def measure(program: Any, threads: int, seconds: float) -> Row:
    """Compile a program on both sides, compare the results, and time it."""
    import jax
    import numpy as np

    from lowtide.analysis.donation import aliases as aliases_of
    from lowtide.evaluator import value_leaves
    from lowtide.inspection.xla_program import needed_bytes

    jax.jit(lambda x: x + x).lower(np.zeros(8, np.float32)).compile()
    compiled(TINY, threads)
    module, executable, our_compile = compiled(hlo_text(program), threads)
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
        differing = differences(ours(), other())
        our_time, their_time = alternating([ours, other], seconds)
    return Row(
        our_time,
        their_time,
        our_compile,
        their_compile,
        executable.arena_bytes,
        needed_bytes(memory),
        differing,
    )


def warm_compile(program: Any, threads: int) -> float:
    """Return the seconds to get a program from the cache; RuntimeError where it is not there."""
    compiled(TINY, threads)
    _, executable, seconds = compiled(hlo_text(program), threads)
    if not executable.making.was_cached:
        raise RuntimeError("the cache has no such program")
    return seconds


def differences(ours: list[Any], theirs: list[Any]) -> tuple[str, ...]:
    """Return, in words, where results differ by more than rounding."""
    import numpy as np

    found = []
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
            found.append(f"result {number} differs by {worst:.3g}")
    return tuple(found)


def program_options(description: str, seconds: float) -> argparse.ArgumentParser:
    """Return a parser of what benchmarks of registered programs have in common."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--scale", default="medium")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--only", default="", help="parts of names, between commas")
    parser.add_argument("--document", type=Path, help="write the table into this file")
    parser.add_argument("--avx2", action="store_true", help="code for AVX2 only, on both sides")
    return parser


def chosen_programs(given: argparse.Namespace) -> Iterator[Any]:
    """Yield the programs to measure; with one thread the process is kept on one core first."""
    if given.threads == 1:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    from jax_programs import jax_programs

    wanted = given.only.split(",")
    for program in jax_programs(given.programs, given.scale):
        if any(x in program.name for x in wanted):
            yield program


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = program_options(__doc__, 1.0)
    parser.add_argument("--results", type=Path, help="measurements to go on from, a JSON each line")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds of each process")
    parser.add_argument("--list", action="store_true", help="names only")
    parser.add_argument("--record", choices=("cold", "warm"), help="one program, as JSON")
    return parser.parse_args()


def record(program: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Measure one program as a process of the document does."""
    if given.record == "warm":
        return {"warm": warm_compile(program, given.threads)}
    return asdict(measure(program, given.threads, given.seconds))


def print_table(programs: list[Any], given: argparse.Namespace) -> None:
    """Measure programs in this process."""
    rows = []
    print(f"{'':30} {'ours ms':>9} {'XLA ms':>9} {'speed':>6}  {'compile s':>12}  memory MB")
    for program in programs:
        try:
            row = measure(program, given.threads, given.seconds)
        except Exception as error:
            print(f"{program.name:30} {type(error).__name__}: {str(error)[:120]}", flush=True)
            continue
        rows.append(row)
        print(
            f"{program.name:30} {row.ours * 1e3:9.3f} {row.theirs * 1e3:9.3f} {row.speedup:6.2f}  "
            f"{row.our_compile:5.2f} {row.their_compile:6.2f}  "
            f"{row.our_bytes / 1e6:8.1f} {row.their_bytes / 1e6:8.1f}",
            *row.differing,
            flush=True,
        )
    if rows:
        print(
            f"geometric mean {geometric_mean([x.speedup for x in rows]):.2f}, least "
            f"{min([x.speedup for x in rows]):.2f}; compile "
            f"{geometric_mean([x.our_compile / x.their_compile for x in rows]):.2f} of XLA's"
        )


def main() -> None:
    """Print a table, write one, or measure one program."""
    given = options()
    if given.avx2:
        restrict_to_avx2()
    if given.document:
        vs_xla_processes.write_document(given)
        return
    found = chosen_programs(given)
    if given.list:
        print(*[x.name for x in found], sep="\n")
    elif given.record:
        program = next(x for x in found if x.name == given.only)
        json.dump(record(program, given), sys.stdout)
    else:
        if "LOWTIDE_CACHE" not in os.environ:
            print("compiled programs come from the user's cache", file=sys.stderr)
        print_table(list(found), given)


if __name__ == "__main__":
    main()
