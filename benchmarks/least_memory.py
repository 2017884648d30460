"""What programs need beside what every compilation of them needs at least.

  python benchmarks/least_memory.py [FOLDER ...] [--programs FILE] [--scale medium] [--only TEXT]
                                    [--write PAGE]

A FOLDER has modules as HLO text or protobuf; FILE registers programs in JAX, as
`jax_programs.py` says, which have a table of their own. Each is planned as `lowtide
explain` does. The bound is that of docs/optimality.md, arguments included.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from lowtide import compiler
from lowtide.frontend.files import read
from lowtide.ir import Module
from sections import replace_section

AIM, FAR = 1.10, 1.25
"""The geometric mean that is aimed at, and the ratio from which a miss is explained."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table, in bytes: arguments, what is needed beyond them, and the bound on it."""

    module: str
    instructions: int
    arguments: int
    needs: int
    bound: int

    @property
    def ratio(self) -> float:
        """What is needed in all over the bound in all."""
        return (self.arguments + self.needs) / max(self.arguments + self.bound, 1)


def measured(name: str, module: Module) -> Row | None:
    """Return the row of a module; None for one that is scheduled, whose kernels are given."""
    if module.is_scheduled:
        return None
    report = compiler.explain(module)
    least = report.ladder.compilation_bound_bytes
    if least is None:
        raise RuntimeError(f"{name}: no bound")
    report.ladder.check()
    return Row(name, report.instructions, report.argument_bytes, report.ladder.arena_bytes, least)


def table(rows: Sequence[Row], title: str, given: str) -> str:
    """Return the rows as a section of a document, those farthest from the bound first.

    `given` are the arguments with which the section is written.
    """
    mean = exp(sum([log(x.ratio) for x in rows]) / max(len(rows), 1))
    far = sum([x.ratio > FAR for x in rows])
    lines = [
        f"### {title}",
        "",
        f"Written by `python benchmarks/least_memory.py {given} --write docs/optimality.md`.",
        "MB are 10^6 bytes; a ratio is of all memory of a call, arguments included, without",
        "constants.",
        "",
        f"- {len(rows)} modules: {mean:.3f} of the bound in the geometric mean (aim {AIM:.2f}),",
        f"  {sum([x.ratio <= 1.02 for x in rows])} within 2%, {far} above {FAR:.2f}",
        "",
        "| module | instructions | arguments, MB | beyond, MB | bound beyond, MB | ratio |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {x.module} | {x.instructions:,} | {x.arguments / 1e6:,.3f} | {x.needs / 1e6:,.3f} "
        f"| {x.bound / 1e6:,.3f} | {x.ratio:.3f} |"
        for x in sorted(rows, key=lambda x: -x.ratio)
    ]
    return "\n".join(lines)


def of_folders(folders: Sequence[Path]) -> Iterator[tuple[str, Module]]:
    """Return the modules of folders, by name."""
    for folder in folders:
        for path in sorted(folder.glob("*.hlo*")):
            yield path.name.split(".hlo")[0], read(str(path))


def of_programs(file: Path, scale: str) -> Iterator[tuple[str, Module]]:
    """Return the modules of programs in JAX, by name, before anything is optimized."""
    from jax_programs import jax_programs

    for program in jax_programs(file, scale):
        yield program.name, program.module()


def rows_of(modules: Iterator[tuple[str, Module]], only: str) -> list[Row]:
    """Return the rows of the modules whose names have a text."""
    rows = []
    for name, module in modules:
        row = measured(name, module) if only in name else None
        if row is not None:
            rows.append(row)
            print(f"{row.module}: {row.ratio:.3f}", file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--scale", default="medium")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    sections = []
    if options.folders:
        rows = rows_of(of_folders(options.folders), options.only)
        sections.append(("least memory", table(rows, "Programs beside the bound", "FOLDER")))
    if options.programs is not None:
        rows = rows_of(of_programs(options.programs, options.scale), options.only)
        text = table(rows, "Programs in JAX beside the bound", "--programs FILE")
        sections.append(("least memory of JAX", text))
    for name, text in sections:
        if options.write is None:
            print(text)
        else:
            replace_section(options.write, name, text)


if __name__ == "__main__":
    main()
