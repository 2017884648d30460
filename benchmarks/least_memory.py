"""What programs need beside what every compilation of them needs at least.

  python benchmarks/least_memory.py FOLDER [FOLDER ...] [--only TEXT] [--write PAGE]

A FOLDER has modules as HLO text or protobuf. Each is planned as `lowtide explain` does. The bound
is that of docs/optimality.md, arguments included.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from lowtide import compiler
from lowtide.frontend.files import read
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


def measured(path: Path) -> Row | None:
    """Return the row of a module; None for one that is scheduled, whose kernels are given."""
    module = read(str(path))
    if module.is_scheduled:
        return None
    report = compiler.explain(module)
    least = report.ladder.compilation_bound_bytes
    if least is None:
        raise RuntimeError(f"{path}: no bound")
    report.ladder.check()
    return Row(
        path.name.split(".hlo")[0],
        report.instructions,
        report.argument_bytes,
        report.ladder.arena_bytes,
        least,
    )


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a section of a document, those farthest from the bound first."""
    mean = exp(sum([log(x.ratio) for x in rows]) / max(len(rows), 1))
    far = sum([x.ratio > FAR for x in rows])
    lines = [
        "### Programs beside the bound",
        "",
        "Written by `python benchmarks/least_memory.py FOLDER --write docs/optimality.md`. MB are",
        "10^6 bytes; a ratio is of all memory of a call, arguments included, without constants.",
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows = []
    for folder in options.folders:
        for path in sorted(folder.glob("*.hlo*")):
            row = measured(path) if options.only in path.name else None
            if row is not None:
                rows.append(row)
                print(f"{row.module}: {row.ratio:.3f}", file=sys.stderr, flush=True)
    text = table(rows)
    if options.write is None:
        print(text)
    else:
        replace_section(options.write, "least memory", text)


if __name__ == "__main__":
    main()
