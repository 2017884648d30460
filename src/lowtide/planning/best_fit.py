"""Offsets by best fit in order of decreasing size.

The idea is that of the greedy-by-size offset assignment of Pisarchyk and Lee ("Efficient Memory
Management for Deep Neural Net Inference", 2020) and of XLA's global decreasing size best fit heap:
place the largest buffer first; each goes to the smallest gap that is free during its whole life.
Sorting first by how crowded memory is during an item's life, as MiniMalloc does with sections of
time (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
Learning", 2023), places first what meets at the peak.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

ARENA: Final = -1
"""In place of a region number: the item lies in the arena."""

FREE: Final = -1
"""In place of an offset: the item may lie anywhere."""


@dataclass(frozen=True, eq=False, slots=True)
class PackingProblem:
    """Items to place, and when each is live.

    `nbytes` is per item. Row `i` of `item`, `first`, `last` says that `item[i]` is live at the
    steps from `first[i]` to `last[i]`, both included; an item may have several rows and keeps its
    place throughout. Memory is the arena, as large as need be, and regions of `region_bytes`; no
    item lies across a border. Items with a `fixed_offset` that is not `FREE` have to lie there, in
    the region `region_of` or in the `ARENA`; the others may lie anywhere.
    """

    nbytes: Int64Array
    item: Int64Array
    first: Int64Array
    last: Int64Array
    region_of: Int64Array
    fixed_offset: Int64Array
    region_bytes: Int64Array


@dataclass(frozen=True, eq=False, slots=True)
class Packing:
    """Per item the region that it lies in, or `ARENA`, and its offset in there, in bytes.

    `arena_bytes` is the largest offset plus size in the arena, not rounded. `order` is that in
    which the items without a fixed offset were placed.
    """

    region: Int64Array
    offset: Int64Array
    arena_bytes: int
    order: Int64Array


ALIGNMENT: Final = 64
"""A cache line, and the widest vector."""


def item_alignments(nbytes: Int64Array) -> Int64Array:
    """Return what the offset of each item is a multiple of.

    It is the largest power of two, at most `ALIGNMENT`, that divides its size, so that items can
    lie end to end without padding.
    """
    return np.gcd(nbytes, ALIGNMENT)


def best_fit(problem: PackingProblem) -> Packing:
    """Return aligned offsets such that no two items overlap while both live.

    Several orders are tried until one needs no more than is live at once, fewer where there are
    many items. The smallest arena wins, of equal ones the first.
    """
    return min(_tries(problem), key=_arena_bytes)


def thorough_fit(problem: PackingProblem) -> Packing:
    """Return a packing like `best_fit`, or a smaller one, found by moving the blame.

    What sticks out above the most that is live at once is placed earlier in the next try, as in
    Joslin and Clements ("Squeaky Wheel Optimization", 1999). The number of tries depends on the
    number of items only.
    """
    least = least_arena_bytes(problem)
    starts = sorted(_tries(problem), key=_arena_bytes)
    moves = min(_MOST_MOVES, _PLACED // max(1, len(starts[0].order)) // _STARTS)
    best = starts[0]
    for start in starts[:_STARTS]:
        if best.arena_bytes <= least:
            break
        best = min(best, _blaming(problem, start, least, moves), key=_arena_bytes)
    return best


def _arena_bytes(packing: Packing) -> int:
    return packing.arena_bytes


def _tries(problem: PackingProblem) -> list[Packing]:
    """The packings of all orders, up to one which is as small as can be."""
    least = least_arena_bytes(problem)
    tries: list[Packing] = []
    for order in _orders(problem, _profile(problem)):
        tries.append(_Placer(problem).place(order))
        if tries[-1].arena_bytes <= least:
            break
    return tries


def _blaming(problem: PackingProblem, start: Packing, least: int, moves: int) -> Packing:
    free = start.order
    rank = np.arange(len(free), dtype=np.float64)
    random = np.random.default_rng(0)
    best = packing = start
    for _ in range(moves):
        if best.arena_bytes <= least:
            break
        tops = packing.offset[free] + problem.nbytes[free]
        blamed = (packing.region[free] == ARENA) & (tops > least)
        rank[blamed] *= random.random(int(blamed.sum()))
        places = np.argsort(rank, kind="stable")
        rank[places] = np.arange(len(free))
        packing = _Placer(problem).place(free[places])
        best = min(best, packing, key=_arena_bytes)
    return best


def least_arena_bytes(problem: PackingProblem) -> int:
    """Return an arena which no offsets can do without: the most live at once, less the regions."""
    regions = int(problem.region_bytes.sum())
    return max(0, int(_profile(problem).max(initial=0)) - regions)


_TRIES: Final = 20_000
"""The number of items to place, over all orders that are tried."""

_PLACED: Final = 15_000
"""The number of items to place over all tries to improve a packing."""

_MOST_MOVES: Final = 150
"""The number of tries to improve one packing: few items settle at once or never."""

_STARTS: Final = 3
"""The number of packings to improve."""


def _profile(problem: PackingProblem) -> Int64Array:
    """The bytes live at each step."""
    length = int(problem.last.max(initial=-1)) + 1
    size = problem.nbytes[problem.item]
    change = np.zeros(length + 1, np.int64)
    np.add.at(change, problem.first, size)
    np.subtract.at(change, problem.last + 1, size)
    return np.cumsum(change)[:length]


def _orders(problem: PackingProblem, profile: Int64Array) -> Iterator[Int64Array]:
    """The free items in the orders to try.

    Sorted by the most bytes live during their lives, then by size, size times duration or duration;
    by size, then duration; by the distance from the peak, then duration or size; by duration, then
    size; by size, then first step. Ties end with the
    first step and the number.
    Last, backwards in time, from what lies beside the fixed items at the end: by the most bytes
    live, then size, and ties by the last step; by the first step only.
    """
    free = np.flatnonzero(problem.fixed_offset == FREE)
    count = len(problem.nbytes)
    size = problem.nbytes
    duration, crowd = np.zeros(count, np.int64), np.zeros(count, np.int64)
    begin, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.add.at(duration, problem.item, problem.last - problem.first + 1)
    np.maximum.at(crowd, problem.item, _range_maxima(profile, problem.first, problem.last))
    np.minimum.at(begin, problem.item, problem.first)
    np.maximum.at(end, problem.item, problem.last)
    area = size.astype(np.float64) * duration
    peak = int(profile.argmax()) if len(profile) else 0
    distance = np.maximum(np.maximum(begin - peak, peak - end), 0)
    keys = (
        (begin, -size, -crowd),
        (begin, -duration, -size),
        (begin, -area, -crowd),
        (begin, -duration, -crowd),
        (-duration, distance),
        (-size, distance),
        (-size, -duration),
        (-duration, begin, -size),
        (-end, -size, -crowd),
        (-begin,),
    )
    for columns in keys[: max(1, _TRIES // max(1, len(free)))]:
        yield free[np.lexsort([key[free] for key in columns])]


def _range_maxima(values: Int64Array, first: Int64Array, last: Int64Array) -> Int64Array:
    """The maximum of `values[first[i]:last[i] + 1]` for each `i`, by doubling windows."""
    maxima = np.zeros(len(first), np.int64)
    length = last - first + 1
    window, width = values, 1
    while width <= len(values):
        rows = (length >= width) & (length < 2 * width)
        maxima[rows] = np.maximum(window[first[rows]], window[last[rows] - width + 1])
        window = np.maximum(window[:-width], window[width:])
        width *= 2
    return maxima


class _Placer:
    """One address space: the regions end to end, then the arena; no item crosses a border.

    Columns of `rows` are what is placed: first and last step, lowest address, address behind it.
    Borders are rows that are always live: from the end of a region to the start of the next one.
    """

    def __init__(self, problem: PackingProblem) -> None:
        self.problem = problem
        self.alignment = item_alignments(problem.nbytes).tolist()
        widths = _round_up(problem.region_bytes, ALIGNMENT)
        self.borders = np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])
        order = np.argsort(problem.item, kind="stable")
        self.first, self.last = problem.first[order], problem.last[order]
        self.starts = np.searchsorted(problem.item[order], np.arange(len(problem.nbytes) + 1))
        self.rows = np.zeros((4, len(self.borders) + len(order)), np.int64)
        self.count = len(self.borders)
        self.rows[0, : self.count] = -1
        self.rows[1, : self.count] = np.iinfo(np.int64).max
        self.rows[2, 1 : self.count] = self.borders[:-1] + problem.region_bytes
        self.rows[3, : self.count] = self.borders
        self.address = np.zeros(len(problem.nbytes), np.int64)

    def place(self, order: Int64Array) -> Packing:
        nbytes, fixed = self.problem.nbytes.tolist(), self.problem.fixed_offset
        start = self.borders[self.problem.region_of]
        for item in np.flatnonzero(fixed != FREE).tolist():
            self._put(item, int(start[item] + fixed[item]), nbytes[item])
        for item in order.tolist():
            self._put(item, self._gap(item, nbytes[item]), nbytes[item])
        return self._packing(order)

    def _put(self, item: int, address: int, nbytes: int) -> None:
        start, end = self.starts[item], self.starts[item + 1]
        rows = self.rows[:, self.count : self.count + end - start]
        rows[0], rows[1] = self.first[start:end], self.last[start:end]
        rows[2], rows[3] = address, address + nbytes
        self.count += end - start
        self.address[item] = address

    def _gap(self, item: int, nbytes: int) -> int:
        """The lowest address of the smallest gap that is free while the item is live."""
        low, high = self._neighbours(item)
        order = np.argsort(low, kind="stable")
        behind = np.maximum.accumulate(high[order])
        begin = _round_up(behind, self.alignment[item])
        room = low[order][1:] - begin[:-1]
        room[room < nbytes] = _NO_ROOM
        smallest = int(room.argmin()) if len(room) else 0
        if len(room) and room[smallest] != _NO_ROOM:
            return int(begin[smallest])
        return int(begin[-1])

    def _neighbours(self, item: int) -> tuple[Int64Array, Int64Array]:
        """Lowest and highest addresses of what is placed and live together with an item."""
        rows = self.rows[:, : self.count]
        start, end = self.starts[item], self.starts[item + 1]
        together = (rows[0] <= self.last[start]) & (rows[1] >= self.first[start])
        for row in range(start + 1, end):
            together |= (rows[0] <= self.last[row]) & (rows[1] >= self.first[row])
        chosen = np.flatnonzero(together)
        return rows[2, chosen], rows[3, chosen]

    def _packing(self, order: Int64Array) -> Packing:
        base = int(self.borders[-1])
        region = np.searchsorted(self.borders, self.address, side="right") - 1
        in_arena = self.address >= base
        region[in_arena] = ARENA
        offset = self.address - self.borders[region]
        tops = (self.address + self.problem.nbytes)[in_arena] - base
        return Packing(region, offset, int(tops.max(initial=0)), order)


_NO_ROOM: Final = np.iinfo(np.int64).max


def _round_up(values: Int64Array, alignment: int) -> Int64Array:
    return (values + (alignment - 1)) // alignment * alignment
