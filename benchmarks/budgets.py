"""Budgets of memory on the programs of a corpus: kept, monotone, right, and measured.

    python benchmarks/budgets.py [--budgets 50] [--only NAME,...] [--scale medium] [--effort NAME]
                                 [--sanitize] [--measure N] [--programs FILE]

For each program: so many budgets from the least arena known to that without a budget. Checked are
that each plan is within its budget, that extra time never rises and the arena never falls as the
budget grows, and that extra time is at least its proven bound. With --sanitize each plan is run
thunk by thunk, and its results compared with the evaluator's. With --measure, N of the plans,
spread evenly, are run by processes of their own, and the rise of the greatest resident set is
compared with the budget: it may exceed it by 3% and 4 MB. FILE registers programs as
`jax_programs.py` says. Times are of CPU. Exit status 1 where a rule is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PROGRAMS: Final = ROOT.parent / "shared" / "benchmarks" / "jax_corpus.py"
MEGABYTE: Final = 1_000_000
SHARE: Final = 0.03
SLACK: Final = 4 * MEGABYTE
LEAST_MEASURED: Final = 64 * MEGABYTE


def program_named(path: str, scale: str, name: str) -> Any:
    """Return a program of a file."""
    from jax_programs import jax_programs

    return next(x for x in jax_programs(Path(path), scale) if x.name == name)


def fits_of(planner: Any, count: int) -> list[Any]:
    """Return what each of so many budgets picks, smallest budget first."""
    import numpy as np

    least, most = planner.least.arena_bytes, planner.own.plain.arena_bytes
    return [planner.within(int(x)) for x in np.linspace(least, most, count)]


def is_below_bound(fit: Any) -> bool:
    """Whether a plan by recomputation takes less extra time than is proved needed."""
    if fit.bound is None or fit.point.variant:
        return False
    return bool(fit.bound.extra_seconds > fit.point.extra_seconds * (1 + 1e-9))


def faults_of(fits: Sequence[Any]) -> list[str]:
    """Return which rules are broken."""
    faults = []
    for fit in fits:
        if fit.point is None:
            faults.append(f"no plan for {fit.budget_bytes}")
        elif fit.point.arena_bytes > fit.budget_bytes:
            faults.append(f"{fit.point.arena_bytes} bytes for {fit.budget_bytes}")
        elif is_below_bound(fit):
            faults.append(f"below the bound at {fit.budget_bytes}")
    points = [fit.point for fit in fits if fit.point is not None]
    for smaller, larger in pairwise(points):
        if larger.extra_seconds > smaller.extra_seconds:
            faults.append("extra time rises with the budget")
        if larger.arena_bytes < smaller.arena_bytes:
            faults.append("the arena falls with the budget")
    return faults


def distinct(fits: Sequence[Any]) -> list[Any]:
    """Return the plans among what budgets picked, least memory first."""
    points = [fit.point for fit in fits if fit.point is not None]
    return list({(x.variant, x.extra_seconds, x.arena_bytes): x for x in points}.values())


def sanitized(points: Sequence[Any], kernels: Any, arguments: Sequence[Any]) -> int:
    """Run each plan under watch, which raises where something differs; return how many."""
    from lowtide.inspection.sanitizer import check_program

    for point in points:
        check_program(kernels.program(point.plan), point.plan.module, arguments)
    return len(points)


def planned(given: argparse.Namespace, name: str) -> tuple[bool, list[int]]:
    """Plan one program for all budgets and print what it came to; return the arenas of plans."""
    from lowtide.backends.build import budget_planner
    from lowtide.backends.cpu import CpuBackend
    from lowtide.compiler import PlanOptions
    from lowtide.search.effort import Effort, SearchOptions

    program = program_named(given.programs, given.scale, name)
    start = process_time()
    options = PlanOptions(search=SearchOptions(Effort(given.effort)))
    planner, kernels = budget_planner(program.module(), CpuBackend(2), options)
    plain = process_time() - start
    fits = fits_of(planner, given.budgets)
    seconds = process_time() - start - plain
    faults = faults_of(fits)
    points = distinct(fits)
    base = planner.base_seconds or 1.0
    first, last = planner.own.plain.arena_bytes, planner.least
    checked = ""
    if given.sanitize:
        checked = f", {sanitized(points, kernels, program.arguments())} plans run under watch"
    bound = planner.bounds.at(last.arena_bytes).extra_seconds
    print(
        f"{name:34}{first / MEGABYTE:9.1f} to {last.arena_bytes / MEGABYTE:9.1f} MB, "
        f"{len(points):3} plans, at most {100 * last.extra_seconds / base:8.3f}% more time "
        f"(bound {100 * bound / base:7.3f}%), none below "
        f"{planner.bounds.least_bytes / MEGABYTE:.1f} MB; {plain:.1f} + {seconds:.1f} s{checked}"
        + "".join([f"\n    {x}" for x in dict.fromkeys(faults)]),
        flush=True,
    )
    return not faults, sorted(x.arena_bytes for x in points)


def rise_of(given: argparse.Namespace) -> int:
    """Return by how many bytes the resident set rises over a call within a budget."""
    import numpy as np

    from lowtide.client.executable import compile_module
    from lowtide.options import Options
    from native_memory import risen

    program = program_named(given.programs, given.scale, given.one)
    options = Options(
        threads=2, cache=False, huge_pages=False, memory=given.memory, effort=given.effort
    )
    executable = compile_module(program.module(), options)
    arguments = program.arguments()
    executable(*[np.array(x) for x in arguments], consume=True)
    executable.release_memory()
    copies = [np.array(x) for x in arguments]
    return int(risen(lambda: executable(*copies, consume=True)))


def measured(given: argparse.Namespace, name: str, arenas: Sequence[int]) -> bool:
    """Run some of the plans in processes of their own; print and judge the rise of each."""
    import numpy as np

    large = [x for x in arenas if x >= LEAST_MEASURED]
    places = np.linspace(0, len(large) - 1, min(given.measure, len(large))).astype(int)
    environment = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    right = True
    for budget in [large[i] for i in places]:
        command = [sys.executable, __file__, "--one", name, "--memory", str(budget)]
        command += ["--programs", given.programs, "--scale", given.scale]
        command += ["--effort", given.effort]
        run = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, env=environment, check=True
        )
        rise = int(json.loads(run.stdout.splitlines()[-1]))
        fits = rise <= budget + SHARE * budget + SLACK
        right = right and fits
        print(
            f"    {budget / MEGABYTE:.1f} MB: measured {rise / MEGABYTE:.1f} MB"
            f"{'' if fits else ', TOO MUCH'}",
            flush=True,
        )
    return right


def names_of(given: argparse.Namespace) -> list[str]:
    """Return the names of the programs to plan."""
    from jax_programs import jax_programs

    if given.only:
        return list(given.only.split(","))
    return [x.name for x in jax_programs(Path(given.programs), "small")]


def main() -> None:
    """Plan all programs, or measure one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--budgets", type=int, default=50)
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", default="medium")
    parser.add_argument("--effort", default="default")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--measure", type=int, default=0)
    parser.add_argument("--programs", default=str(PROGRAMS))
    parser.add_argument("--one", default="")
    parser.add_argument("--memory", type=int, default=None)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(rise_of(given)))
        return
    right = True
    for name in names_of(given):
        kept, arenas = planned(given, name)
        right = right and kept
        if given.measure:
            right = measured(given, name, arenas) and right
    sys.exit(not right)


if __name__ == "__main__":
    main()
