"""Findings on changes of a program: what each saves at the peak, and what time it costs."""

from __future__ import annotations

import textwrap
from typing import Final

from lowtide.ir import SourceLocation
from lowtide.records import dataclass
from lowtide.report.drawing import Paint, elide, elide_end, elide_start
from lowtide.report.peak_table import place_text
from lowtide.report.schema import Json, source_json
from lowtide.report.units import unit_for

_PERCENT: Final = 100.0
_NO_TIME: Final = 5e-4
"""Less than this part of a run is shown as no time."""


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What a change of the program leads to, as planned again.

    `name` is what `--try` takes, `what` the change in words, `code` what to write, and `source` the
    line where, None where none is known. `total_bytes` is all memory of one call after it,
    `bound_bytes` what no order of the changed program beats, `arena_bytes` what it needs beyond its
    arguments. `saved_bytes` is what the peak falls by, and `extra_seconds` how much longer a run
    takes by the model. `remark` says what else changes, or is "". With `is_about` the kernels of
    the plan are those of the program as it was: once written so, it takes about as much.
    """

    name: str
    what: str
    code: str
    source: SourceLocation | None
    total_bytes: int
    bound_bytes: int
    arena_bytes: int
    saved_bytes: int
    extra_seconds: float
    remark: str = ""
    is_about: bool = False

    @property
    def label(self) -> str:
        """The name, with what has to be known of it."""
        known = [x for x in ("about" if self.is_about else "", self.remark) if x]
        return f"{self.name} ({'; '.join(known)})" if known else self.name

    @property
    def rank(self) -> tuple[bool, float, int, str]:
        """The key by which outcomes stand: bytes per second lost, most first; free ones lead."""
        if self.extra_seconds <= 0:
            return False, 0.0, -self.saved_bytes, self.name
        return True, -self.saved_bytes / self.extra_seconds, -self.saved_bytes, self.name

    def to_json(self) -> Json:
        """Return the entry of the schema's `what_if.changes`."""
        return {
            "name": self.name,
            "what": self.what,
            "code": self.code,
            "source": source_json(self.source),
            "total_bytes": self.total_bytes,
            "bound_bytes": self.bound_bytes,
            "arena_bytes": self.arena_bytes,
            "saved_bytes": self.saved_bytes,
            "extra_seconds": self.extra_seconds,
            "remark": self.remark,
            "about": self.is_about,
        }


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A change that was not planned, and what it may lower the peak by; None where not known."""

    name: str
    estimated_bytes: int | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The changes that pay, best first, of a program that takes `seconds` a run by the model.

    `useless` names those that were planned and do not pay, among them budgets whose plan keeps to a
    smaller one that is listed. `left_out` are those for which too little time or work was left,
    most bytes by their estimates first, `impossible` those that cannot be made, with the reason.
    `question` is what the user has to say for further changes, or "".
    """

    seconds: float
    changes: tuple[ChangeOutcome, ...]
    useless: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    impossible: tuple[str, ...]
    question: str = ""

    def to_json(self) -> Json:
        """Return the schema's `what_if`."""
        return {
            "seconds": self.seconds,
            "changes": [x.to_json() for x in self.changes],
            "useless": list(self.useless),
            "left_out": [x.name for x in self.left_out],
            "estimated_bytes": {x.name: x.estimated_bytes for x in self.left_out},
            "impossible": list(self.impossible),
            "question": self.question,
        }


def what_if_lines(found: WhatIf, width: int, paint: Paint) -> list[str]:
    """Return what to do, best first, as lines: two for each change that pays."""
    if not found.changes:
        return ["What if: no change that was tried lowers the peak.", *_rest(found, width)]
    unit = unit_for(max([x.total_bytes + x.saved_bytes for x in found.changes]))
    lines = ["What if, each planned again, most bytes for the time first (time by a model):"]
    header = f"{unit.name + ' less':>11} {'peak':>11} {'bound':>11} {'time':>7}  change"
    lines.append(paint("dim", header))
    for x in found.changes:
        figures = [unit.number(n) for n in (x.saved_bytes, x.total_bytes, x.bound_bytes)]
        row = " ".join([f"{figure:>11}" for figure in figures])
        start = f"{row} {_time(x.extra_seconds, found.seconds):>7}  "
        lines.append(start + elide_end(x.label, max(8, width - len(start))))
        lines += _how(x, width, paint)
    return [*lines, *_rest(found, width)]


def _how(x: ChangeOutcome, width: int, paint: Paint) -> list[str]:
    """What to write, and where."""
    room = width - 4
    if x.source is None:
        return [f"    {elide(x.code, room)}"]
    place = elide_start(place_text(x.source), width // 2)
    return [f"    {paint('place', place)}  {elide(x.code, room - 2 - len(place))}"]


def _time(extra: float, seconds: float) -> str:
    if extra <= seconds * _NO_TIME:
        return "none"
    return f"+{_PERCENT * extra / seconds:.1f}%"


def _rest(found: WhatIf, width: int) -> list[str]:
    """The lines on what there was no time, or no work, left for, and on what has to be said."""
    lines = textwrap.wrap(found.question, width)
    if not found.left_out:
        return lines
    names = ", ".join([_left_out(x) for x in found.left_out])
    text = f"Not planned, to end soon (`--try NAME` plans one): {names}."
    return [*lines, *textwrap.wrap(text, width)]


def _left_out(x: LeftOut) -> str:
    """The name of a change that was not planned, with what it saves by its estimate."""
    if x.estimated_bytes is None:
        return x.name
    return f"{x.name} (about {unit_for(x.estimated_bytes).text(x.estimated_bytes)} less)"


def what_if_rows(found: WhatIf) -> list[list[str]]:
    """Return the changes that pay as rows of a table.

    The columns are the name, bytes saved, the peak, its bound, more time, what to write, and where.
    """
    return [
        [
            x.label,
            *[f"{n:,}" for n in (x.saved_bytes, x.total_bytes, x.bound_bytes)],
            _time(x.extra_seconds, found.seconds),
            x.code,
            "" if x.source is None else place_text(x.source),
        ]
        for x in found.changes
    ]
