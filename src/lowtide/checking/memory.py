"""The contents of one allocation: which value each byte holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

NOTHING: Final = 0
"""The content of bytes that nobody has written."""

_FAR: Final = 1 << 100

Piece = tuple[int, int, int]
"""First byte, byte behind the last one, content."""


class Contents:
    """A map from bytes to contents, which are numbers; as a sorted list of stretches.

    Neighbours may have equal contents only where a write put them side by side.
    """

    __slots__ = ("_ends", "_held", "_starts")

    def __init__(self) -> None:
        self._starts = [-_FAR]
        self._ends = [_FAR]
        self._held = [NOTHING]

    def holds(self, start: int, end: int, content: int) -> bool:
        """Whether all bytes from `start` up to `end`, not included, have one content."""
        i = bisect_right(self._starts, start) - 1
        return self._held[i] == content and self._ends[i] >= end

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Return the contents of a stretch, in order."""
        first = bisect_right(self._ends, start)
        behind = bisect_left(self._starts, end)
        return [
            (max(self._starts[i], start), min(self._ends[i], end), self._held[i])
            for i in range(first, behind)
        ]

    def write(self, start: int, end: int, content: int) -> Sequence[int]:
        """Fill a stretch, and return what was there, in order."""
        first = bisect_right(self._ends, start)
        behind = bisect_left(self._starts, end)
        before = self._held[first:behind]
        starts, ends, held = [start], [end], [content]
        if self._starts[first] < start:
            starts.insert(0, self._starts[first])
            ends.insert(0, start)
            held.insert(0, before[0])
        if self._ends[behind - 1] > end:
            starts.append(end)
            ends.append(self._ends[behind - 1])
            held.append(before[-1])
        self._starts[first:behind] = starts
        self._ends[first:behind] = ends
        self._held[first:behind] = held
        return before

    def restore(self, pieces: Sequence[Piece]) -> None:
        """Put contents back that `pieces` returned, as if there had been no writes since."""
        for start, end, content in pieces:
            self.write(start, end, content)
            self._join(start)
            self._join(end)

    def _join(self, border: int) -> None:
        """Make one stretch of two that meet at a border with equal contents."""
        i = bisect_left(self._starts, border)
        if i == len(self._starts) or not i or self._starts[i] != border:
            return
        if self._held[i] == self._held[i - 1]:
            self._ends[i - 1] = self._ends[i]
            del self._starts[i], self._ends[i], self._held[i]
