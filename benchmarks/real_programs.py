"""Programs of JAX's users on the plugin and on XLA:CPU: results, time and memory.

    python benchmarks/real_programs.py [--write docs/jax_plugin.md] [PROGRAM ...]

Each program in `real_programs/` runs unchanged in a process of its own on each platform, two runs
each; the second, which compiles nothing, is timed. The platforms take turns, three times each, and
the least time counts. Memory is what the compiled step needs beyond its arguments, as each
platform's `memory_analysis()` tells it. "difference" is the largest between the numbers that the
program returns, relative to the larger one. A program that is named in `BUDGETS` runs once more,
with that share of its plain need as its budget. What a program imports has to be installed; one
whose packages are not there is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sections import replace_section

FOLDER: Final = Path(__file__).parent / "real_programs"

BUDGETS: Final = {"transformer_layers": 0.8}
"""The share of the plain need that a program has to do with."""

TURNS: Final = 3

Answer = dict[str, Any]

CHILD: Final = """
import importlib, json, sys, time
import jax
from lowtide.inspection.xla_program import needed_bytes

program = importlib.import_module(sys.argv[1])
arguments = program.arguments()
compiled = program.step.lower(*arguments).compile()
needed = needed_bytes(getattr(compiled, "compiled", compiled).memory_analysis())
first = time.perf_counter()
program.run(*arguments)
begin = time.perf_counter()
results = program.run(*arguments)
end = time.perf_counter()
platform = jax.devices()[0].platform
print(json.dumps({"results": results, "first": begin - first, "seconds": end - begin,
                  "needed": needed, "platform": platform}))
"""


def answer(name: str, platform: str, budget: int | None = None) -> Answer:
    """Return what a program's process says; `budget` is in bytes. Raises RuntimeError."""
    options = {} if budget is None else {"LOWTIDE_OPTIONS": f"memory={budget}"}
    environment = {**os.environ, "JAX_PLATFORMS": platform, "PYTHONPATH": str(FOLDER), **options}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, name],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: Answer = json.loads(done.stdout.splitlines()[-1])
    if found["platform"] != platform:
        raise RuntimeError(f"ran on {found['platform']} instead of {platform}")
    return found


def difference(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the largest difference of two lists of numbers, by the larger number."""
    if len(a) != len(b):
        return float("inf")
    return max(abs(x - y) / max(abs(x), abs(y), 1e-30) for x, y in zip(a, b, strict=True))


def in_turns(name: str, budget: int | None) -> tuple[Answer, Answer]:
    """Return the answers of both platforms, with the least times of all turns."""
    rows = [(answer(name, "lowtide", budget), answer(name, "cpu")) for _ in range(TURNS)]
    for side in (0, 1):
        rows[0][side]["seconds"] = min(row[side]["seconds"] for row in rows)
        rows[0][side]["first"] = min(row[side]["first"] for row in rows)
    return rows[0]


def row(title: str, ours: Answer, theirs: Answer) -> str:
    """Return one row of the table."""
    cells = [
        f"{difference(ours['results'], theirs['results']):.1e}",
        f"{ours['seconds'] * 1e3:,.0f}",
        f"{theirs['seconds'] * 1e3:,.0f}",
        f"{theirs['seconds'] / ours['seconds']:.2f}",
        f"{ours['needed']:,}",
        f"{theirs['needed']:,}",
        f"{ours['needed'] / theirs['needed']:.3f}",
    ]
    return f"| {title} | {' | '.join(cells)} |"


def rows(name: str) -> list[str]:
    """Return the rows of a program."""
    try:
        ours, theirs = in_turns(name, None)
    except RuntimeError as error:
        return [f"| {name} | not run: {error} | | | | | | |"]
    found = [row(name, ours, theirs)]
    if name in BUDGETS:
        budget = int(BUDGETS[name] * ours["needed"])
        within, theirs = in_turns(name, budget)
        if within["needed"] > budget:
            raise RuntimeError(f"{name} takes {within['needed']} bytes, more than {budget}")
        found.append(row(f"{name}, {BUDGETS[name]:.0%} of that", within, theirs))
    return found


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = sorted(x.stem for x in FOLDER.glob("*.py"))
    parser.add_argument("programs", nargs="*", choices=[*known, []], default=known)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    lines = [
        "| program | difference | ours, ms | XLA:CPU, ms | times as fast | ours, bytes "
        "| XLA:CPU, bytes | ours by XLA's |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in options.programs:
        for line in rows(name):
            print(line, flush=True)
            lines.append(line)
    if options.write is not None:
        replace_section(options.write, "real programs", "\n".join(lines))


if __name__ == "__main__":
    main()
