"""Lines of text for a terminal: colour, bars, cutting to a width; a screen of them as HTML."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import Final

ELLIPSIS: Final = "…"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_CODES: Final = {
    "title": "1",
    "dim": "2",
    "good": "32",
    "bad": "1;31",
    "warn": "33",
    "place": "36",
    "argument": "34",
    "output": "36",
    "constant": "35",
    "temporary": "33",
}


class Paint:
    """Gives pieces of text the colour of their role, or leaves them plain."""

    def __init__(self, *, color: bool) -> None:
        self._color = color

    def __call__(self, role: str, text: str) -> str:
        """Return `text` in the colour of `role`; measure and pad the text before."""
        if not self._color or not text:
            return text
        return f"\x1b[{_CODES[role]}m{text}\x1b[0m"


_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks and overrides of the direction of text, in a set of a regular expression."""

_COLOURED: Final = "|".join([*map(re.escape, sorted(set(_CODES.values()))), "0"])
_COMMANDS: Final = re.compile(
    rf"(\x1b\[(?:{_COLOURED})m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}]"
)


def visible(text: str) -> str:
    """Return a text in which nothing commands a terminal or turns text around, but for colours.

    Names come from files of strangers: a control character or an override is shown as "?".
    """
    return _COMMANDS.sub(lambda found: found[1] or "?", text)


def harmless(text: str) -> str:
    """Return a text for a picture, a page or another program: `visible`, and without colours."""
    return _COMMANDS.sub("?", text)


def bar(part: int, whole: int, width: int) -> str:
    """Return a bar of up to `width` columns, in eighths; one eighth for what is little."""
    if not part or not whole:
        return ""
    eighths = max(1, round(8 * width * part / whole))
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def elide(text: str, width: int) -> str:
    """Return `text` in at most `width` columns: a longer one loses its middle."""
    if len(text) <= width:
        return text
    if width < 3:
        return ELLIPSIS[:width]
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + ELLIPSIS + text[len(text) - tail :]


def elide_start(text: str, width: int) -> str:
    """Return `text` in at most `width` columns: a longer one loses its start."""
    return text if len(text) <= width else ELLIPSIS + text[len(text) - width + 1 :]


def elide_qualified(name: str, width: int) -> str:
    """Return a dotted name in at most `width` columns: its last part, else that without its end."""
    while len(name) > width and "." in name:
        name = name.partition(".")[2]
    return elide_end(name, width)


def elide_end(text: str, width: int) -> str:
    """Return `text` in at most `width` columns: a longer one loses its end."""
    return text if len(text) <= width else text[: max(0, width - 1)] + ELLIPSIS[:width]


def in_lines(start: str, parts: Sequence[str], width: int) -> list[str]:
    """Return parts after one another, with commas, on lines that never break one of them.

    The first line begins with `start`, the others with as many blanks as that one.
    """
    indent = " " * (len(start) - len(start.lstrip()))
    lines, line = [], start
    for i, part in enumerate(parts):
        piece = part + ("," if i < len(parts) - 1 else "")
        if line.strip() and len(line) + len(piece) > width:
            lines.append(line.rstrip())
            line = indent
        line += piece + " "
    return [*lines, line.rstrip()]


def whole_or_short(what: str, reason: str, width: int, most: int) -> list[str]:
    """Return `what: reason.` on at most so many lines; a longer reason is left out, and said so."""
    for text in (f"{what}: {reason}.", f"{what}; the reason is in --json."):
        lines = textwrap.wrap(text, width)
        if len(lines) <= most:
            return lines
    return []


def to_ascii(text: str) -> str:
    """Return the text for a terminal that knows no other characters."""
    shades = {ord(c): "#" for c in _EIGHTHS[4:]} | {ord(c): "|" for c in _EIGHTHS[1:4]}
    plain = text.translate(shades | {ord(ELLIPSIS): "~"})
    return plain.encode("ascii", "replace").decode()


def notebook_html(text: str) -> str:
    """Return the text of a screen as HTML in which its columns stay; names from files do nothing.

    Colours and light or dark are those of the notebook.
    """
    style = "line-height: 1.3; overflow-x: auto; white-space: pre"
    return f'<pre style="{style}">{escape(harmless(text))}</pre>'
