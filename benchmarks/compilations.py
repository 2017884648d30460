"""The bound on every compilation attacked from below: does any compilation need less?

  python benchmarks/compilations.py FOLDER [FOLDER ...] --kept FILE [--small N] [--plans N]
                                    [--write PAGE]

Two attacks. N small random modules, of which all compilations are tried (`tests/least_memory/
exhaustive.py`); N plans of random compilations of the modules in the folders (`plans.py` there), in
walks of a hundred steps or more, each of which changes what is stored or what is fused.
The file keeps how far each has come, so that a run that is stopped goes on where it was. Exit
status 1 where anything is below the bound: the seed is told.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.least_memory.drawing import drawn_module  # noqa: E402
from tests.least_memory.exhaustive import Search  # noqa: E402
from tests.least_memory.plans import RandomPlans  # noqa: E402

from lowtide.compiler.compilation_bound import normal_forms  # noqa: E402
from lowtide.files.writing import write_text  # noqa: E402
from lowtide.frontend.files import read  # noqa: E402
from lowtide.least_memory import least_memory  # noqa: E402
from sections import replace_section  # noqa: E402

SECONDS_BETWEEN_FILES: Final = 20.0
SECONDS_OF_A_TURN: Final = 2.0
MOST_OF_A_TURN: Final = 2_000
STEPS: Final = 200
"""How many plans a walk has, if there is time."""


class Found:
    """How far the attacks have come, as it is kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        begun = json.loads(path.read_text()) if path.exists() else {}
        self.small: dict[str, int] = {"modules": 0, "met": 0, **begun.get("small", {})}
        self.plans: dict[str, dict[str, Any]] = begun.get("plans", {})
        self.below: list[str] = begun.get("below", [])
        self._written = time.monotonic()

    def keep(self, *, now: bool = False) -> None:
        """Write the file, now and then."""
        if now or time.monotonic() - self._written > SECONDS_BETWEEN_FILES:
            document = {"small": self.small, "plans": self.plans, "below": self.below}
            write_text(self.path, json.dumps(document, indent=1))
            self._written = time.monotonic()

    def report(self, what: str) -> None:
        """Note a compilation that is below the bound."""
        self.below.append(what)
        print(f"BELOW THE BOUND: {what}", file=sys.stderr, flush=True)


def try_small(found: Found, count: int) -> None:
    """Try all compilations of further small modules, up to so many in all."""
    for seed in range(found.small["modules"], count):
        module = drawn_module(seed, 2 + seed % 4)
        least, bound = Search(module.entry).least(), least_memory(module).nbytes
        if least < bound:
            found.report(f"drawn_module({seed}, {2 + seed % 4}): {least} < {bound}")
        found.small["modules"] += 1
        found.small["met"] += least == bound
        found.keep()


def try_plans(found: Found, paths: list[Path], count: int) -> None:
    """Draw further plans, up to so many in all, as many for each module as it takes turns."""
    drawn = {path.name.split(".hlo")[0]: path for path in paths}
    turns = [_Turn(found, name, path) for name, path in drawn.items()]
    turns = [x for x in turns if not x.is_scheduled]
    while turns and (left := count - sum([x["plans"] for x in found.plans.values()])) > 0:
        share = max(1, min(MOST_OF_A_TURN, left // len(turns)))
        for turn in turns:
            turn.go(share)
            found.keep()


class _Turn:
    """The walks of one module: seed `k` makes the walk of number k."""

    def __init__(self, found: Found, name: str, path: Path) -> None:
        self.found, self.name = found, name
        module = read(str(path))
        self.is_scheduled = module.is_scheduled
        if self.is_scheduled:
            return
        forms = [(RandomPlans(form), least_memory(form).nbytes) for form in normal_forms(module)]
        self.forms, self.bound = forms, min([bound for _, bound in forms])
        row = {"plans": 0, "walks": 0, "bound": self.bound, "lowest": 0}
        self.row = found.plans.setdefault(name, row)
        if self.row["bound"] != self.bound or "walks" not in self.row:
            found.plans[name] = self.row = row  # Plans beside another bound say nothing.

    def go(self, count: int) -> None:
        """Draw so many plans, or as many as a few seconds are enough for."""
        end = time.process_time() + SECONDS_OF_A_TURN
        count += self.row["plans"]
        while self.row["plans"] < count and time.process_time() < end:
            self._walk(min(STEPS, count - self.row["plans"]), end)

    def _walk(self, count: int, end: float) -> None:
        row, seed = self.row, self.row["walks"]
        row["walks"] += 1
        plans, _ = self.forms[seed % len(self.forms)]
        for step, needs in enumerate(plans.walk(Random(seed)).plans_in_turn(count)):
            if needs < self.bound:
                self.found.report(f"{self.name}, walk {seed}, {step}: {needs:,} < {self.bound:,}")
            row["lowest"] = min(row["lowest"] or needs, needs)
            row["plans"] += 1
            if time.process_time() > end:
                break


def text_of(found: Found) -> str:
    """Return what was found as a section of a document."""
    return "\n".join(_lines(found))


def _lines(found: Found) -> Iterator[str]:
    small, plans = found.small, found.plans
    total = sum([x["plans"] for x in plans.values()])
    yield "### Attacked from below"
    yield ""
    yield "Written by `python benchmarks/compilations.py FOLDER --kept FILE --write PAGE`."
    yield ""
    yield f"- {small['modules']:,} random modules of 2 to 5 operations, all compilations tried:"
    yield f"  none needs less than the bound, {small['met']:,} need just as much"
    yield f"- {total:,} plans of random compilations of {len(plans)} modules:"
    yield f"  {len(found.below)} need less than the bound. Each step of a walk changes a choice,"
    yield "  which is mostly undone where more is needed"
    yield ""
    yield "| module | walks | plans | lowest of them over the bound |"
    yield "|---|--:|--:|--:|"
    for name, row in sorted(plans.items()):
        lowest = row["lowest"] / max(row["bound"], 1)
        yield f"| {name} | {row['walks']:,} | {row['plans']:,} | {lowest:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--kept", type=Path, required=True)
    parser.add_argument("--small", type=int, default=0)
    parser.add_argument("--plans", type=int, default=0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    found = Found(options.kept)
    try:
        try_small(found, options.small)
        if options.plans:
            paths = [path for folder in options.folders for path in sorted(folder.glob("*.hlo*"))]
            try_plans(found, paths, options.plans)
    finally:
        found.keep(now=True)
    if options.write is None:
        print(text_of(found))
    else:
        replace_section(options.write, "below", text_of(found))
    sys.exit(1 if found.below else 0)


if __name__ == "__main__":
    main()
