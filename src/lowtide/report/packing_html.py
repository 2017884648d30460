"""A packing as a page to look around in: one file, without a network."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Final

from lowtide.report.drawing import harmless
from lowtide.report.packing_picture import (
    PackingPicture,
    coarse_profile,
    colour_classes,
    largest_rows,
)

MOST_RECTANGLES: Final = 200_000
MOST_STEPS: Final = 100_000
_PAGE: Final = "packing_page.html"
_MOST_EXACT: Final = 2**53
"""Numbers of the page's script are exact up to here."""


def packing_html(picture: PackingPicture) -> str:
    """Return the page: zoom with the wheel, move by dragging, find buffers by name."""
    rows, left_out = largest_rows(picture, MOST_RECTANGLES)
    remarks = [x for x in (left_out, *picture.remarks) if x]
    if picture.height > _MOST_EXACT:
        remarks.append("Numbers of more than 2^53 are rounded.")
    page = (files("lowtide.report") / _PAGE).read_text(encoding="utf-8")
    page = page.replace("{{title}}", _safe(escape(harmless(picture.title))))
    return page.replace('"{{data}}"', _script(_data(picture, rows.tolist(), remarks)))


def _data(picture: PackingPicture, rows: list[int], remarks: list[str]) -> dict[str, object]:
    """Rectangles row by row, buffers by number, in the order in which the script reads them."""
    colours, of_buffer = colour_classes(picture)
    item = picture.item[rows]
    shown = sorted(set(item.tolist()))
    number = {buffer: i for i, buffer in enumerate(shown)}
    steps, live = coarse_profile(picture, MOST_STEPS)
    return {
        "title": harmless(picture.title),
        "summary": harmless(picture.summary),
        "remarks": harmless(" ".join(remarks)),
        "names": [harmless(picture.names[i]) for i in shown],
        "details": [harmless(picture.details[i]) for i in shown] if picture.details else [],
        "offset": picture.offset[shown].tolist(),
        "bytes": picture.nbytes[shown].tolist(),
        "colours": colours,
        "colour": [of_buffer[i] for i in shown],
        "item": [number[i] for i in item.tolist()],
        "first": picture.first[rows].tolist(),
        "last": picture.last[rows].tolist(),
        "steps": steps.tolist(),
        "live": live.tolist(),
        "start": picture.start,
        "stop": picture.stop,
        "height": picture.height,
        "bound": picture.bound,
    }


def _script(value: object) -> str:
    """Return a value as JSON that stays a value within a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _safe(text: str) -> str:
    """Return text that can be encoded."""
    return text.encode("utf-8", "replace").decode()
