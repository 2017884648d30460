"""Budgets that are shares of what programs need: extra time, its bound, and when a plan is there.

  python benchmarks/budget_shares.py FILE [FILE ...] [--shares 90 70 50] [--deadline S]
                                     [--write PAGE]

A FILE is a module as HLO text or protobuf. For each share a module is planned anew, with a deadline
of S seconds from its reading on: of CPU, as are all seconds here, so that a busy machine changes
nothing. `plain` are those of the plan without a budget, `first` those until a plan within the
budget is there, as a multiple of `plain`, and `all` those until the planner is done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from time import process_time

from lowtide.budgeting.fits import Fit
from lowtide.budgeting.planner import BudgetPlanner
from lowtide.compiler import PlanOptions, plan
from lowtide.frontend.files import read
from lowtide.search.deadline import Deadline
from lowtide.search.effort import SearchOptions
from sections import replace_section


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: bytes, parts of the time of one run, and seconds of CPU.

    `extra` is None where no plan is known, `bound` where nothing is proved of the plan's program;
    `is_proved` says that there no recomputation fits. `first` is None without a plan.
    """

    module: str
    share: int
    plain_bytes: int
    extra: float | None
    bound: float | None
    variant: str
    plain: float
    first: float | None
    whole: float
    is_proved: bool

    @property
    def factor(self) -> float | None:
        """The extra time over its bound; None where there is none, or no bound above 0."""
        if self.extra is None or not self.bound:
            return None
        return self.extra / self.bound


def measured(path: Path, share: int, deadline: float) -> Row:
    """Return the row of a module for a share of what it needs without a budget."""
    begin = process_time()
    options = PlanOptions(search=SearchOptions(deadline=Deadline.of_cpu_seconds(deadline)))
    module = read(str(path))
    first: list[float] = []

    def told(text: str) -> None:
        if text.startswith("a plan "):
            first.append(process_time() - begin)

    made = plan(module, options)
    plain = process_time() - begin
    planner = BudgetPlanner(module, made, options, progress=told)
    needed = made.report.ladder.arena_bytes
    fit = planner.within(needed * share // 100)
    whole = process_time() - begin
    return _row(path, share, planner, fit, (plain, first[0] if first else None, whole))


def _row(
    path: Path,
    share: int,
    planner: BudgetPlanner,
    fit: Fit,
    times: tuple[float, float | None, float],
) -> Row:
    base = planner.base_seconds or 1.0
    plain, first, whole = times
    point, bound = fit.point, fit.bound
    return Row(
        path.name.split(".hlo")[0],
        share,
        planner.own.plain.arena_bytes,
        None if point is None else point.extra_seconds / base,
        None if bound is None or bound.is_infeasible else bound.extra_seconds / base,
        "" if point is None else point.variant,
        plain,
        None if first is None else first / plain,
        whole,
        bound is not None and bound.is_infeasible,
    )


def table(rows: Sequence[Row], deadline: float) -> str:
    """Return the rows as a section of a document."""
    factors = [x.factor for x in rows if x.factor and not x.variant]
    mean = exp(sum([log(x) for x in factors]) / max(len(factors), 1))
    lines = [
        "### Shares of what programs need",
        "",
        "Written by `python benchmarks/budget_shares.py FILES --write docs/budgets.md`, on",
        f"{_processor()}. Extra time and its bound are parts of one run by the model.",
        f"Seconds are of CPU; the deadline is {deadline:.0f} s of it.",
        "",
        f"- {len(rows)} budgets of {len({x.module for x in rows})} programs: a plan for "
        f"{sum([x.extra is not None for x in rows])}, of another program for "
        f"{sum([bool(x.variant) for x in rows])}",
        f"- recomputation takes {mean:.3f} of its bound in the geometric mean of {len(factors)}",
        f"- for {sum([x.extra is None and x.is_proved for x in rows])} it is proved that no "
        "recomputation fits, and no other program was found to",
        f"- the first plan is there after {_latest_first(rows, 1.0):.2f} times the plain plan at "
        f"most where that takes over a second, else {_latest_first(rows, 0.0):.2f} times",
        f"- the planner is done after {max([x.whole for x in rows]):.1f} s at most",
        "",
        "| program | MB | budget | extra | bound | plan of | plain, s | first | all, s |",
        "|---|--:|--:|--:|--:|---|--:|--:|--:|",
    ]
    lines += [
        f"| {x.module} | {x.plain_bytes / 1e6:,.1f} | {x.share}% | {_part(x.extra)} "
        f"| {_part(x.bound)} | {x.variant or 'the module'} | {x.plain:.1f} | {_times(x.first)} "
        f"| {x.whole:.1f} |"
        for x in rows
    ]
    return "\n".join(lines)


def _latest_first(rows: Sequence[Row], least_seconds: float) -> float:
    """The most plain plans until a first plan, of programs whose plain plan takes so long."""
    return max([x.first or 0.0 for x in rows if x.plain >= least_seconds], default=0.0)


def _times(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def _part(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.3f}%"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    found = [x.partition(":")[2].strip() for x in lines if x.startswith("model name")]
    return found[0] if found else "an unknown processor"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--shares", type=int, nargs="+", default=[90, 70, 50])
    parser.add_argument("--deadline", type=float, default=60.0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows = []
    for path in options.files:
        for share in options.shares:
            rows.append(measured(path, share, options.deadline))
            print(rows[-1], file=sys.stderr, flush=True)
        if options.write is not None:
            replace_section(options.write, "shares", table(rows, options.deadline))
    if options.write is None:
        print(table(rows, options.deadline))


if __name__ == "__main__":
    main()
