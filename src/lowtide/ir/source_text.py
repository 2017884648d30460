"""The text that a module was read from, to say where something stands in it."""

from __future__ import annotations

from bisect import bisect_right
from typing import final


@final
class SourceText:
    """A text with its file name; offsets become lines and columns on demand.

    `fields` says where fields of the module begin that are checked once all of it is read.
    """

    __slots__ = ("_starts", "fields", "file", "text")

    def __init__(self, text: str, file: str = "") -> None:
        self.text = text
        self.file = file
        self.fields: dict[str, int] = {}
        self._starts: list[int] | None = None

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Return the line and column of a character, both from 1."""
        if self._starts is None:
            starts = [0]
            find = self.text.find
            while (end := find("\n", starts[-1])) >= 0:
                starts.append(end + 1)
            self._starts = starts
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def excerpt(self, offset: int, width: int = 100) -> str:
        """Return the line around `offset`, cut to `width` characters, over a caret below it."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        first = max(start, offset - width // 2)
        last = min(end, first + width)
        line = "".join([c if c.isprintable() else " " for c in self.text[first:last]])
        prefix = "..." if first > start else ""
        suffix = "..." if last < end else ""
        caret = " " * (len(prefix) + offset - first) + "^"
        return f"  {prefix}{line}{suffix}\n  {caret}"
