"""Programs of little work in native code beside XLA:CPU: one process, calls in turn, both warm.

    python benchmarks/small_programs.py [--only NAME,...] [--threads N] [--seconds S]
    python benchmarks/small_programs.py --document docs/performance.md
    python benchmarks/small_programs.py --plugin [--only NAME,...] [--seconds S]

The programs are those of `small_jax_programs.py`. Both sides get NumPy's arrays or those of JAX as
they want them, and take turns in slices; the time is the least of all slices, per call. Compiling
is time of the processor, once a first, tiny program has been compiled on either side, with an empty
cache. Memory is what is planned beyond arguments. With `--plugin` both sides are called by
`jax.jit`, on JAX's plugin and on XLA:CPU, each until its results are there.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from time import process_time
from typing import Any

from vs_xla import TINY, alternating

BEGIN, END = "<!-- begin small programs -->", "<!-- end small programs -->"


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds per call, seconds of the processor to compile, bytes, and the greatest difference."""

    name: str
    ours: float
    theirs: float
    our_compile: float
    their_compile: float
    our_bytes: int
    their_bytes: int
    difference: float


def measure(name: str, threads: int, seconds: float) -> Row:
    """Compile a program on both sides, compare the results, and time it."""
    import jax
    import numpy as np

    import lowtide
    from lowtide.inspection.xla_program import needed_bytes
    from lowtide.options import Options
    from small_jax_programs import PROGRAMS

    function, arguments = PROGRAMS[name]()
    leaves = [np.asarray(x) for x in jax.tree.leaves(arguments)]
    lowered = jax.jit(function).lower(*arguments)
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    start = process_time()
    module = lowtide.parse_hlo(text)
    executable = lowtide.compile(module, options=Options(threads=threads, cache=False))
    ours_took, start = process_time() - start, process_time()
    reference = lowered.compile()
    theirs_took = process_time() - start
    given = jax.tree.map(jax.numpy.array, arguments)

    def theirs() -> Any:
        return jax.block_until_ready(reference(*given))

    def ours() -> Any:
        return executable(*leaves)

    found = [np.asarray(x) for x in jax.tree.leaves(ours())]
    expected = [np.asarray(x) for x in jax.tree.leaves(theirs())]
    apart = max([_distance(a, b) for a, b in zip(found, expected, strict=True)])
    memory = reference.memory_analysis()
    best = alternating([ours, theirs], seconds, 0.005)
    return Row(
        name, *best, ours_took, theirs_took, executable.arena_bytes, needed_bytes(memory), apart
    )


def _distance(a: Any, b: Any) -> float:
    """The greatest difference by the greatest magnitude."""
    import numpy as np

    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-30))


def measure_plugin(name: str, seconds: float) -> tuple[float, float]:
    """Return the seconds of a call by `jax.jit` on the plugin and on XLA:CPU, results awaited."""
    import jax

    from small_jax_programs import PROGRAMS

    function, arguments = PROGRAMS[name]()
    sides = []
    for platform in ("lowtide", "cpu"):
        given = jax.device_put(arguments, jax.devices(platform)[0])
        jitted = jax.jit(function)
        sides.append(lambda f=jitted, given=given: jax.block_until_ready(f(*given)))
    ours, theirs = alternating(sides, seconds, 0.005)
    return ours, theirs


def plugin_table(times: dict[str, tuple[float, float]]) -> list[str]:
    """Return the table of times through the plugin in Markdown, and the means above it."""
    speeds = {name: theirs / ours for name, (ours, theirs) in times.items()}
    least = min(speeds, key=lambda x: speeds[x])
    return [
        f"Through `jax.jit`: geometric mean {geometric_mean(speeds.values()):.2f}, "
        f"least {speeds[least]:.2f} ({least}), {sum([x < 1 for x in speeds.values()])} below 1.",
        "",
        "| program | ours us | XLA us | speed |",
        "|---|--:|--:|--:|",
        *[
            f"| {name} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | {speeds[name]:.2f} |"
            for name, (ours, theirs) in times.items()
        ],
    ]


def table(rows: list[Row], threads: int) -> list[str]:
    """Return the table in Markdown, and the means above it."""
    speeds = [x.theirs / x.ours for x in rows]
    compiling = geometric_mean([x.our_compile / x.their_compile for x in rows])
    least = min(range(len(rows)), key=lambda i: speeds[i])
    lines = [
        f"{threads} thread{'' if threads == 1 else 's'}, {len(rows)} programs: geometric mean "
        f"{geometric_mean(speeds):.2f}, least {speeds[least]:.2f} ({rows[least].name}). "
        f"Compiling takes {compiling:.2f} of XLA's time of the processor.",
        "",
        "| program | ours us | XLA us | speed | compile s | XLA s | memory | XLA | difference |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for x, speed in zip(rows, speeds, strict=True):
        lines.append(
            f"| {x.name} | {x.ours * 1e6:.1f} | {x.theirs * 1e6:.1f} | {speed:.2f} | "
            f"{x.our_compile:.2f} | {x.their_compile:.2f} | {x.our_bytes:,} | {x.their_bytes:,} | "
            f"{x.difference:.1e} |"
        )
    return lines


def main() -> None:
    """Measure, print the table, and put it into a document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--document", type=Path)
    parser.add_argument("--plugin", action="store_true")
    options = parser.parse_args()
    threads = options.threads or len(os.sched_getaffinity(0))
    if threads == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["JAX_PLATFORMS"] = "lowtide,cpu" if options.plugin else "cpu"
    import lowtide
    from small_jax_programs import PROGRAMS

    names = options.only.split(",") if options.only else list(PROGRAMS)
    if options.plugin:
        times = {name: measure_plugin(name, options.seconds) for name in names}
        print("\n".join(plugin_table(times)))
        return
    lowtide.compile(lowtide.parse_hlo(TINY), cache=False)
    rows = []
    for name in names:
        rows.append(measure(name, threads, options.seconds))
        print(f"{name}: {rows[-1].theirs / rows[-1].ours:.2f}", file=sys.stderr)
    lines = table(rows, threads)
    print("\n".join(lines))
    if options.document:
        text = options.document.read_text()
        form = re.compile(f"{BEGIN}.*{END}", re.DOTALL)
        if not form.search(text):
            raise SystemExit(f"{options.document} has no place for the table: {BEGIN}")
        new = "\n".join([BEGIN, *lines, END])
        options.document.write_text(form.sub(lambda _: new, text))


if __name__ == "__main__":
    main()
