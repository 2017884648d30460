"""Compare our plans with XLA:CPU's, of the same programs in the same order.

    python benchmarks/xla_plans.py [--programs FILE] [--scale small,medium] [--kept FOLDER]
                                   [--write docs/xla_plans.md]

Each program is compiled by jaxlib with each of XLA's two schedulers. Its optimized, scheduled HLO
is planned by lowtide as it is. With `--kept` what XLA made is kept in a folder, and taken from
there the next time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jax_programs import MEMORY_SCHEDULER, jax_programs
from lowtide import compiler
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.report.memory import MemoryReport

PROGRAMS: Final = Path(__file__).parents[2] / "shared" / "benchmarks" / "jax_corpus.py"
SCHEDULERS: Final = {"default": {}, "memory": MEMORY_SCHEDULER}


@dataclass(frozen=True)
class Comparison:
    """One program in one of XLA's orders; all but `seconds` are bytes, save the names."""

    scale: str
    program: str
    scheduler: str
    xla_temp: int
    temp: int
    live: int
    arena: int
    copies: int
    seconds: float

    @property
    def is_worse(self) -> bool:
        """Whether XLA needs less."""
        return self.temp > self.xla_temp

    @property
    def is_tight(self) -> bool:
        """Whether the arena is what is live at once."""
        return self.arena == self.live


def compared(scale: str, program: str, scheduler: str, text: str, xla_temp: int) -> Comparison:
    """Plan one scheduled module and set its figures beside XLA's."""
    module = parse_hlo(text)
    start = time.perf_counter()
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    seconds = time.perf_counter() - start
    report: MemoryReport = plan.report
    return Comparison(
        scale,
        program,
        scheduler,
        xla_temp,
        report.temp_bytes,
        report.ladder.live_bytes,
        report.ladder.arena_bytes,
        len(plan.copies.copies),
        seconds,
    )


def compile_all(path: Path, scale: str, folder: Path | None) -> Iterator[Comparison]:
    """Compile the programs of a file, or take what is kept of them, and compare."""
    for program in jax_programs(path, scale):
        for scheduler, options in SCHEDULERS.items():
            made = None if folder is None else folder / f"{scale}.{program.name}.{scheduler}.json"
            if made is not None and made.is_file():
                record = json.loads(made.read_text())
            else:
                compiled = program.compiled(options)
                record = {"text": compiled.text, "temp_bytes": compiled.temp_bytes}
                if made is not None:
                    made.write_text(json.dumps(record))
            yield compared(scale, program.name, scheduler, record["text"], record["temp_bytes"])


# -- the table ---------------------------------------------------------------------------------


def summary(found: Sequence[Comparison]) -> list[str]:
    """Return what holds for all programs together."""
    count = len(found)
    worse = [x for x in found if x.is_worse]
    tight = sum([x.is_tight for x in found])
    ours, theirs = sum([x.temp for x in found]), sum([x.xla_temp for x in found])
    extra = sum([max(0, x.arena - x.live) for x in found]) / max(1, sum([x.live for x in found]))
    return [
        f"- plans: {count}; temporaries larger than XLA's: {len(worse)}; smaller: "
        f"{sum([x.temp < x.xla_temp for x in found])}",
        f"- arena equal to what is live at once: {tight} of {count} ({tight / count:.1%}); "
        f"bytes beyond that, over all: {extra:.3%}",
        f"- temporaries over all: {ours:,} bytes, {ours / max(1, theirs):.1%} of XLA's",
        f"- copies that lowtide adds to what XLA made: {sum([x.copies for x in found])}",
        f"- the longest plan took {max([x.seconds for x in found]):.1f} s",
    ]


def row(x: Comparison) -> str:
    """Return a line of the table."""
    tight = "yes" if x.is_tight else f"+{x.arena - x.live:,}"
    verdict = " (worse)" if x.is_worse else ""
    return (
        f"| {x.scale} | {x.program} | {x.scheduler} | {x.xla_temp:,} | {x.temp:,}{verdict} "
        f"| {x.live:,} | {x.arena:,} | {tight} |"
    )


def document(found: Sequence[Comparison]) -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Plans beside XLA's",
            "",
            "Written by `python benchmarks/xla_plans.py --write docs/xla_plans.md`. JAX programs,",
            "compiled by jaxlib 0.10.2 with each of XLA:CPU's two schedulers; lowtide plans the",
            "optimized HLO in the same order. Bytes. `temp` is what is needed beyond arguments and",
            "outputs (outputs and dead donated arguments may hold temporaries), XLA's is",
            "`temp_size_in_bytes`; `live` is what is live at once and `arena` what the plan takes,",
            "outputs included in both.",
            "",
            *summary(found),
            "",
            "| scale | program | scheduler | XLA temp | temp | live | arena | arena = live |",
            "|---|---|---|--:|--:|--:|--:|---|",
            *[row(x) for x in found],
            "",
        ]
    )


def main() -> None:
    """Compare, print the summary and each plan that is worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=Path, default=PROGRAMS)
    parser.add_argument("--scale", default="small,medium")
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    found: list[Comparison] = []
    for scale in options.scale.split(","):
        found += compile_all(options.programs, scale, options.kept)
    print("\n".join(summary(found)))
    for x in found:
        if x.is_worse:
            print(row(x))
    if options.write is not None:
        options.write.write_text(document(found))


if __name__ == "__main__":
    main()
