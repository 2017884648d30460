"""What measuring finds: programs with kernels as the cost model chooses, and as they were measured.

    python benchmarks/autotune.py --programs FILE [--scale medium] [--threads 2] [--only NAME,...]
                                  [--document docs/performance.md]

FILE registers programs as `jax_programs.py` says. Both ways run in one process, calls
in turn, and the time is the least of all slices. Measuring begins with nothing remembered. Seconds
are those of compiling, with kernels in no cache. A program of which nothing changes is timed once.
`--document` writes the section "autotune".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean
from time import perf_counter
from typing import Any

from sections import replace_section
from vs_xla import alternating, chosen_programs, program_options

HEADER = """\
| program | by cost model ms | tuned ms | gain | kernels changed | compile s | tuned s \
| memory MB | tuned MB |
|---|--:|--:|--:|--:|--:|--:|--:|--:|"""


@dataclass(frozen=True, slots=True)
class Row:
    """Milliseconds of a call, seconds to compile, and bytes beyond arguments, of both ways."""

    name: str
    plain: float
    tuned: float
    changed: str
    plain_compile: float
    tuned_compile: float
    plain_bytes: int
    tuned_bytes: int

    def __str__(self) -> str:
        """Return the row of the table."""
        return (
            f"| {self.name} | {self.plain * 1e3:.3f} | {self.tuned * 1e3:.3f} | "
            f"{self.plain / self.tuned:.2f} | {self.changed} | {self.plain_compile:.2f} | "
            f"{self.tuned_compile:.2f} | {self.plain_bytes / 1e6:.1f} | "
            f"{self.tuned_bytes / 1e6:.1f} |"
        )


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    """Return what is made, and the seconds that it took."""
    start = perf_counter()
    made = make()
    return made, perf_counter() - start


def measure(program: Any, threads: int, seconds: float) -> Row:
    """Compile a program both ways and time it."""
    from lowtide.backends.build import build
    from lowtide.backends.cpu import CpuBackend
    from lowtide.files.object_cache import ObjectCache
    from lowtide.llvm.target import host_target
    from lowtide.runtime.cpu.call import LinkedExecutable
    from lowtide.tuning.tuner import Tuner

    none = ObjectCache(None)
    tuner = Tuner(host_target(), threads, none, none)
    module = program.module()
    plain, plain_compile = timed(lambda: build(module, CpuBackend(threads)))
    tuned, tuned_compile = timed(lambda: build(module, CpuBackend(threads, tuner=tuner)))
    arenas = [x.plan.report.ladder.arena_bytes for x in (plain, tuned)]
    known = {x for y in plain.program.kernels for x in y.phases}
    kernels = tuned.program.kernels
    changed = len([x for x in kernels if not known.issuperset(x.phases)])
    given = program.arguments()
    sides = (plain, tuned) if changed else (plain,)
    times = alternating([partial(LinkedExecutable(x.program), *given) for x in sides], seconds)
    return Row(
        program.name,
        times[0],
        times[-1],
        f"{changed} of {len(kernels)}",
        plain_compile,
        tuned_compile,
        *arenas,
    )


def main() -> None:
    """Print a table, and write it."""
    given = program_options(__doc__, 2.0).parse_args()
    rows = []
    print(HEADER)
    for program in chosen_programs(given):
        rows.append(measure(program, given.threads, given.seconds))
        print(rows[-1], flush=True)
    gains = [x.plain / x.tuned for x in rows]
    words = f"{len(rows)} programs, {given.threads} thread{'s' if given.threads > 1 else ''}"
    mean, least = geometric_mean(gains), min(gains)
    summary = f"{words}: geometric mean of the gain {mean:.3f}, least {least:.2f}."
    print(summary)
    if given.document:
        lines = [summary, "", HEADER, *[str(x) for x in rows]]
        replace_section(given.document, "autotune", "\n".join(lines))


if __name__ == "__main__":
    main()
