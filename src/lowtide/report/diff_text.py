"""Forms of a diff for people: the screen, and Markdown for the page of a CI."""

from __future__ import annotations

import re
import textwrap
from typing import Final

from lowtide.report.diff import DiffPart, MemoryDiff
from lowtide.report.drawing import Paint, elide, harmless
from lowtide.report.peak_table import place_text
from lowtide.report.units import Unit, unit_for

_WIDTH: Final = 100
_ROWS: Final = 16
_LARGEST_SHARE: Final = 10
"""A change of more than so many times the peak before is not said in percent."""
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def diff_text(
    diff: MemoryDiff, *, width: int = _WIDTH, color: bool = False, limit: int = _ROWS
) -> str:
    """Return the diff on `width` columns: the change and what made it, then its largest parts."""
    paint = Paint(color=color)
    unit = _unit(diff)
    role = "bad" if diff.nbytes > 0 else "good"
    lines = [*_wrapped(headline(diff), width, paint, role), ""]
    lines += [f"  before  {_side(diff, 0, unit)}", f"  after   {_side(diff, 1, unit)}"]
    if common := _common(diff):
        lines.append(f"  shared  {common}")
    lines.append("")
    if not diff.parts:
        return "\n".join([*lines[:-1], "", "No part of the peaks differs."])
    lines.append(paint("dim", f"{unit.name:>10}  change"))
    for part in diff.parts[:limit]:
        lines += _part_lines(part, unit, width, paint)
    rest = diff.parts[limit:]
    if rest:
        lines.append(f"{_signed(sum([x.nbytes for x in rest]), unit):>10}  {len(rest):,} smaller")
    return "\n".join(lines)


def headline(diff: MemoryDiff) -> str:
    """Return the first line: the change in bytes, and what it is put down to."""
    unit = _unit(diff)
    after = diff.after.total_bytes
    if not diff.is_related:
        return (
            f"{diff.before.module} and {diff.after.module} have next to nothing in common: the "
            f"change of {_signed(diff.nbytes, unit)} {unit.name} cannot be put down to lines"
        )
    if not diff.nbytes:
        return f"peak unchanged: {unit.text(after)}"
    text = f"peak {_signed(diff.nbytes, unit)} {unit.name}{_share(diff, unit)}"
    culprit = diff.culprit
    if culprit is None:
        return text
    place = _place(culprit)
    return f"{text}: {culprit.text}{f' ({place})' if place else ''}"


def diff_markdown(diff: MemoryDiff, limit: int = _ROWS) -> str:
    """Return the diff as Markdown; names from files are escaped."""
    unit = _unit(diff)
    lines = [f"**{escaped(headline(diff))}**", ""]
    lines += [f"| | {unit.name} |", "|---|---:|"]
    for name, side in (("before", diff.before), ("after", diff.after)):
        lines.append(f"| {name}: {escaped(side.module)} | {unit.number(side.total_bytes)} |")
    if common := _common(diff):
        lines += ["", f"shared: {escaped(common)}"]
    lines += ["", f"| {unit.name} | change | where |", "|---:|---|---|"]
    for part in diff.parts[:limit]:
        where = escaped(_place(part))
        lines.append(f"| {_signed(part.nbytes, unit)} | {escaped(part.text)} | {where} |")
    rest = diff.parts[limit:]
    if rest:
        nbytes = sum([x.nbytes for x in rest])
        lines.append(f"| {_signed(nbytes, unit)} | {len(rest):,} smaller | |")
    return "\n".join(lines)


def _unit(diff: MemoryDiff) -> Unit:
    return unit_for(abs(diff.nbytes) or diff.after.total_bytes)


def _share(diff: MemoryDiff, unit: Unit) -> str:
    """The change as a part of the peak before; both peaks where it is many times as large."""
    before = diff.before.total_bytes
    if not before:
        return ""
    if abs(diff.nbytes) > _LARGEST_SHARE * before:
        after = diff.after.total_bytes
        return f" (from {unit_for(before).text(before)} to {unit.text(after)})"
    return f" ({100 * diff.nbytes / before:+.0f}%)"


def _common(diff: MemoryDiff) -> str:
    """What unrelated programs share nonetheless: 0 of 2 and 14 arguments, ..."""
    return "" if diff.is_related else ", ".join([str(x) for x in diff.common])


def _signed(nbytes: int, unit: Unit) -> str:
    sign = "+" if nbytes > 0 else "-" if nbytes < 0 else ""
    return f"{sign}{unit.number(abs(nbytes))}"


def _side(diff: MemoryDiff, number: int, unit: Unit) -> str:
    side = (diff.before, diff.after)[number]
    return f"{unit.text(side.total_bytes):>14}  {elide(side.module, 40)}"


def _place(part: DiffPart) -> str:
    if part.source is None:
        return part.scope
    return place_text(part.source)


def _part_lines(part: DiffPart, unit: Unit, width: int, paint: Paint) -> list[str]:
    """A part on a line, with its place on the next one where that is needed."""
    start = f"{_signed(part.nbytes, unit):>10}  "
    place = _place(part)
    if not place:
        return [start + elide(part.text, width - len(start))]
    if len(start) + len(part.text) + 2 + len(place) <= width:
        return [f"{start}{part.text}  {paint('place', place)}"]
    shown = elide(place, width - len(start) - 2)
    return [start + elide(part.text, width - len(start)), f"{' ' * 14}{paint('place', shown)}"]


def _wrapped(text: str, width: int, paint: Paint, role: str) -> list[str]:
    return [paint(role, line) for line in textwrap.wrap(text, width)]


def escaped(text: str) -> str:
    """Return a text in which nothing is taken for Markdown or HTML, on one line."""
    return _SPECIAL.sub(r"\\\1", harmless(text).replace("\n", " "))
