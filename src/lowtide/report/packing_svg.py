"""A packing as a picture in SVG, for documents: nothing in it needs a network or a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

import numpy as np

from lowtide.report.drawing import elide, elide_end, harmless
from lowtide.report.packing_picture import PackingPicture, colour_classes, largest_rows, ticks
from lowtide.report.units import Unit, unit_for

MOST_RECTANGLES: Final = 20_000
_WIDTH: Final = 1200
_LEFT: Final = 90
_RIGHT: Final = 1180
_TOP: Final = 64
_BOTTOM: Final = 564
_LIVE_TOP: Final = 604
_LIVE_BOTTOM: Final = 704
_HEIGHT: Final = 760
_LEAST: Final = 0.5
"""The least width and height of a rectangle, so that it is seen."""

_OUTLINED: Final = 3
_CHARACTER: Final = 6.2
"""The width of a character of a label."""

_STYLE: Final = (
    "text{font:11px sans-serif;fill:#222}.t{font-size:16px}.o{stroke:#fff;stroke-width:.5}"
    ".r text{pointer-events:none}.a{stroke:#bbb;stroke-width:.6}.h{stroke:#111}"
    ".b{stroke:#c22;stroke-dasharray:6 4}.p{fill:#9ab;stroke:none}.e{text-anchor:end}"
    ".m{text-anchor:middle}"
)


def packing_svg(picture: PackingPicture) -> str:
    """Return the picture as an SVG document; each rectangle is named where the mouse rests."""
    rows, left_out = largest_rows(picture, MOST_RECTANGLES)
    drawing = _Drawing(picture)
    remarks = " ".join([x for x in (left_out, *picture.remarks) if x])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}">',
        f"<title>{_text(picture.title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text class="t" x="{_LEFT}" y="24">{_text(elide(picture.title, 130))}</text>',
        f'<text x="{_LEFT}" y="44">{_text(picture.summary)}</text>',
        *drawing.axes(),
        '<g class="r">',
        *drawing.rectangles(rows.tolist()),
        "</g>",
        *drawing.levels(),
        *drawing.profile(),
        f'<text x="{_LEFT}" y="{_HEIGHT - 14}">{_text(elide_end(remarks, 190))}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


class _Drawing:
    def __init__(self, picture: PackingPicture) -> None:
        self.picture = picture
        self.start, self.stop = picture.start, picture.stop
        self.unit: Unit = unit_for(picture.height)
        self.top = max(picture.height, picture.bound, 1)

    def x(self, step: int) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (step - self.start) / (self.stop - self.start)

    def y(self, nbytes: int) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * nbytes / self.top

    def axes(self) -> Iterator[str]:
        for step in ticks(self.start, self.stop, 12):
            x = _number(self.x(step))
            yield f'<line class="a" x1="{x}" y1="{_TOP}" x2="{x}" y2="{_LIVE_BOTTOM}"/>'
            yield f'<text class="m" x="{x}" y="{_LIVE_BOTTOM + 16}">{step:,}</text>'
        for nbytes in ticks(0, self.top, 11):
            y, base = _number(self.y(nbytes)), _number(self.y(nbytes) + 4)
            label = _text(self.unit.text(nbytes))
            yield f'<line class="a" x1="{_LEFT}" y1="{y}" x2="{_RIGHT}" y2="{y}"/>'
            yield f'<text class="e" x="{_LEFT - 6}" y="{base}">{label}</text>'

    def rectangles(self, rows: Sequence[int]) -> Iterator[str]:
        picture = self.picture
        colours, of_buffer = colour_classes(picture)
        for row in rows:
            buffer = int(picture.item[row])
            x, end = self.x(int(picture.first[row])), self.x(int(picture.last[row]) + 1)
            low = int(picture.offset[buffer])
            y, base = self.y(low + int(picture.nbytes[buffer])), self.y(low)
            width, height = max(end - x, _LEAST), max(base - y, _LEAST)
            outline = ' class="o"' if min(width, height) > _OUTLINED else ""
            yield (
                f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" '
                f'height="{_number(height)}" fill="{colours[of_buffer[buffer]]}"{outline}>'
                f"<title>{_text(picture.hover(row))}</title></rect>"
            )
            room = int((end - x - 4) / _CHARACTER)
            if room >= 3 and base - y >= 11:
                label = _text(elide(picture.names[buffer], room))
                middle = _number((y + base) / 2 + 4)
                yield f'<text x="{_number(x + 3)}" y="{middle}">{label}</text>'

    def levels(self) -> Iterator[str]:
        """The lines of the height, and of the bound where that is lower."""
        found = [("h", self.picture.height, "height")]
        if self.picture.bound < self.picture.height:
            found.append(("b", self.picture.bound, "bound"))
        for name, nbytes, word in found:
            y = self.y(nbytes)
            line = _number(y)
            yield f'<line class="{name}" x1="{_LEFT}" y1="{line}" x2="{_RIGHT}" y2="{line}"/>'
            place = _number(y - 4 if name == "h" else y + 12)
            text = f"{word} {nbytes:,}"
            yield f'<text class="e" x="{_RIGHT}" y="{place}">{text}</text>'

    def profile(self) -> Iterator[str]:
        """The bytes live at each step, the most of those that share a pixel."""
        steps, live = self.picture.profile
        most = int(live.max(initial=0))
        columns = np.array([int(self.x(step)) for step in steps.tolist()], np.int64)
        points = [f"{_LEFT},{_LIVE_BOTTOM}"]
        level, i = 0, 0
        for column in range(_LEFT, _RIGHT):
            here = level
            while i < len(columns) and columns[i] <= column:
                level = int(live[i])
                here = max(here, level)
                i += 1
            y = _LIVE_BOTTOM - (_LIVE_BOTTOM - _LIVE_TOP) * here / max(most, 1)
            points.append(f"{column},{_number(y)}")
        points.append(f"{_RIGHT},{_LIVE_BOTTOM}")
        yield f'<polygon class="p" points="{" ".join(points)}"/>'
        yield f'<text class="e" x="{_RIGHT}" y="{_LIVE_TOP - 6}">most live {most:,}</text>'
        yield f'<text class="e" x="{_LEFT - 6}" y="{_LIVE_TOP + 10}">live</text>'


def _number(value: float) -> str:
    """A coordinate with two digits at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    """The text as XML has it; characters that XML does not know are shown as unknown."""
    known = "".join([x if _is_known(x) else "�" for x in harmless(text)])
    return escape(known, {'"': "&quot;"})


def _is_known(character: str) -> bool:
    code = ord(character)
    if code < 32:
        return character in "\t\n\r"
    return not 0xD800 <= code <= 0xDFFF and code not in (0xFFFE, 0xFFFF)
