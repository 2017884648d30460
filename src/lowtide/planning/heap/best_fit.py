"""The heap algorithm that sees all intervals: best fit, one place after another.

It is XLA's global decreasing size best fit heap, with its orders, ties and limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final

from lowtide.planning.heap.combine import best_of
from lowtide.planning.heap.intervals import Interval, group_bytes, in_groups, intervals
from lowtide.planning.heap.steps import UNLIMITED, Chunk, Heap, HeapAlgorithm, HeapLayout, HeapStep
from lowtide.planning.placed import Placed, aligned, lowest_gap, smallest_gap


class PlacingOrder(StrEnum):
    """In which order intervals are placed; the last tie is broken by the number of the buffer."""

    SPATIAL = "spatial"
    """By decreasing size, then duration."""
    TEMPORAL = "temporal"
    """By decreasing time from the start to the end of all in one place, then size."""
    SPATIAL_TEMPORAL = "spatial-temporal"
    """By decreasing product of the largest size and the steps in which any in the place is live."""
    PHASE = "phase"
    """By the first step of all in one place, then decreasing size."""
    PHASE_END = "phase-end"
    """By the last step of all in one place, then decreasing size."""


class Placement(StrEnum):
    """The choice among the gaps that are large enough."""

    BEST_FIT = "best-fit"
    """The smallest, and of equal ones the lowest."""
    LOWEST = "lowest"


OrderKey = Callable[[Sequence[Interval]], Any]
"""What places are sorted by: a key of the intervals in one place, that which stands for all first.
"""

Order = PlacingOrder | OrderKey | Sequence[int]
"""An order by name, by a key, or a list of buffers that names each which stands for a place."""


def best_fit_heap(
    order: Order = PlacingOrder.SPATIAL,
    limit: int = UNLIMITED,
    placement: Placement = Placement.BEST_FIT,
) -> HeapAlgorithm:
    """Return the algorithm which places one interval after another in the smallest gap.

    The gap is one that is free in all steps of the interval and of those in the same place; of
    equal gaps the lowest, and the end of the heap if there is none. With a `limit` in bytes, what
    would end above it goes to another heap; a single buffer may be larger than the limit.
    """

    def run(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        return place_intervals(intervals(steps), alignment, order, limit, placement)

    return run


def choose_best(limit: int = UNLIMITED) -> HeapAlgorithm:
    """Return the algorithm that takes the smaller of the spatial and the temporal layout."""
    spatial = best_fit_heap(PlacingOrder.SPATIAL, limit)
    return best_of([spatial, best_fit_heap(PlacingOrder.TEMPORAL, limit)])


def packing_search() -> HeapAlgorithm:
    """Return the algorithm that takes the smallest of three orders and two placements."""
    orders = (PlacingOrder.SPATIAL, PlacingOrder.TEMPORAL, PlacingOrder.SPATIAL_TEMPORAL)
    return best_of([best_fit_heap(order, placement=x) for x in Placement for order in orders])


def place_intervals(
    found: Sequence[Interval],
    alignment: int | Sequence[int],
    order: Order = PlacingOrder.SPATIAL,
    limit: int = UNLIMITED,
    placement: Placement = Placement.BEST_FIT,
) -> HeapLayout:
    """Return the layout of intervals; see `best_fit_heap`.

    A sequence of alignments is indexed by the number of the buffer that stands for a place. Raises
    ValueError where an order that is a list lacks such a buffer.
    """
    groups = in_groups(found)
    chunks = {x.buffer: Chunk(0, 0) for x in found if not x.nbytes}
    waiting = _sorted([members for members in groups if group_bytes(members)], order)
    heaps: list[Heap] = []
    while waiting:
        heap = GapPlacer(alignment, placement)
        waiting = heap.fill(waiting, limit)
        heaps.append(Heap({**chunks, **heap.chunks}, heap.nbytes))
        chunks = {}
    return HeapLayout(tuple(heaps) or (Heap(chunks, 0),))


def _sorted(groups: Sequence[Sequence[Interval]], order: Order) -> list[Sequence[Interval]]:
    if isinstance(order, PlacingOrder):
        order = _KEYS[order]
    if callable(order):
        key = order
        return sorted(groups, key=lambda members: (key(members), members[0].buffer))
    rank = {buffer: place for place, buffer in enumerate(order)}
    missing = [members[0].buffer for members in groups if members[0].buffer not in rank]
    if missing:
        raise ValueError(f"the order lacks the buffers {missing[:5]}")
    return sorted(groups, key=lambda members: rank[members[0].buffer])


def _spatial(members: Sequence[Interval]) -> tuple[int, int]:
    return -members[0].nbytes, -members[0].duration


def _temporal(members: Sequence[Interval]) -> tuple[int, int]:
    return first_step(members) - last_step(members), -members[0].nbytes


def _spatial_temporal(members: Sequence[Interval]) -> int:
    steps, before = 0, -1
    for _, _, first, last, _ in sorted(members, key=lambda x: (x.first, x.last)):
        steps += max(0, last - max(first - 1, before))
        before = max(before, last)
    return -group_bytes(members) * steps


def _phase(members: Sequence[Interval]) -> tuple[int, int]:
    return first_step(members), -members[0].nbytes


def _phase_end(members: Sequence[Interval]) -> tuple[int, int]:
    return last_step(members), -members[0].nbytes


def first_step(members: Sequence[Interval]) -> int:
    """Return the step at which the first of those in one place begins."""
    return min([x.first for x in members])


def last_step(members: Sequence[Interval]) -> int:
    """Return the step at which the last of those in one place ends."""
    return max([x.last for x in members])


_KEYS: Final[dict[PlacingOrder, OrderKey]] = {
    PlacingOrder.SPATIAL: _spatial,
    PlacingOrder.TEMPORAL: _temporal,
    PlacingOrder.SPATIAL_TEMPORAL: _spatial_temporal,
    PlacingOrder.PHASE: _phase,
    PlacingOrder.PHASE_END: _phase_end,
}


class GapPlacer:
    """One heap in which intervals are put into gaps."""

    def __init__(
        self, alignment: int | Sequence[int], placement: Placement = Placement.BEST_FIT
    ) -> None:
        self.chunks: dict[int, Chunk] = {}
        """The places by the number of the buffer."""
        self.nbytes = 0
        """The size of the heap."""
        self.placed = Placed()
        """What is occupied."""
        self._alignment = alignment
        self._choose = smallest_gap if placement is Placement.BEST_FIT else lowest_gap

    def alignment_of(self, buffer: int) -> int:
        """Return what the offset of a buffer is a multiple of."""
        return self._alignment if isinstance(self._alignment, int) else self._alignment[buffer]

    def fill(
        self, waiting: Sequence[Sequence[Interval]], limit: int = UNLIMITED
    ) -> list[Sequence[Interval]]:
        """Put places into the heap, one after another, and return those that exceed the limit."""
        kept = []
        for members in waiting:
            offset = self.find(members)
            if offset + members[0].nbytes <= limit or limit == UNLIMITED or not self.nbytes:
                self.put(members, offset)
            else:
                kept.append(members)
        return kept

    def find(self, members: Sequence[Interval], preferred: int = -1) -> int:
        """Return the offset for the intervals of one place, the first of which stands for all.

        That is the start of the smallest gap which holds the largest of them, the lowest of equal
        gaps. A `preferred` offset is taken if it is aligned and all is free there.
        """
        alignment = self.alignment_of(members[0].buffer)
        begin, end = self.placed.gaps([(x.first, x.last) for x in members])
        begin = aligned(begin, alignment)
        nbytes = group_bytes(members)
        if preferred >= 0 and preferred % alignment == 0:
            inside = (begin <= preferred) & (end - preferred >= nbytes)
            if inside.any():
                return preferred
        return self._choose(begin, end, nbytes)

    def put(self, members: Sequence[Interval], offset: int) -> None:
        """Occupy the size of the largest at an offset, for as long as each of them is live."""
        nbytes = group_bytes(members)
        for interval in members:
            self.chunks[interval.buffer] = Chunk(offset, nbytes)
            if interval.last >= interval.first:
                self.placed.put(interval.first, interval.last, offset, offset + nbytes)
        self.nbytes = max(self.nbytes, offset + nbytes)
