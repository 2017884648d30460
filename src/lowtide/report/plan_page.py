"""A plan, or two of them side by side, as a page: one file, without a network."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import field
from html import escape
from importlib.resources import files
from typing import Final
from zlib import compress

from lowtide.records import dataclass
from lowtide.report.blame import scope_of, user_frames
from lowtide.report.drawing import harmless
from lowtide.report.memory import MemoryReport
from lowtide.report.peak import CauseKind, PeakBuffer
from lowtide.report.peak_table import place_text
from lowtide.report.what_if import what_if_rows

_PAGE: Final = "plan_page.html"
MOST_BUFFERS: Final = 100_000
"""Of more, the page has the largest ones."""


@dataclass(frozen=True, slots=True)
class PictureBuffer:
    """A buffer for as long as it is taken: from the first to the last step, both included.

    `held` is the first value in it; `offset` is that in the arena, -1 in an argument's memory.
    """

    held: PeakBuffer
    nbytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class PlanPicture:
    """A plan to be drawn: the names of its steps, live bytes at each, and its buffers.

    `bound_bytes` is what no order keeps below, in the bytes that `live_bytes` count. `label` says
    whose plan it is; "" stands for the name of the module.
    """

    report: MemoryReport
    steps: tuple[str, ...]
    live_bytes: tuple[int, ...]
    bound_bytes: int
    buffers: tuple[PictureBuffer, ...]
    label: str = ""

    @property
    def title(self) -> str:
        """What stands above the picture."""
        return self.label or self.report.module


def plan_html(pictures: Sequence[PlanPicture], title: str, summary: str) -> str:
    """Return the page of one plan, or of several that are compared.

    `summary` is text for people in columns. Names from files are data: nothing in them is run.
    """
    page = (files("lowtide.report") / _PAGE).read_text(encoding="utf-8")
    parts = {
        "title": _text(title),
        "summary": f'<pre tabindex="0" role="region" aria-label="Summary">{_text(summary)}</pre>',
        "tables": "\n".join([x for picture in pictures for x in _tables(picture, len(pictures))]),
        "data": _packed(pictures),
    }
    return _PLACES.sub(lambda found: parts[found[1]], page)


_PLACES: Final = re.compile(r"\{\{(title|summary|tables|data)\}\}")


def _text(text: str) -> str:
    """Text from a file as HTML that can be encoded."""
    return escape(harmless(text)).encode("utf-8", "replace").decode()


# -- tables that need no script ------------------------------------------------------------------


def _tables(picture: PlanPicture, count: int) -> Iterable[str]:
    report = picture.report
    of = f": {_text(picture.title)}" if count > 1 else ""
    rows = [[x.kind.value, f"{x.nbytes:,}", x.text] for x in report.causes]
    yield _table(f"Causes of the peak{of}", ["cause", "bytes", "what it is"], rows)
    if report.what_if is not None and report.what_if.changes:
        heads = ["change", "bytes less", "peak", "bound", "more time", "write", "where"]
        yield _table(f"What if{of}", heads, what_if_rows(report.what_if))


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join([f'<th scope="col">{_text(x)}</th>' for x in heads])
    body = "".join(
        ["<tr>" + "".join([f"<td>{_text(x)}</td>" for x in row]) + "</tr>" for row in rows]
    )
    return (
        f'<h2>{caption}</h2><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{caption}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


# -- data ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tables:
    """Texts and frames of all plans, each once."""

    strings: dict[str, int] = field(default_factory=dict)
    frames: dict[tuple[int, int], int] = field(default_factory=dict)

    def text(self, text: str) -> int:
        """The number of a text."""
        return self.strings.setdefault(harmless(text), len(self.strings))

    def stack(self, buffer: PeakBuffer) -> int:
        """The number of the innermost call that made a buffer, whose callers have lower ones."""
        at = -1
        for label in _calls(buffer):
            key = self.text(label), at
            at = self.frames.setdefault(key, len(self.frames))
        return at


def _calls(buffer: PeakBuffer) -> list[str]:
    """The calls that made a buffer, or the scopes of its name, from the outside in."""
    frames = [place_text(x) for x in reversed(user_frames(buffer.stack))]
    return frames or list(scope_of(buffer.op_name)) or [buffer.opcode]


def _packed(pictures: Sequence[PlanPicture]) -> str:
    """The data of the page as JSON, compressed, in letters that mean nothing to HTML."""
    tables = _Tables()
    plans = [_plan(picture, tables) for picture in pictures]
    data = {
        "strings": list(tables.strings),
        "frames": [list(x) for x in tables.frames],
        "causes": [x.value for x in CauseKind],
        "plans": plans,
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return b64encode(compress(text.encode(), 9)).decode()


_CAUSES: Final = {kind: number for number, kind in enumerate(CauseKind)}


def _plan(picture: PlanPicture, tables: _Tables) -> dict[str, object]:
    buffers = picture.buffers
    if len(buffers) > MOST_BUFFERS:
        buffers = tuple(sorted(buffers, key=lambda x: -x.nbytes)[:MOST_BUFFERS])
    held = [x.held for x in buffers]
    live = picture.live_bytes
    return {
        "title": harmless(picture.title),
        "steps": [tables.text(x) for x in picture.steps] or [tables.text("")],
        "live": list(live) or [0],
        "bound": picture.bound_bytes,
        "arena": max([x.offset + x.nbytes for x in buffers], default=0),
        "peak": max(range(len(live)), key=lambda i: live[i]) if live else 0,
        "name": [tables.text(x.name) for x in held],
        "shape": [tables.text(x.shape) for x in held],
        "place": [tables.text(_place(x)) for x in held],
        "cause": [_CAUSES[x.cause] for x in held],
        "reason": [tables.text(x.reason) for x in held],
        "stack": [tables.stack(x) for x in held],
        "bytes": [x.nbytes for x in buffers],
        "offset": [x.offset for x in buffers],
        "first": [x.first for x in buffers],
        "last": [x.last for x in buffers],
    }


def _place(held: PeakBuffer) -> str:
    """The line that made a buffer; of an argument, and without a line, what it is called."""
    is_given = held.opcode == "parameter" and held.op_name
    return held.op_name if is_given or held.source is None else place_text(held.source)
