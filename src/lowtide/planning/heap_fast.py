"""Heap algorithms for many buffers: one pass by first step, instead of a search in all gaps.

They are XLA's fast-merge and fast-split packing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from lowtide.planning.heap import (
    Chunk,
    Heap,
    HeapAlgorithm,
    HeapLayout,
    HeapStep,
    Interval,
    intervals,
    round_up,
)
from lowtide.planning.heap_best_fit import UNLIMITED, PlacingOrder, place_intervals

LARGEST: Final = 500
"""How many buffers fast-split places by best fit beside those in one place with others."""


def fast_merge(limit: int = UNLIMITED) -> HeapAlgorithm:
    """Return the algorithm that takes all buffers of one place as live from first to last.

    They are placed by first step, each in the smallest free chunk that holds it. With a `limit` in
    bytes, what would end above it goes to another heap.
    """

    def run(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        return _in_heaps(intervals(steps), alignment, limit)

    return run


def fast_split(limit: int = UNLIMITED) -> HeapAlgorithm:
    """Return the algorithm that places what is large or shared by best fit, the rest above it."""

    def run(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        found = intervals(steps)
        chosen = _large_or_shared(found)
        below = [x for x in found if x.group in chosen]
        above = [x for x in found if x.group not in chosen]
        layout = place_intervals(below, alignment, PlacingOrder.SPATIAL, limit)
        if not above:
            return layout
        fast = _in_heaps(above, alignment, limit)
        if limit != UNLIMITED:
            return HeapLayout(layout.heaps + fast.heaps)
        return HeapLayout((_stacked(layout.heaps[0], fast.heaps[0], alignment),))

    return run


def _large_or_shared(found: Sequence[Interval]) -> set[int]:
    members: dict[int, int] = {}
    for interval in found:
        members[interval.group] = members.get(interval.group, 0) + 1
    alone = [x for x in found if members[x.group] == 1]
    largest = sorted(alone, key=lambda x: (-x.nbytes, -x.duration, x.buffer))[:LARGEST]
    return {x.group for x in largest} | {group for group, n in members.items() if n > 1}


def _stacked(below: Heap, above: Heap, alignment: int) -> Heap:
    base = round_up(below.nbytes, alignment)
    moved = {x: Chunk(base + chunk.offset, chunk.nbytes) for x, chunk in above.chunks.items()}
    return Heap({**below.chunks, **moved}, base + above.nbytes if above.nbytes else below.nbytes)


def _in_heaps(found: Sequence[Interval], alignment: int, limit: int) -> HeapLayout:
    groups: dict[int, list[Interval]] = {}
    for interval in found:
        groups.setdefault(interval.group, []).append(interval)
    waiting = sorted(groups.values(), key=_first_step)
    heaps: list[Heap] = []
    while waiting:
        heap = _FreeList(alignment, limit)
        waiting = [members for members in waiting if not heap.place(members)]
        heaps.append(Heap(heap.chunks, heap.nbytes))
    return HeapLayout(tuple(heaps) or (Heap({}, 0),))


def _first_step(members: Sequence[Interval]) -> tuple[int, int, int]:
    first = min([x.first for x in members if x.nbytes], default=0)
    return first, -max([x.nbytes for x in members]), members[0].buffer


class _FreeList:
    """A heap at one moment, which moves on from one first step to the next."""

    def __init__(self, alignment: int, limit: int) -> None:
        self.alignment, self.limit = alignment, limit
        self.chunks: dict[int, Chunk] = {}
        self.nbytes = 0
        self.free: list[tuple[int, int]] = []
        self.in_use: list[tuple[int, int, int]] = []

    def place(self, members: Sequence[Interval]) -> bool:
        nbytes = max([x.nbytes for x in members])
        if not nbytes:
            self.chunks |= {x.buffer: Chunk(0, 0) for x in members}
            return True
        live = [x for x in members if x.nbytes]
        self._advance(min([x.first for x in live]))
        offset = self._take(nbytes)
        if offset < 0:
            return False
        heappush(self.in_use, (max([x.last for x in live]), offset, nbytes))
        self.chunks |= {x.buffer: Chunk(offset, nbytes) for x in members}
        return True

    def _advance(self, step: int) -> None:
        while self.in_use and self.in_use[0][0] < step:
            _, offset, nbytes = heappop(self.in_use)
            self._add_free(offset, nbytes)

    def _take(self, nbytes: int) -> int:
        for place in range(bisect_left(self.free, (nbytes, 0)), len(self.free)):
            size, offset = self.free[place]
            begin = round_up(offset, self.alignment)
            if begin + nbytes > offset + size or self._is_above(begin + nbytes):
                continue
            del self.free[place]
            self._add_free(offset, begin - offset)
            self._add_free(begin + nbytes, offset + size - begin - nbytes)
            return begin
        begin = round_up(self.nbytes, self.alignment)
        if self.nbytes and self._is_above(begin + nbytes):
            return -1
        self._add_free(self.nbytes, begin - self.nbytes)
        self.nbytes = begin + nbytes
        return begin

    def _is_above(self, end: int) -> bool:
        return self.limit != UNLIMITED and end > self.limit

    def _add_free(self, offset: int, nbytes: int) -> None:
        if not nbytes:
            return
        end = offset + nbytes
        for size, start in [x for x in self.free if sum(x) == offset or x[1] == end]:
            self.free.remove((size, start))
            offset, end = min(offset, start), max(end, start + size)
        insort(self.free, (end - offset, offset))
