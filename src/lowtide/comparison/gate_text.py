"""Forms of a gate's result for people: the screen, and Markdown for the page of a CI."""

from __future__ import annotations

from typing import Final

from lowtide.comparison.gate import GateResult, GateVerdict, PeakCheck
from lowtide.report.diff_text import diff_markdown, diff_text, escaped
from lowtide.report.drawing import Paint, elide
from lowtide.report.units import Unit, unit_for

_LINES: Final = 12
"""How many lines of a diff stand below a peak that rose."""
_PARTS: Final = 5
_COLUMNS: Final = ("peak", "locked", "limit")


def gate_text(result: GateResult, *, width: int = 100, color: bool = False) -> str:
    """Return a row per program, and the first lines of the diff for each that does not pass."""
    paint = Paint(color=color)
    longest = max([4, *[len(x.name) for x in result.checks]])
    name_width = min(longest, width - 66)
    head = "".join([f"{title:>13}" for title in _COLUMNS])
    lines = [paint("dim", f"{'name':<{name_width}}{head}  verdict")]
    for check in result.checks:
        cells = "".join([f"{cell:>13}" for cell in _cells(check)])
        role = "good" if check.passes else "bad"
        verdict = paint(role, _verdict(check))
        lines.append(f"{elide(check.name, name_width):<{name_width}}{cells}  {verdict}")
    for check in result.checks:
        if not check.passes and check.diff is not None and check.diff.nbytes:
            found = diff_text(check.diff, width=width - 2, color=color, limit=_PARTS)
            lines += ["", f"{check.name}:"]
            lines += [f"  {line}".rstrip() for line in found.split("\n")[:_LINES]]
    if result.was_updated:
        lines += ["", f"The peaks are locked in {result.lock.name}."]
    elif any(x.verdict is GateVerdict.UNLOCKED for x in result.checks):
        lines += ["", f"`lowtide check --update` locks the peaks, in {result.lock.name}."]
    return "\n".join(lines)


def gate_markdown(result: GateResult) -> str:
    """Return a table of the programs, and the diff of each that does not pass."""
    lines = ["| program | peak | locked | limit | |", "|---|---:|---:|---:|---|"]
    for check in result.checks:
        cells = " | ".join(_cells(check))
        mark = "" if check.passes else "**"
        lines.append(f"| {escaped(check.name)} | {cells} | {mark}{_verdict(check)}{mark} |")
    for check in result.checks:
        if not check.passes and check.diff is not None and check.diff.nbytes:
            lines += ["", f"### {escaped(check.name)}", "", diff_markdown(check.diff, _PARTS)]
    return "\n".join(lines)


def _cells(check: PeakCheck) -> list[str]:
    unit = unit_for(check.peak_bytes)
    return [_size(x, unit) for x in (check.peak_bytes, check.locked_bytes, check.limit_bytes)]


def _size(nbytes: int | None, unit: Unit) -> str:
    return "-" if nbytes is None else unit.text(nbytes)


def _verdict(check: PeakCheck) -> str:
    if not check.locked_bytes or check.peak_bytes == check.locked_bytes:
        return check.verdict.value
    share = 100 * (check.peak_bytes - check.locked_bytes) / check.locked_bytes
    return f"{check.verdict.value} ({share:+.1f}%)"
