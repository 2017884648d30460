"""The screen of `lowtide explain --plan`: a plan taken apart, in at most 24 lines."""

from __future__ import annotations

import textwrap
from itertools import pairwise
from typing import Final

from lowtide.autopsy.report import UNKNOWN, Autopsy, LoopState, PlanReport, Remedy
from lowtide.report.drawing import Paint, elide, elide_start, in_lines, whole_or_short
from lowtide.report.peak_table import place_text
from lowtide.report.text import LINES, WIDTH, Screen
from lowtide.report.units import Unit, percentage, unit_for

_LEAST_ROWS: Final = 2
_ROWS_AROUND: Final = 3
"""The lines of the table that are no rows of it: two above, and one for what is smaller."""
_REMEDIES: Final = 3
_LOOP_LINES: Final = 2


def autopsy_text(
    report: PlanReport,
    *,
    width: int = WIDTH,
    color: bool = False,
    limit: int | None = None,
    by: str = "line",
) -> str:
    """Return the report for people on `width` columns, without a newline at the end.

    The screen has at most 24 lines; code to paste is never broken. `limit` asks for that many rows
    of the table of buffers, however long the screen becomes; they are groups as in `explain_text`.
    """
    screen = _AutopsyScreen(report, width, Paint(color=color))
    peak = Screen(report.memory, width, Paint(color=color), by)
    for remedies, loop_lines in ((_REMEDIES, _LOOP_LINES), (2, _LOOP_LINES), (2, 0), (1, 0)):
        head = [*screen.title(), "", *peak.split(), "", *screen.ladder(), *screen.why()]
        head += ["", *screen.remedies(remedies), *screen.loops(loop_lines), ""]
        rows = LINES - len(head) - _ROWS_AROUND
        if rows >= _LEAST_ROWS:
            break
    rows = max(1, rows)
    table = peak.peak(rows, rows) if limit is None else peak.peak(limit)
    return "\n".join([*head, *table])


class _AutopsyScreen:
    """The parts of the screen, each as lines."""

    def __init__(self, report: PlanReport, width: int, paint: Paint) -> None:
        self.report = report
        self.autopsy: Autopsy = report.autopsy
        self.width = width
        self.paint = paint
        self.unit: Unit = unit_for(report.memory.ladder.arena_bytes or report.memory.total_bytes)

    def title(self) -> list[str]:
        """The name of the module, and the verdict."""
        memory, paint = self.report.memory, self.paint
        count = f"   {memory.instructions:,} instructions"
        whole = f"   {self.unit.text(memory.total_bytes)} in all"
        name = elide(memory.module, self.width - len(count + whole))
        takes = f"the plan takes {self.unit.text(self.autopsy.alternatives.plan)} beyond arguments"
        verdict = self._verdict()
        return [
            paint("title", name) + paint("dim", count + whole),
            f"{paint('title', takes)}; {verdict}",
        ]

    def _verdict(self) -> str:
        other = self.autopsy.alternatives
        if not self.autopsy.cause:
            return "no better one is known"
        least = min(other.without_copies, self.autopsy.other_order_arena)
        needs = f"{self.unit.text(least)} would do"
        return f"{needs}; cause: {self.paint('bad', self.autopsy.cause)}"

    def ladder(self) -> list[str]:
        """What the plan takes, and what other plans of the same program would."""
        other, number = self.autopsy.alternatives, self.unit.number
        steps = [
            ("plan", other.plan),
            ("same order", self.autopsy.same_order_arena),
            ("best order", self.autopsy.other_order_arena),
            ("bound", other.bound),
        ]
        text = f"  {steps[0][0]} {number(steps[0][1])}"
        for (_, before), (name, nbytes) in pairwise(steps):
            sign = ">" if before > nbytes else "=" if before == nbytes else "<"
            text += f"  {sign}  {name} {number(nbytes)}"
        return [f"{text} {self.unit.name}"]

    def why(self) -> list[str]:
        """The shares of what is above the bound."""
        plan = self.autopsy.alternatives.plan
        shown = [x for x in self.autopsy.causes if self.unit.is_visible(x.nbytes)]
        parts = []
        for cause in shown:
            name = "not explained" if cause.name == UNKNOWN else cause.name
            share = percentage(cause.nbytes, plan)
            parts.append(f"{name} {self.unit.text(cause.nbytes)} ({share})")
        if not parts:
            return []
        lines = in_lines("  above the bound: ", parts, self.width)
        if self.autopsy.cause:
            largest = next(x for x in shown if x.name == self.autopsy.cause)
            why = f"  {largest.name.capitalize()}: {largest.text}."
            lines += textwrap.wrap(why, self.width, subsequent_indent="  ")
        return lines

    # -- remedies ------------------------------------------------------------------------------

    def remedies(self, most: int) -> list[str]:
        """What would lower it, best first, with code; and what was tried and does not."""
        lines: list[str] = []
        for remedy in self._worth_showing()[:most]:
            lines += self._remedy(remedy)
        useless = [x for x in self.autopsy.remedies if x not in self.autopsy.helpful]
        tried = [
            f"{x.change} ({self.unit.number(x.verified_bytes)})"
            for x in useless
            if x.verified_bytes is not None
        ]
        if tried:
            lines += in_lines("Tried, of no use: ", [*tried[:-1], f"{tried[-1]}."], self.width)
        elif not lines:
            lines.append("Nothing is known that lowers it.")
        return lines

    def _worth_showing(self) -> list[Remedy]:
        """The helpful remedies, best first, without those that do no more than a simpler one."""
        chosen: list[Remedy] = []
        for remedy in self.autopsy.helpful:
            if not any(_is_as_good(x, remedy) for x in chosen):
                chosen.append(remedy)
        return sorted(chosen, key=lambda x: x.nbytes or 0)

    def _remedy(self, remedy: Remedy) -> list[str]:
        needed = remedy.nbytes or 0
        saved = self.autopsy.alternatives.plan - needed
        figures = f": {self.unit.text(saved)} less, {self.unit.number(needed)}, {remedy.proof}"
        change = elide(remedy.change, self.width - len(figures))
        return [self.paint("good", change + figures), f"  {remedy.code}"]

    # -- loops ---------------------------------------------------------------------------------

    def loops(self, most: int) -> list[str]:
        """Whether loops change their state in place; if not, what one of them copies and why."""
        loops = self.autopsy.loops
        if not loops or not most:
            return []
        worst = max(loops, key=lambda x: (x.needed_bytes, x.planned_bytes))
        if not worst.planned_bytes and not worst.needed_bytes:
            names = ", ".join([x.loop for x in loops])
            whole = f"Loops change their state in place: {names}."
            short = f"All {len(loops):,} loops change their state in place."
            return [whole if len(whole) <= self.width else short]
        text = _loop_text(worst)
        others = sum([x is not worst and x.planned_bytes + x.needed_bytes > 0 for x in loops])
        if others:
            text += f" ({others} more in --json)"
        lines = textwrap.wrap(text, self.width)
        return lines if len(lines) <= most else whole_or_short(*_shorter(worst), self.width, most)


def _shorter(loop: LoopState) -> tuple[str, str]:
    """What a loop has to copy, and why."""
    nbytes = unit_for(loop.needed_bytes).text(loop.needed_bytes)
    return f"{_named(loop)} has to copy {nbytes} each iteration", next(iter(loop.reasons), "")


def _loop_text(loop: LoopState) -> str:
    """What a loop copies, and whether it has to."""
    if not loop.needed_bytes:
        nbytes = unit_for(loop.planned_bytes).text(loop.planned_bytes)
        return (
            f"{_named(loop)} copies {nbytes} each iteration; its state could be changed in place, "
            "as lowtide's own plan does."
        )
    nbytes = unit_for(loop.needed_bytes).text(loop.needed_bytes)
    return f"{_named(loop)} has to copy {nbytes} each iteration: {loop.reasons[0]}."


def _named(loop: LoopState) -> str:
    """A loop with its line in the user's program."""
    if loop.source is None or not loop.source.file:
        return loop.loop
    return f"{loop.loop} ({elide_start(place_text(loop.source, function=False), 40)})"


def _is_as_good(first: Remedy, second: Remedy) -> bool:
    """Whether the second saves no hundredth more than the first, which is as certain."""
    if first.verified_bytes is None and second.verified_bytes is not None:
        return False
    return (first.nbytes or 0) * 99 <= (second.nbytes or 0) * 100
