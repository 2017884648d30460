"""`lowtide plan ... --compare`: what each strategy makes of one packing problem."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lowtide.cli.plan_packing import PackingRequest
    from lowtide.cli.plan_request import PlanRequest
    from lowtide.packing.compare import StrategyResult
    from lowtide.packing.named import NamedProblem
    from lowtide.planning import SearchOptions
    from lowtide.report.drawing import Paint

_MARKS: Final = "*†‡§¶"


def plan_compared(named: NamedProblem, packing: PackingRequest, request: PlanRequest) -> None:
    """Write a table of all strategies; with Ctrl-C, of those that are done by then.

    Raises VerificationError for a wrong plan, OverBudgetError where none fits the capacity.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import OverBudgetError
    from lowtide.packing.compare import SECONDS_EACH

    seconds = SECONDS_EACH if request.deadline is None else request.deadline
    rows, bound, interrupted = _rows(named, request.search(capacity=packing.capacity), seconds)
    if request.json:
        console.write_json(_document(named, rows, bound))
    else:
        from lowtide.options import display_for
        from lowtide.report.drawing import Paint

        display = display_for(sys.stdout)
        lines = _screen(named, rows, bound, display.width, Paint(color=display.color))
        console.write("\n".join([*lines, *_limits(rows, seconds)]))
    if interrupted:
        raise KeyboardInterrupt
    best = min([x.nbytes for x in rows if x.nbytes is not None], default=None)
    if packing.capacity is not None and (best is None or best > packing.capacity):
        raise OverBudgetError(
            f"{named.title}: no strategy needs {packing.capacity:,} bytes or less; no smaller than "
            f"{bound:,} is proved needed"
        )


def _rows(
    named: NamedProblem, search: SearchOptions, seconds: float
) -> tuple[list[StrategyResult], int, bool]:
    """What the strategies come to, the best bound that one proved, and whether Ctrl-C ended it."""
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.cli.progress import progress
    from lowtide.packing.check import WrongPackingError
    from lowtide.packing.compare import compare
    from lowtide.planning import StopReason, max_live

    bound = max_live(named.problem)
    rows: list[StrategyResult] = []
    try:
        with progress(f"comparing strategies on {named.title}") as line:
            for row, solved in compare(named, search, seconds):
                rows.append(row)
                line.state = f": {row.strategy} done,"
                if solved is not None:
                    bound = max(bound, solved.assignment.lower_bound)
                if row.stopped is StopReason.INTERRUPT:
                    return rows, bound, True
    except WrongPackingError as error:
        raise VerificationError(str(error)) from None
    except KeyboardInterrupt:
        return rows, bound, True
    return rows, bound, False


def _document(named: NamedProblem, rows: Sequence[StrategyResult], bound: int) -> dict[str, object]:
    from lowtide.planning import max_live
    from lowtide.search.deadline import ended_by

    return {
        "schema": "lowtide.compare/1",
        "problem": named.title,
        "buffers": len(named.problem),
        "live_bytes": max_live(named.problem),
        "lower_bound": bound,
        "caveats": [*named.notes, *([ended_by("a deadline")] if _by_the_clock(rows) else [])],
        "strategies": [
            {
                "kind": x.kind,
                "name": x.strategy,
                "bytes": x.nbytes,
                "ratio": None if x.nbytes is None or not bound else x.nbytes / bound,
                "stopped": x.stopped.value,
                "simplified": list(x.changes),
                "fault": x.fault or None,
            }
            for x in rows
        ],
        "seconds": {f"{x.kind}:{x.strategy}": x.seconds for x in rows},
    }


# -- the screen --------------------------------------------------------------------------------


def _screen(
    named: NamedProblem, rows: Sequence[StrategyResult], bound: int, width: int, paint: Paint
) -> list[str]:
    from lowtide.cli.packing_text import printable
    from lowtide.planning import max_live
    from lowtide.report.drawing import elide

    count = f"   {len(named.problem):,} buffers"
    live = max_live(named.problem)
    proved = f"live {live:,}; no offsets need less than {bound:,}"
    marks = {
        x: _MARKS[i % 5] for i, x in enumerate(dict.fromkeys([y for x in rows for y in x.changes]))
    }
    lines = [
        paint("title", elide(printable(named.title), width - len(count))) + paint("dim", count),
        proved,
        "",
    ]
    names = max([len(x.strategy) for x in rows], default=0) + 2
    size = max([len("bytes"), *[len(f"{x.nbytes or bound:,}") for x in rows]])
    lines.append(paint("dim", f"{'':<{names}}  {'bytes':>{size}}   ratio   seconds"))
    kind = ""
    for row in rows:
        if row.kind != kind:
            kind = row.kind
            lines.append(paint("title", _TITLES[kind]))
        mark = "".join([marks[x] for x in row.changes])
        lines.append(_line(row, bound, names, size, mark, width, paint))
    return [*lines, *[paint("dim", f"  {mark} {change}") for change, mark in marks.items()]]


_TITLES: Final = {"offsets": "offsets", "objects": "shared objects, end to end"}


def _line(
    row: StrategyResult, bound: int, names: int, size: int, mark: str, width: int, paint: Paint
) -> str:
    from lowtide.report.drawing import elide_end

    name = f"  {row.strategy:<{names - 2}}"
    if row.nbytes is None:
        return f"{name}  {elide_end(row.fault, width - names - 2)}"
    ratio = f"{row.nbytes / bound:7.4f}" if bound else f"{'':>7}"
    text = f"{name}  {row.nbytes:>{size},} {ratio} {row.seconds:8.2f}"
    ended = "" if row.stopped.value == "done" else f"  stopped: {row.stopped.value}"
    painted = paint("good", text) if row.nbytes <= bound else text
    return painted + f" {mark}{ended}".rstrip()


def _limits(rows: Sequence[StrategyResult], seconds: float) -> list[str]:
    """What ended some strategies early."""
    if not _by_the_clock(rows):
        return []
    return [f"Each strategy had {seconds:g} s; --deadline gives it another time."]


def _by_the_clock(rows: Sequence[StrategyResult]) -> bool:
    return any(x.stopped.value == "deadline" or x.fault.startswith("no plan in") for x in rows)
