"""Programs of JAX's users on the plugin and on XLA:CPU: results, time and memory.

    python benchmarks/real_programs.py [--write docs/jax_plugin.md] [--results FILE] [PROGRAM ...]

Each program in `real_programs/` runs unchanged in a process of its own on each platform
(`real_programs_child.py`), with a cache in which there is no program, but lowtide's own code that
earlier ones had compiled. Then both run it again in turns, so that nothing is compiled: the least
time of one run counts, of the clock and of the processor. "compile" is the processor's time of all
compilations up to the end of the first run, "resident" the most memory that the process had by
then. "needed" is what the compiled step needs beyond its arguments, as each platform's
`memory_analysis()` tells it. "difference" is the largest between the numbers that the program
returns, relative to the larger one. A program that is named in `BUDGETS` runs once more, with that
share of its plain need as its budget. What a program imports has to be installed; one whose
packages are not there is left out, and the table says so. Rows that are in the file of `--results`
already are not measured again, so a run which was stopped goes on.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from statistics import geometric_mean
from typing import IO, Any, Final

from sections import replace_section

FOLDER: Final = Path(__file__).parent / "real_programs"
CHILD: Final = Path(__file__).with_name("real_programs_child.py")

BUDGETS: Final = {"transformer_layers": 0.8}
"""The share of the plain need that a program has to do with."""

ENVIRONMENT: Final = {x: y for x, y in os.environ.items() if x != "PYTHONDONTWRITEBYTECODE"}
"""What processes inherit: code of Python is kept, as it is of a package that pip installs."""

PLATFORMS: Final = ("lowtide", "cpu")
TURNS: Final = 4

Answer = dict[str, Any]


# -- processes -----------------------------------------------------------------------------------


class Child:
    """A program's process on one platform."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process, self._errors = process, errors

    def answer(self) -> Any:
        """Return the next line of JSON. Raises RuntimeError with the process's last words."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("{", "[")):
                return json.loads(line)
        self._errors.seek(0)
        words = [x for x in self._errors.read().splitlines() if x.strip("-") and "JAX" not in x]
        raise RuntimeError(words[-1] if words else "no answer")

    def least_seconds(self, seconds: float) -> list[float]:
        """Return the least seconds of one run, of the clock and of the processor."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)
        found: list[float] = self.answer()
        return found


def carry(source: Path, target: Path) -> None:
    """Take what is lowtide's own from one cache to another: loops of searches, and their key."""
    for name in ("signing.key", "solvers"):
        path = source / name
        if path.is_dir():
            shutil.copytree(path, target / name, dirs_exist_ok=True)
        elif path.exists():
            shutil.copy2(path, target / name)


@contextmanager
def child(name: str, platform: str, budget: int | None, own: Path) -> Iterator[Child]:
    """Give a program's process, whose cache has the code of `own` only; `budget` is in bytes."""
    options = {} if budget is None else {"LOWTIDE_OPTIONS": f"memory={budget}"}
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile("w+") as errors:
        carry(own, Path(cache))
        process = subprocess.Popen(
            [sys.executable, CHILD, name],
            env={**ENVIRONMENT, "JAX_PLATFORMS": platform, "LOWTIDE_CACHE": cache, **options},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield Child(process, errors)
        finally:
            process.kill()
            process.wait()
            carry(Path(cache), own)


def answers(name: str, budget: int | None, seconds: float, own: Path) -> list[Answer]:
    """Return what both platforms say, with the least times of all turns. Raises RuntimeError."""
    with ExitStack() as stack:
        children = [stack.enter_context(child(name, x, budget, own)) for x in PLATFORMS]
        found: list[Answer] = [x.answer() for x in children]
        turns = [[x.least_seconds(seconds) for x in children] for _ in range(TURNS)]
    for number, (platform, answer) in enumerate(zip(PLATFORMS, found, strict=True)):
        if answer["platform"] != platform:
            raise RuntimeError(f"ran on {answer['platform']} instead of {platform}")
        least = [min(times) for times in zip(*(turn[number] for turn in turns), strict=True)]
        answer["clock"], answer["processor"] = least
    return found


def measured(name: str, seconds: float, own: Path) -> dict[str, list[Answer]]:
    """Return the answers by the title of their row. Raises RuntimeError."""
    found = {name: answers(name, None, seconds, own)}
    if name in BUDGETS:
        budget = int(BUDGETS[name] * found[name][0]["needed"])
        within = answers(name, budget, seconds, own)
        if within[0]["needed"] > budget:
            raise RuntimeError(f"{name} takes {within[0]['needed']} bytes, more than {budget}")
        found[f"{name}, {BUDGETS[name]:.0%} of that"] = within
    return found


# -- the table -----------------------------------------------------------------------------------

HEAD: Final = (
    "| program | difference | ours, ms | XLA:CPU, ms | times as fast | by the processor's time "
    "| compile, s | XLA:CPU, s | ratio | resident, MB | XLA:CPU, MB | ratio | needed, ratio |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
)


def difference(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the largest difference of two lists of numbers, by the larger number."""
    if len(a) != len(b):
        return float("inf")
    return max(abs(x - y) / max(abs(x), abs(y), 1e-30) for x, y in zip(a, b, strict=True))


def packages(name: str) -> str:
    """Return the distributions that a program imports, but JAX, each with its version."""
    homes = metadata.packages_distributions()
    names: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
        if isinstance(node, ast.Import):
            names.update(x.name for x in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    found = {homes.get(x.split(".")[0], ["jax"])[0] for x in names} - {"jax"}
    return ", ".join(f"{x} {metadata.version(x)}" for x in sorted(found))


def row(title: str, ours: Answer, theirs: Answer) -> str:
    """Return one row of the table."""

    def ratio(key: str) -> float:
        return float(ours[key] / theirs[key])

    cells = [
        f"{difference(ours['results'], theirs['results']):.1e}",
        f"{ours['clock'] * 1e3:,.1f}",
        f"{theirs['clock'] * 1e3:,.1f}",
        f"{1 / ratio('clock'):.2f}",
        f"{1 / ratio('processor'):.2f}",
        f"{ours['compile']:.2f}",
        f"{theirs['compile']:.2f}",
        f"{ratio('compile'):.2f}",
        f"{ours['highest'] / 1e6:,.0f}",
        f"{theirs['highest'] / 1e6:,.0f}",
        f"{ratio('highest'):.2f}",
        f"{ratio('needed'):.3f}",
    ]
    return f"| {title} | {' | '.join(cells)} |"


def page(found: dict[str, list[Answer]], faults: dict[str, str]) -> str:
    """Return the section of the document."""
    plain = [pair for title, pair in found.items() if title in PROGRAMS]

    def mean(key: str) -> float:
        return geometric_mean([theirs[key] / ours[key] for ours, theirs in plain])

    def total(key: str) -> float:
        ours, theirs = (sum([pair[side][key] for pair in plain]) for side in (0, 1))
        return float(ours / theirs)

    lines = [
        f"- programs: {len(plain)}; times as fast, geometric mean {mean('clock'):.2f} by the clock "
        f"and {mean('processor'):.2f} by the processor's time",
        f"- compile time, in sum, by XLA:CPU's: {total('compile'):.2f}; highest resident memory, "
        f"in sum: {total('highest'):.2f}",
        "",
        *HEAD,
        *(row(title, *pair) for title, pair in found.items()),
        *(f"| {name} | not run: {fault} |{' |' * 11}" for name, fault in faults.items()),
        "",
        "Packages:",
        "",
        *(f"- {name}: {packages(name) or 'JAX alone'}" for name in found if name in PROGRAMS),
    ]
    return "\n".join(lines)


PROGRAMS: Final = tuple(sorted(x.stem for x in FOLDER.glob("*.py")))


def kept_rows(path: Path | None) -> dict[str, list[Answer]]:
    """Return the rows of a file of results, by title."""
    if path is None or not path.exists():
        return {}
    return dict(map(json.loads, path.read_text().splitlines()))


def keep(rows: dict[str, list[Answer]], path: Path | None) -> None:
    """Show rows, and add them to a file of results."""
    for title, pair in rows.items():
        print(row(title, *pair), file=sys.stderr, flush=True)
        if path is not None:
            with path.open("a") as file:
                print(json.dumps([title, pair]), file=file)


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", choices=[*PROGRAMS, []], default=PROGRAMS)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    options = parser.parse_args()
    found, faults = kept_rows(options.results), dict[str, str]()
    with tempfile.TemporaryDirectory() as own:
        for name in (x for x in options.programs if x not in found):
            try:
                rows = measured(name, options.seconds, Path(own))
            except RuntimeError as error:
                faults[name] = str(error)
                print(f"{name}: {error}", file=sys.stderr)
                continue
            keep(rows, options.results)
            found.update(rows)
    text = page(dict(sorted(found.items())), faults)
    if options.write is not None:
        replace_section(options.write, "real programs", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
