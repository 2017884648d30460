"""A test whether rectangles of time and memory overlap."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence


def first_overlap(
    rectangles: Sequence[tuple[int, int, int, int, int]],
) -> tuple[int, int] | None:
    """Return the numbers of two rectangles that share a byte at a step; None if there are none.

    A rectangle is (first step, last step, offset, end, number): the last step is included, the end
    of the bytes is not, and none is empty. Time is n log n.
    """
    order = sorted(range(len(rectangles)), key=lambda i: rectangles[i][0])
    ends = sorted(range(len(rectangles)), key=lambda i: rectangles[i][1])
    live: list[tuple[int, int]] = []
    done = 0
    for i in order:
        first, _, offset, end, number = rectangles[i]
        while rectangles[ends[done]][1] < first:
            key = (rectangles[ends[done]][2], ends[done])
            del live[bisect_left(live, key)]
            done += 1
        place = bisect_left(live, (offset, -1))
        below = live[place - 1][1] if place else -1
        if below >= 0 and rectangles[below][3] > offset:
            return rectangles[below][4], number
        if place < len(live) and live[place][0] < end:
            return rectangles[live[place][1]][4], number
        insort(live, (offset, i))
    return None
