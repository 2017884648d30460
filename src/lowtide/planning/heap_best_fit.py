"""The heap algorithm that sees all intervals: best fit, in an order of decreasing size.

It is XLA's global decreasing size best fit heap, with its orders, ties and limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.planning.heap import (
    Chunk,
    Heap,
    HeapAlgorithm,
    HeapLayout,
    HeapStep,
    Interval,
    best_of,
    intervals,
)

UNLIMITED: Final = -1


class PlacingOrder(StrEnum):
    """In which order intervals are placed; the last tie is broken by the number of the buffer."""

    SPATIAL = "spatial"
    """By decreasing size, then duration."""
    TEMPORAL = "temporal"
    """By decreasing time from the start to the end of all in one place, then size."""
    PHASE = "phase"
    """By the first step of all in one place, then decreasing size."""
    PHASE_END = "phase-end"
    """By the last step of all in one place, then decreasing size."""


def best_fit_heap(
    order: PlacingOrder = PlacingOrder.SPATIAL, limit: int = UNLIMITED
) -> HeapAlgorithm:
    """Return the algorithm which places one interval after another in the smallest gap.

    The gap is one that is free in all steps of the interval and of those in the same place; of
    equal gaps the lowest, and the end of the heap if there is none. With a `limit` in bytes, what
    would end above it goes to another heap; a single buffer may be larger than the limit.
    """

    def run(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        return place_intervals(intervals(steps), alignment, order, limit)

    return run


def choose_best(limit: int = UNLIMITED) -> HeapAlgorithm:
    """Return the algorithm that takes the smaller of the spatial and the temporal layout."""
    spatial = best_fit_heap(PlacingOrder.SPATIAL, limit)
    return best_of([spatial, best_fit_heap(PlacingOrder.TEMPORAL, limit)])


def place_intervals(
    found: Sequence[Interval],
    alignment: int,
    order: PlacingOrder = PlacingOrder.SPATIAL,
    limit: int = UNLIMITED,
) -> HeapLayout:
    """Return the layout of intervals; see `best_fit_heap`."""
    groups: dict[int, list[Interval]] = {}
    for interval in found:
        groups.setdefault(interval.group, []).append(interval)
    empty = {x.buffer: Chunk(0, 0) for x in found if not _group_bytes(groups[x.group])}
    keys = _KEYS[order]
    waiting = sorted(
        [members for members in groups.values() if _group_bytes(members)],
        key=lambda members: (*keys(members), members[0].buffer),
    )
    heaps: list[Heap] = []
    while waiting:
        placer = GapPlacer(alignment, sum(map(len, waiting)))
        kept: list[list[Interval]] = []
        for members in waiting:
            offset = placer.find(members)
            fits = offset + members[0].nbytes <= limit or limit == UNLIMITED or not placer.nbytes
            if fits:
                placer.put(members, offset)
            else:
                kept.append(members)
        heaps.append(Heap({**empty, **placer.chunks}, placer.nbytes))
        waiting, empty = kept, {}
    return HeapLayout(tuple(heaps) or (Heap(empty, 0),))


def _group_bytes(members: Sequence[Interval]) -> int:
    return max([x.nbytes for x in members])


def _spatial(members: Sequence[Interval]) -> tuple[int, int]:
    return -members[0].nbytes, -members[0].duration


def _temporal(members: Sequence[Interval]) -> tuple[int, int]:
    return members[0].first - max([x.last for x in members]), -members[0].nbytes


def _phase(members: Sequence[Interval]) -> tuple[int, int]:
    return min([x.first for x in members]), -members[0].nbytes


def _phase_end(members: Sequence[Interval]) -> tuple[int, int]:
    return max([x.last for x in members]), -members[0].nbytes


_KEYS: Final[dict[PlacingOrder, Callable[[Sequence[Interval]], tuple[int, int]]]] = {
    PlacingOrder.SPATIAL: _spatial,
    PlacingOrder.TEMPORAL: _temporal,
    PlacingOrder.PHASE: _phase,
    PlacingOrder.PHASE_END: _phase_end,
}


class GapPlacer:
    """One heap in which intervals are put into gaps; `capacity` is how many at most."""

    def __init__(self, alignment: int, capacity: int) -> None:
        self.alignment = alignment
        self.chunks: dict[int, Chunk] = {}
        """The places by the number of the buffer."""
        self.nbytes = 0
        """The size of the heap."""
        self._rows = np.zeros((4, capacity), np.int64)
        self._count = 0

    def find(self, members: Sequence[Interval], preferred: int = -1) -> int:
        """Return the offset for the intervals of one place, the first of which stands for all.

        That is the start of the smallest gap which holds the first of them and the largest, the
        lowest of equal gaps. A `preferred` offset is taken if it is aligned and all is free there.
        """
        low, high = self._neighbours(members)
        order = np.argsort(low, kind="stable")
        behind = np.maximum.accumulate(np.concatenate([np.zeros(1, np.int64), high[order]]))
        begin = -(-behind // self.alignment) * self.alignment
        end = np.concatenate([low[order], [_INFINITE]])
        nbytes = _group_bytes(members)
        fits = end - begin >= nbytes
        if preferred >= 0 and preferred % self.alignment == 0:
            inside = fits & (begin <= preferred) & (end - preferred >= nbytes)
            if inside.any():
                return preferred
        room = np.where(fits, end - begin, _INFINITE)
        room[-1] = _INFINITE
        smallest = int(room.argmin())
        return int(begin[smallest if room[smallest] != _INFINITE else -1])

    def put(self, members: Sequence[Interval], offset: int) -> None:
        """Occupy the size of the largest at an offset, for as long as each of them is live."""
        nbytes = _group_bytes(members)
        for interval in members:
            self.chunks[interval.buffer] = Chunk(offset, nbytes)
            if interval.last < interval.first:
                continue
            self._rows[:, self._count] = interval.first, interval.last, offset, offset + nbytes
            self._count += 1
        self.nbytes = max(self.nbytes, offset + nbytes)

    def _neighbours(
        self, members: Sequence[Interval]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Offsets, and offsets behind the end, of all that is live together with the intervals."""
        rows = self._rows[:, : self._count]
        together = np.zeros(self._count, np.bool_)
        for interval in members:
            together |= (rows[0] <= interval.last) & (rows[1] >= interval.first)
        chosen = np.flatnonzero(together)
        return rows[2, chosen], rows[3, chosen]


_INFINITE: Final = np.iinfo(np.int64).max
