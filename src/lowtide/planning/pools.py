"""Buffers with lists of conflicts, in pools of limited size, and the stacking of TVM's planner."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.planning.problem import Int64Array
from lowtide.records import dataclass
from lowtide.search.effort import StopReason
from lowtide.search.kernels import Array, Record

UNBOUNDED: Final = -1
"""In place of the size of a pool: as large as need be."""

NOWHERE: Final = -1
"""In place of a pool: the buffer fits into none."""


@dataclass(frozen=True, eq=False, slots=True)
class PoolProblem(Record):
    """Buffers by number, in the order in which ties are broken: the first of equal ones first.

    `conflicts[starts[i]:starts[i + 1]]` are those that buffer `i` must not overlap with, if they
    are placed already. What follows a buffer begins at a multiple of its `follower_alignment`, and
    a buffer at one of its `alignment`. Buffer `i` may lie in the pools
    `candidates[pool_starts[i]:pool_starts[i + 1]]`, of `pool_bytes`, the first that has room.
    """

    nbytes: Array
    starts: Array
    conflicts: Array
    alignment: Array
    follower_alignment: Array
    pool_starts: Array
    candidates: Array
    pool_bytes: Array

    @property
    def degree(self) -> Int64Array:
        """The length of each list of conflicts."""
        return np.diff(self.starts)

    def conflicts_of(self, buffer: int) -> Int64Array:
        """Return the list of conflicts of a buffer."""
        return self.conflicts[self.starts[buffer] : self.starts[buffer + 1]]

    def candidates_of(self, buffer: int) -> list[int]:
        """Return the pools that a buffer may lie in."""
        listed = self.candidates[self.pool_starts[buffer] : self.pool_starts[buffer + 1]]
        return [int(pool) for pool in listed]


@dataclass(frozen=True, eq=False, slots=True)
class PoolPlacement:
    """Per buffer its pool, or `NOWHERE`, and its offset in there."""

    pool: Int64Array
    offset: Int64Array
    stopped: StopReason = StopReason.DONE

    def tops(self, problem: PoolProblem) -> Int64Array:
        """Return the size of each pool: where the highest buffer in there ends."""
        tops = np.zeros(len(problem.pool_bytes), np.int64)
        here = self.pool != NOWHERE
        np.maximum.at(tops, self.pool[here], (self.offset + problem.nbytes)[here])
        return tops


def by_size(problem: PoolProblem) -> Int64Array:
    """Return the order by decreasing size, then decreasing number of conflicts."""
    return np.lexsort([-problem.degree, -problem.nbytes])


def by_conflicts(problem: PoolProblem) -> Int64Array:
    """Return the order by decreasing number of conflicts, then decreasing size."""
    return np.lexsort([-problem.nbytes, -problem.degree])


def stack(problem: PoolProblem, order: Int64Array) -> PoolPlacement:
    """Return the placement of each buffer on top of all its conflicts that are placed.

    Holes are not filled. A buffer that fits into no pool is placed nowhere. TVM takes a pool that
    is full after all, if a later conflict leaves room in it, and overlaps; here it stays out.
    """
    count = len(problem.nbytes)
    pool, offset = np.full(count, NOWHERE), np.zeros(count, np.int64)
    for buffer in order.tolist():
        others = problem.conflicts_of(buffer)
        for candidate in problem.candidates_of(buffer):
            begin = _top(problem, buffer, others[pool[others] == candidate], offset)
            limit = problem.pool_bytes[candidate]
            if limit == UNBOUNDED or begin + problem.nbytes[buffer] <= limit:
                pool[buffer], offset[buffer] = candidate, begin
                break
    return PoolPlacement(pool, offset)


def _top(problem: PoolProblem, buffer: int, others: Int64Array, offset: Int64Array) -> int:
    """The lowest aligned offset for a buffer behind all other ones."""
    wanted = problem.follower_alignment[others]
    behind = -(-(offset[others] + problem.nbytes[others]) // wanted) * wanted
    alignment = int(problem.alignment[buffer])
    return -(-int(behind.max(initial=0)) // alignment) * alignment
