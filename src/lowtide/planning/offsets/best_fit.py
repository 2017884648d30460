"""Largest first, each to the smallest gap.

The idea is that of the greedy-by-size offset assignment of Pisarchyk and Lee ("Efficient Memory
Management for Deep Neural Net Inference", 2020) and of XLA's global decreasing size best fit heap.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.planning.plans import Packing
from lowtide.planning.problem import FREE, Int64Array, PackingProblem
from lowtide.planning.registry import OffsetStrategy
from lowtide.planning.scale.gaps import borders, packing_of
from lowtide.search.effort import SearchOptions

MANY: Final = 1_500
"""As many buffers are placed faster by compiled code, the time to compile it included."""


def best_fit(problem: PackingProblem, _: SearchOptions) -> Packing:
    """Return the packing in order of decreasing size, then duration, then first step, then number.

    A buffer goes to the smallest gap that is free during its life, of equal ones the lowest; the
    room above all that lives with it comes last. Buffers with a fixed offset lie there before.
    """
    order = by_size(problem)
    if len(order) < MANY:
        return best_fit_in_order(problem, order)
    from lowtide.planning.scale import gaps  # Compiled code is loaded for many buffers only.

    return gaps.best_fit_in_order(problem, order)


def by_size(problem: PackingProblem) -> Int64Array:
    """Return the buffers without a fixed offset, the largest first."""
    duration = np.zeros(len(problem), np.int64)
    np.add.at(duration, problem.item, problem.last - problem.first + 1)
    begin, _ = problem.spans()
    free = np.flatnonzero(problem.fixed_offset == FREE)
    return free[np.lexsort([begin[free], -duration[free], -problem.nbytes[free]])]


def best_fit_in_order(problem: PackingProblem, order: Int64Array) -> Packing:
    """Return the packing that puts each buffer of `order`, one after another, to the smallest gap.

    `order` are all buffers without a fixed offset.
    """
    return _Placer(problem).place(order)


class _Placer:
    """One address space: the regions end to end, then the arena; no buffer crosses a border.

    Columns of `rows` are what is placed: first and last step, lowest address, address behind it.
    Borders are rows that are always live, empty ones where a region or the arena begins.
    """

    def __init__(self, problem: PackingProblem) -> None:
        self.problem = problem
        self.borders = borders(problem)
        order = np.argsort(problem.item, kind="stable")
        self.first, self.last = problem.first[order], problem.last[order]
        self.starts = np.searchsorted(problem.item[order], np.arange(len(problem) + 1))
        self.rows = np.zeros((4, len(self.borders) + len(order)), np.int64)
        self.count = len(self.borders)
        self.rows[0, : self.count] = np.iinfo(np.int64).min
        self.rows[1, : self.count] = np.iinfo(np.int64).max
        self.rows[2:, : self.count] = self.borders
        self.address = np.zeros(len(problem), np.int64)

    def place(self, order: Int64Array) -> Packing:
        """Place the fixed buffers, then those of `order`."""
        problem = self.problem
        nbytes, alignment = problem.nbytes.tolist(), problem.alignment.tolist()
        fixed = problem.fixed_offset + self.borders[problem.region_of]
        for item in np.flatnonzero(problem.fixed_offset != FREE).tolist():
            self._put(item, int(fixed[item]), nbytes[item])
        for item in order.tolist():
            self._put(item, self._gap(item, nbytes[item], alignment[item]), nbytes[item])
        return packing_of(problem, self.address)

    def _put(self, item: int, address: int, nbytes: int) -> None:
        start, end = self.starts[item], self.starts[item + 1]
        rows = self.rows[:, self.count : self.count + end - start]
        rows[0], rows[1] = self.first[start:end], self.last[start:end]
        rows[2], rows[3] = address, address + nbytes
        self.count += end - start
        self.address[item] = address

    def _gap(self, item: int, nbytes: int, alignment: int) -> int:
        """The lowest address of the smallest gap that is free while the buffer is live."""
        low, high = self._neighbours(item)
        order = np.argsort(low, kind="stable")
        begin = self._aligned(np.maximum.accumulate(high[order]), alignment)
        room = low[order][1:] - begin[:-1]
        room[room < nbytes] = _NO_ROOM
        smallest = int(room.argmin()) if len(room) else 0
        if len(room) and room[smallest] != _NO_ROOM:
            return int(begin[smallest])
        return int(begin[-1])

    def _aligned(self, address: Int64Array, alignment: int) -> Int64Array:
        """Addresses rounded up to a multiple of `alignment` from where their region begins."""
        base: Int64Array | int = 0
        if len(self.borders) > 1:
            base = self.borders[np.searchsorted(self.borders, address, side="right") - 1]
        return base - (base - address) // alignment * alignment

    def _neighbours(self, item: int) -> tuple[Int64Array, Int64Array]:
        """Lowest and highest addresses of what is placed and live together with a buffer."""
        rows = self.rows[:, : self.count]
        start, end = self.starts[item], self.starts[item + 1]
        together = (rows[0] <= self.last[start]) & (rows[1] >= self.first[start])
        for row in range(start + 1, end):
            together |= (rows[0] <= self.last[row]) & (rows[1] >= self.first[row])
        chosen = np.flatnonzero(together)
        return rows[2, chosen], rows[3, chosen]


_NO_ROOM: Final = np.iinfo(np.int64).max


STRATEGIES: Final = (
    OffsetStrategy(
        "best_fit",
        best_fit,
        "Largest first, each to the smallest gap that is free during its life.",
        "Pisarchyk and Lee 2020 (greedy by size); XLA's decreasing size best fit",
        frozenset({"alignment", "fixed", "gaps", "regions"}),
    ),
)
