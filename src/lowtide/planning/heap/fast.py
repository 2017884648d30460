"""Heap algorithms for many buffers: one pass by first step, instead of a search in all gaps.

They are XLA's fast-merge and fast-split packing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from lowtide.planning.heap.best_fit import GapPlacer, first_step, last_step
from lowtide.planning.heap.intervals import Interval, group_bytes, in_groups, intervals
from lowtide.planning.heap.steps import (
    UNLIMITED,
    Chunk,
    Heap,
    HeapAlgorithm,
    HeapLayout,
    HeapStep,
    round_up,
)

LARGEST: Final = 500
"""How many buffers fast-split places by best fit beside those in one place with others."""

Members = Sequence[Interval]


def fast_merge(limit: int = UNLIMITED) -> HeapAlgorithm:
    """Return the algorithm that takes all buffers of one place as live from first to last.

    They are placed by first step, each in the smallest free chunk that holds it. With a `limit` in
    bytes, what would end above it goes to another heap.
    """

    def run(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        return _in_heaps(intervals(steps), [], alignment, limit)

    return run


def fast_split(limit: int = UNLIMITED) -> HeapAlgorithm:
    """Return the algorithm that places what is large or shared by best fit, the rest above it.

    XLA's measures what is below by the first buffer of each place, not by the largest, and lets the
    rest overlap with what is larger; here it is measured by the largest.
    """

    def run(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        found = intervals(steps)
        large = _large_or_shared(found)
        return _in_heaps([x for x in found if x.group not in large], found, alignment, limit)

    return run


def _large_or_shared(found: Sequence[Interval]) -> set[int]:
    groups = sorted(in_groups(found), key=_spatial)
    alone = [members[0].group for members in groups if len(members) == 1 and members[0].nbytes]
    return {members[0].group for members in groups if len(members) > 1} | set(alone[:LARGEST])


def _spatial(members: Members) -> tuple[int, int, int]:
    return -members[0].nbytes, -members[0].duration, members[0].buffer


def _in_heaps(
    fast: Sequence[Interval], found: Sequence[Interval], alignment: int, limit: int
) -> HeapLayout:
    """Lay out what is `fast` by first step, above the rest of `found`, by best fit."""
    quick = {x.group for x in fast}
    chunks = {x.buffer: Chunk(0, 0) for x in (found or fast) if not x.nbytes}
    below: Sequence[Members] = [
        x for x in sorted(in_groups(found), key=_spatial) if x[0].group not in quick
    ]
    above = sorted([x for x in in_groups(fast) if group_bytes(x)], key=_by_first_step)
    heaps: list[Heap] = []
    while below or above:
        base = GapPlacer(alignment)
        below = base.fill(below, limit)
        heap = _FreeList(alignment, limit, base.nbytes)
        above = [members for members in above if not heap.place(members)]
        heaps.append(Heap({**chunks, **base.chunks, **heap.chunks}, heap.nbytes))
        chunks = {}
    return HeapLayout(tuple(heaps) or (Heap(chunks, 0),))


def _by_first_step(members: Members) -> tuple[int, int, int]:
    return first_step(members), -members[0].nbytes, members[0].buffer


_ENDLESS: Final = 2**62


class _FreeList:
    """A heap at one moment, which moves on from one first step to the next.

    Free chunks are sorted by the bytes from their first aligned offset on, then by offset; the last
    is endless. What lies before the aligned offset is taken together with a chunk.
    """

    def __init__(self, alignment: int, limit: int, base: int) -> None:
        self.alignment, self.limit = alignment, limit
        self.chunks: dict[int, Chunk] = {}
        self.nbytes = base
        self.free: list[tuple[int, int]] = []
        self.start_of: dict[int, int] = {}
        self.end_of: dict[int, int] = {}
        self.in_use: list[tuple[int, int, int]] = []
        self._add_free(base, _ENDLESS)

    def place(self, members: Members) -> bool:
        """Put buffers into one place, unless that is above the limit."""
        self._advance(first_step(members))
        nbytes = group_bytes(members)
        size, start = self.free[bisect_left(self.free, (nbytes, 0))]
        begin = round_up(start, self.alignment)
        end = begin + nbytes
        if self.limit != UNLIMITED and end > self.limit and self.nbytes:
            return False
        self._remove_free(start)
        if nbytes < size:
            self._add_free(end, begin + size)
        heappush(self.in_use, (last_step(members), start, end))
        self.chunks |= {x.buffer: Chunk(begin, nbytes) for x in members}
        self.nbytes = max(self.nbytes, end)
        return True

    def _advance(self, step: int) -> None:
        while self.in_use and self.in_use[0][0] < step:
            _, start, end = heappop(self.in_use)
            if end in self.end_of:
                end = self._remove_free(end)
            if start in self.start_of:
                start = self.start_of[start]
                self._remove_free(start)
            self._add_free(start, end)

    def _add_free(self, start: int, end: int) -> None:
        self.end_of[start] = end
        self.start_of[end] = start
        insort(self.free, self._key(start, end))

    def _remove_free(self, start: int) -> int:
        """Remove the free chunk that begins at an offset, and return where it ends."""
        end = self.end_of.pop(start)
        del self.start_of[end]
        del self.free[bisect_left(self.free, self._key(start, end))]
        return end

    def _key(self, start: int, end: int) -> tuple[int, int]:
        return end - round_up(start, self.alignment), start
