"""The hill climb of TVM's memory planner: swap what is below the top, keep what is better.

It draws the random numbers of glibc's `rand_r` from the seed 0, as TVM does on Linux.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.planning.pools import NOWHERE, UNBOUNDED, PoolPlacement, PoolProblem, by_size
from lowtide.planning.problem import Int64Array
from lowtide.records import dataclass
from lowtide.search.effort import Effort, SearchOptions, StopReason
from lowtide.search.kernels import Array, Record, kernel

ROUNDS: Final = 500
"""How many orders a climb tries."""

CLIMBS: Final = {Effort.FAST: 1, Effort.DEFAULT: 4, Effort.PROOF: 16}
"""How many climbs there are at most, each from another seed; TVM's is the first."""

MOST_VISITS: Final = 1_000_000_000
"""Rounds times squared buffers, of all climbs: thousands of buffers leave time for fewer rounds."""


def hill_climb(problem: PoolProblem, enough: int, search: SearchOptions) -> PoolPlacement:
    """Return the smallest placement that was accepted.

    Buffers go to the lowest holes in an order that begins with `by_size`. After each round a buffer
    below one that reaches the top of its pool changes places with another one. An order is accepted
    if its pools are smaller together, or by chance, the less so the larger they are and the later
    it is. The search ends when pools take `enough` bytes. Raises ValueError if nothing fits.
    """
    best = _Best(problem, enough, search)
    if not len(problem.nbytes):
        return best.result(StopReason.DONE)
    try:
        for seed in range(CLIMBS[search.effort]):
            climb = _Climb(problem, best, seed)
            for number in range(ROUNDS):
                if not best.has_time():
                    return best.result(StopReason.DEADLINE)
                if climb.round(number):
                    return best.result(StopReason.DONE)
                if best.rounds * len(problem.nbytes) ** 2 > MOST_VISITS:
                    return best.result(StopReason.LIMIT)
    except KeyboardInterrupt:
        return best.result(StopReason.INTERRUPT)
    return best.result(StopReason.LIMIT)


class _Best:
    """The best placement of all climbs, and when to stop."""

    def __init__(self, problem: PoolProblem, bound: int, search: SearchOptions) -> None:
        self.problem, self.bound, self.search = problem, bound, search
        self.enough = max(bound, search.capacity or 0)
        nowhere = np.full(len(problem.nbytes), NOWHERE)
        self.placement = PoolPlacement(nowhere, np.zeros(len(problem.nbytes), np.int64))
        self.nbytes: int | None = None
        self.rounds = 0
        self.deadline = search.begun()

    def has_time(self) -> bool:
        """Count a round, and return whether it may begin; the first always may."""
        self.rounds += 1
        return self.nbytes is None or not self.deadline.passed

    def take(self, state: _State, nbytes: int) -> bool:
        """Note a placement that was accepted; return whether it is small enough."""
        if self.nbytes is None or nbytes < self.nbytes:
            self.nbytes = nbytes
            self.placement = PoolPlacement(state.pool, state.offset)
            if self.search.progress:
                self.search.progress(nbytes, self.bound)
        return nbytes <= self.enough

    def result(self, stopped: StopReason) -> PoolPlacement:
        """Return the best placement, and why the search ended."""
        return PoolPlacement(self.placement.pool, self.placement.offset, stopped)


class _Random:
    """The numbers of glibc's `rand_r`."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, limit: int) -> int:
        """Return the next number, modulo `limit`."""
        found = 0
        for bits in (11, 10, 10):
            self.state = (self.state * 1103515245 + 12345) % 2**32
            found = found << bits ^ (self.state >> 16) % (1 << bits)
        return found % limit


class _State:
    """An order, and the placement that it leads to."""

    def __init__(self, order: Int64Array) -> None:
        self.order = order.copy()
        self.pool = np.full(len(order), NOWHERE)
        self.offset = np.zeros(len(order), np.int64)

    def copy(self) -> _State:
        """Return a state that is changed without this one."""
        other = _State(self.order)
        other.pool, other.offset = self.pool.copy(), self.offset.copy()
        return other


class _Climb:
    """The search, one round after another.

    `order` is changed by swaps; `state` was computed for what the order was then.
    """

    def __init__(self, problem: PoolProblem, best: _Best, seed: int) -> None:
        self.problem, self.best = problem, best
        self.random = _Random(seed)
        self.order = by_size(problem)
        self.position = np.zeros(len(self.order), np.int64)
        self.position[self.order] = np.arange(len(self.order))
        self.state = _State(self.order)
        self.tops = np.zeros(len(problem.pool_bytes), np.int64)
        self.fresh = True
        self.accepted_bytes = 0
        self.swapped = (0, 0)

    def round(self, number: int) -> bool:
        """Place all in the present order; return whether pools are small enough."""
        before, self.state, tops = self.state, self.state.copy(), self.tops
        lost = self._place()
        self.tops = PoolPlacement(self.state.pool, self.state.offset).tops(self.problem)
        total = int(self.tops.sum())
        if not self._accepts(total, lost, number):
            self._swap(*self.swapped)
            self.state, self.tops = before, tops
        elif not lost:
            self.accepted_bytes = total
            if self.best.take(self.state, total):
                return True
        self._change()
        return False

    def _accepts(self, total: int, lost: int, number: int) -> bool:
        accepted = self.accepted_bytes
        if not accepted or lost:
            return not accepted
        worse = total - accepted
        return worse < 0 or self.random.below(100) < 50 * worse // total // number

    def _place(self) -> int:
        """Place what comes from the first change of the order on; return how many fit nowhere."""
        problem, state, order = self.problem, self.state, self.order
        changed = np.flatnonzero(state.order != order)
        begin = 0 if self.fresh else int(changed[0]) if len(changed) else len(order)
        self.fresh = False
        state.order = order.copy()
        placed = order.copy()
        placed[:begin] = order[:begin][np.argsort(state.offset[order[:begin]], kind="stable")]
        placing = Placing(
            placed, mark=np.full(len(order), -1), pool=state.pool, offset=state.offset
        )
        _first_fit(problem, placing, order, begin, len(order))
        return int((state.pool == NOWHERE).sum())

    def _swap(self, one: int, two: int) -> None:
        """Swap the buffers at two positions of the order."""
        self.order[[one, two]] = self.order[[two, one]]
        self.position[self.order[[one, two]]] = one, two

    def _change(self) -> None:
        """Swap two buffers around one that reaches the top of its pool, if it has some before it.

        One has a conflict with that buffer and comes before it; so has the other one, or it comes
        before a buffer with which that has a conflict.
        """
        state, order = self.state, self.order
        tops = self.tops[state.pool]
        high = (state.offset + self.problem.nbytes == tops) & (state.pool != NOWHERE)
        if not high.any():
            raise ValueError("no buffer fits into the pools; larger pools are needed")
        places = np.sort(self.position[high])
        top = int(order[places[self.random.below(len(places))]])
        first, second = self._before(top)
        if not first.sum():
            return
        one = two = _pick(first, self.random)
        while two == one and ((first + second > 0).sum() > 1):
            distant = second.sum() and self.random.below(100) > 25
            two = _pick(second if distant else first, self.random)
            if first.sum() < 2 and second.sum() < 2:
                break
        if one != two:
            self.swapped = (one, two)
            self._swap(one, two)

    def _before(self, top: int) -> tuple[Int64Array, Int64Array]:
        """Per position, how often a neighbour of `top` is there, and one of its neighbours.

        Only those count that come before what they are neighbours of.
        """
        first, second = np.zeros((2, len(self.order)), np.int64)
        problem = self.problem
        _count_before(problem, top, self.position, first, second)
        return first, second


def _pick(counts: Int64Array, random: _Random) -> int:
    """Return a position by chance, each as likely as it counts."""
    ends = np.cumsum(counts)
    return int(np.searchsorted(ends, random.below(int(ends[-1])), side="right"))


@dataclass(frozen=True, eq=False, slots=True)
class Placing(Record):
    """A placement that is being made.

    `placed` lists the buffers that have a place, by offset. Per buffer: `mark` is the place in the
    order of the last buffer that it was seen to be in conflict with (-1: none), `pool` and `offset`
    are where it lies.
    """

    placed: Array
    mark: Array
    pool: Array
    offset: Array


@kernel
def _first_fit(problem: PoolProblem, placing: Placing, order: Array, begin: int, count: int) -> int:
    """Place the buffers from `begin` on in order, behind those that are placed; return how many."""
    placed = placing.placed
    offset = placing.offset
    for index in range(begin, count):
        buffer = order[index]
        for at in range(problem.starts[buffer], problem.starts[buffer + 1]):
            placing.mark[problem.conflicts[at]] = index
        placing.pool[buffer] = NOWHERE
        offset[buffer] = 0
        for option in range(problem.pool_starts[buffer], problem.pool_starts[buffer + 1]):
            candidate = problem.candidates[option]
            place = _lowest(problem, placing, index, buffer, candidate)
            if place >= 0:
                placing.pool[buffer] = candidate
                offset[buffer] = place
                break
        at = index
        while at > 0 and offset[placed[at - 1]] > offset[buffer]:
            placed[at] = placed[at - 1]
            at -= 1
        placed[at] = buffer
    return count - begin


@kernel
def _lowest(problem: PoolProblem, placing: Placing, index: int, buffer: int, candidate: int) -> int:
    """Return the lowest hole of a pool, or -1 where one in conflict leaves no room above it.

    Those in conflict are marked with `index`, which is also how many are placed.
    """
    offset = placing.offset
    size = problem.nbytes[buffer]
    own = problem.alignment[buffer]
    limit = problem.pool_bytes[candidate]
    if limit != UNBOUNDED and size > limit:
        return -1
    place = 0
    for at in range(index):
        other = placing.placed[at]
        if placing.mark[other] == index and placing.pool[other] == candidate:
            wanted = problem.follower_alignment[other]
            behind = (offset[other] + problem.nbytes[other] + wanted - 1) // wanted * wanted
            behind = (behind + own - 1) // own * own
            if limit != UNBOUNDED and behind + size > limit:
                return -1
            if behind > place and place + size > offset[other]:
                place = behind
    return place


@kernel
def _count_before(
    problem: PoolProblem, top: int, position: Array, first: Array, second: Array
) -> int:
    """Count in `first` and `second`, by position, the neighbours of `top` and theirs."""
    starts = problem.starts
    conflicts = problem.conflicts
    for at in range(starts[top], starts[top + 1]):
        one = conflicts[at]
        if position[one] < position[top]:
            first[position[one]] += 1
        for next_at in range(starts[one], starts[one + 1]):
            two = position[conflicts[next_at]]
            if two < position[one]:
                second[two] += 1
    return 0
