"""Compare the bytes that optimized JAX programs move with those that XLA:CPU's version moves.

    python benchmarks/traffic.py [--programs FILE] [--scale medium] [--kept FOLDER]
                                 [--write docs/traffic.md]

Each program is compiled by jaxlib with default options, and optimized by lowtide from the same HLO
before optimization. Bytes and kernels are counted in both texts by the rules of HloCostAnalysis
(`module_traffic.py`): nothing is run. With `--kept` what XLA made is kept in a folder, and
taken from there the next time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Final

from jax_programs import JaxProgram, jax_programs
from lowtide import compiler
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from module_traffic import Traffic, module_traffic

PROGRAMS: Final = Path(__file__).parents[2] / "shared" / "benchmarks" / "jax_corpus.py"


@dataclass(frozen=True)
class Row:
    """One program: what XLA's text and ours move."""

    name: str
    xla: Traffic
    ours: Traffic
    seconds: float

    @property
    def ratio(self) -> float:
        """Our bytes by XLA's."""
        return self.ours.nbytes / self.xla.nbytes


def measured(path: Path, scale: str, folder: Path | None) -> Iterator[Row]:
    """Compile and optimize the programs of a file."""
    for program in jax_programs(path, scale):
        module = program.module()
        theirs = module_traffic(_xla(program, scale, folder))
        start = time.perf_counter()
        compiler.optimize(module, compiler.PlanOptions("fused"))
        seconds = time.perf_counter() - start
        yield Row(program.name, theirs, module_traffic(module), seconds)


def _xla(program: JaxProgram, scale: str, folder: Path | None) -> Module:
    kept = None if folder is None else folder / f"{scale}.{program.name}.optimized.txt"
    if kept is None:
        return parse_hlo(program.compiled().text)
    if not kept.is_file():
        kept.write_text(program.compiled().text)
    return parse_hlo(kept.read_text())


def summary(rows: Sequence[Row]) -> list[str]:
    """Return the means and the worst program."""
    bytes_mean = exp(sum([log(x.ratio) for x in rows]) / len(rows))
    kernels = [max(1, x.ours.kernels) / max(1, x.xla.kernels) for x in rows]
    kernels_mean = exp(sum(map(log, kernels)) / len(rows))
    worst = max(rows, key=lambda x: x.ratio)
    return [
        f"- programs: {len(rows)}; bytes moved, ours by XLA's: geometric mean {bytes_mean:.3f}, "
        f"largest {worst.ratio:.3f} ({worst.name})",
        f"- kernels started, ours by XLA's: geometric mean {kernels_mean:.3f}, largest "
        f"{max(kernels):.3f}",
    ]


def line(row: Row) -> str:
    """Return a line of the table."""
    return (
        f"| {row.name} | {row.xla.nbytes / 1e6:,.1f} | {row.ours.nbytes / 1e6:,.1f} "
        f"| {row.ratio:.3f} | {row.xla.kernels:,} | {row.ours.kernels:,} |"
    )


def document(rows: Sequence[Row], scale: str) -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Bytes moved, beside XLA:CPU's",
            "",
            f"Written by `python benchmarks/traffic.py --scale {scale} --write docs/traffic.md`.",
            "JAX programs, optimized by jaxlib 0.10.2 for the CPU and by lowtide; counted, not",
            "measured: each kernel reads its operands and writes its results once, slices count",
            "what they take, updates in place what they write, loops as often as they run where",
            "that is known. What caches save is left out, and so are copies that a plan adds.",
            "",
            *summary(rows),
            "",
            "| program | XLA MB | MB | ratio | XLA kernels | kernels |",
            "|---|--:|--:|--:|--:|--:|",
            *[line(x) for x in rows],
            "",
        ]
    )


def main() -> None:
    """Measure, print the summary, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=Path, default=PROGRAMS)
    parser.add_argument("--scale", default="medium")
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    for row in measured(options.programs, options.scale, options.kept):
        print(line(row), flush=True)
        rows.append(row)
    print("\n".join(summary(rows)))
    if options.write is not None:
        options.write.write_text(document(rows, options.scale))


if __name__ == "__main__":
    main()
