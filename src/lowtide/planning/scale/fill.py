"""Filling an arena from below.

The lowest valley of the skyline is filled next, as in the best-fit heuristic of Burke, Kendall and
Whitwell ("A New Placement Heuristic for the Orthogonal Stock-Cutting Problem", 2004), here with
rectangles that cannot move in time. A valley that no buffer fits into is given up. Two things are
new. A buffer has to cover the step at which least may be wasted, the bytes of the buffers to come
counted. And time is measured by the bytes live in it, so that room is left free away from the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.planning.problem import ARENA, FREE, Int64Array, PackingProblem
from lowtide.planning.scale import valleys
from lowtide.planning.scale.trees import range_tree_of, tree_of
from lowtide.planning.scale.valleys import Skyline, ValleyArena, ValleyBuffers
from lowtide.records import dataclass

BLOCK: Final = 50_000
"""Valleys to fill before Python looks whether the user wants to stop."""

TICKS: Final = 1_000
"""How long the step is at which most is live; one with little is 1."""


@dataclass(frozen=True, slots=True)
class Manner:
    """The preference among buffers for a valley.

    `reach` is how much of a valley may stay free, by the length of the shortest buffer that is
    thought of; of so many buffers, `tries`, the best is taken. Larger ones are preferred by `roots`
    square roots of their size, not at all where that is None. The length of a step is that part of
    the peak which is live, squared `squares` times; all are equally long where that is None. With a
    `seed`, what is preferred is changed by chance, by a factor of up to two.
    """

    reach: float
    tries: int
    roots: int | None
    squares: int | None
    seed: int | None = None


MANNERS: Final = (
    Manner(0.1, 500, 1, 5),
    Manner(0.02, 500, 2, 5),
    Manner(0.3, 64, None, 4),
    Manner(0.1, 500, 3, 4),
    Manner(0.1, 500, 2, 5),
    Manner(0.3, 200, None, None),
    Manner(0.03, 500, 2, 4),
    Manner(1.0, 200, 3, 4),
)


def manners(count: int) -> Iterator[Manner]:
    """Yield manners to try: those known to be good, then the same with some chance."""
    for number in range(count):
        turn, which = divmod(number, len(MANNERS))
        yield replace(MANNERS[which], seed=turn) if turn else MANNERS[which]


@dataclass(frozen=True, eq=False, slots=True)
class Filling:
    """Offsets, None where they would be over the limit; and the work, in buffers looked at."""

    offsets: Int64Array | None
    work: int


def fill(
    problem: PackingProblem, manner: Manner, limit: int, check: Callable[[], None] | None = None
) -> Filling:
    """Return offsets in the arena; it ends as soon as an arena over `limit` is certain.

    Steps have to be numbered from 0, and buffers to have bytes. Those with a fixed offset keep it,
    what lies below them stays free, and no other buffer lies in a region. A buffer is taken as live
    from its first step to its last. `check` is called now and then: it may raise an exception to
    end the work.
    """
    floor = _floor(problem)
    free = np.flatnonzero(problem.fixed_offset == FREE)
    first, last = (column[free] for column in problem.spans())
    nbytes = problem.nbytes[free]
    profile = floor + _profile(first, last, nbytes, len(floor))
    clock = _clock(profile, manner)
    order, group = _groups(first, last + 1, clock)
    first, behind = first[order], last[order] + 1
    by_first = np.argsort(first, kind="stable")
    buffers = ValleyBuffers(
        groups=len(group) - 1,
        group=group,
        begin=first,
        end=behind,
        size=nbytes[order],
        alignment=problem.alignment[free[order]],
        value=_values(nbytes[order], manner),
        rank=_places(by_first),
        offset=np.zeros(len(order), np.int64),
    )
    arena = ValleyArena(
        buffers=buffers,
        skyline=_skyline(floor),
        clock=clock,
        ends=tree_of(behind),
        ends_by_rank=tree_of(behind[by_first]),
        earlier=np.searchsorted(first[by_first], np.arange(len(floor) + 1)),
        slack=range_tree_of(limit - profile),
        reach=manner.reach,
        tries=manner.tries,
        left=np.array([len(order)]),
        work=np.zeros(1, np.int64),
    )
    result = _fill(arena, check)
    offsets = problem.fixed_offset.copy()
    offsets[free[order]] = buffers.offset
    return Filling(offsets if result == valleys.FILLED else None, int(arena.work[0]))


def _fill(arena: ValleyArena, check: Callable[[], None] | None) -> int:
    while True:
        if check is not None:
            check()
        result = valleys.fill(arena, BLOCK)
        if result != valleys.MORE:
            return result


def _floor(problem: PackingProblem) -> Int64Array:
    """The address behind all fixed buffers that lie in the arena at each step.

    Rows are two windows of a power of two each; from the widest down, a window is halved.
    """
    tops = np.where(problem.region_of == ARENA, problem.fixed_offset + problem.nbytes, 0)
    rows = np.flatnonzero((problem.fixed_offset != FREE)[problem.item])
    first, last, top = problem.first[rows], problem.last[rows], tops[problem.item[rows]]
    level = np.frexp((last - first + 1).astype(np.float64))[1] - 1
    steps = int(problem.last.max(initial=-1)) + 1
    floor = np.zeros(steps, np.int64)
    for exponent in range(int(level.max(initial=-1)), -1, -1):
        chosen, width = level == exponent, 1 << exponent
        np.maximum.at(floor, first[chosen], top[chosen])
        np.maximum.at(floor, last[chosen] + 1 - width, top[chosen])
        half = width >> 1
        if half:
            floor[half:] = np.maximum(floor[half:], floor[:-half])
    return floor


def _profile(first: Int64Array, last: Int64Array, nbytes: Int64Array, steps: int) -> Int64Array:
    change = np.zeros(steps + 1, np.int64)
    np.add.at(change, first, nbytes)
    np.subtract.at(change, last + 1, nbytes)
    return np.cumsum(change)[:steps]


def _clock(profile: Int64Array, manner: Manner) -> Int64Array:
    """When each step begins, and the last one ends, in ticks."""
    ticks = np.full(len(profile), TICKS, np.int64)
    if manner.squares is not None:
        part = profile / max(1, int(profile.max(initial=0)))
        for _ in range(manner.squares):
            part *= part
        ticks = 1 + (part * TICKS).astype(np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(ticks)])


def _groups(begin: Int64Array, end: Int64Array, clock: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The buffers by length, between powers of two, then by first step; where each group begins."""
    length = np.frexp((clock[end] - clock[begin]).astype(np.float64))[1] - 1
    order = np.lexsort([begin, length])
    return order, np.searchsorted(length[order], np.arange(int(length.max(initial=0)) + 2))


def _values(nbytes: Int64Array, manner: Manner) -> npt.NDArray[np.float64]:
    """What it is worth to place each buffer soon."""
    values = np.ones(len(nbytes)) if manner.roots is None else nbytes.astype(np.float64)
    for _ in range(manner.roots or 0):
        values = np.sqrt(values)
    if manner.seed is not None:
        values *= 1 + np.random.default_rng(manner.seed).random(len(nbytes))
    return values


def _places(order: Int64Array) -> Int64Array:
    """The place of each number in an order."""
    places = np.zeros(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _skyline(floor: Int64Array) -> Skyline:
    """The segments of a floor, all of which wait to be filled."""
    steps = len(floor)
    begins = np.flatnonzero(np.diff(floor, prepend=-1))
    after, before = np.full(steps, valleys.NONE), np.full(steps, valleys.NONE)
    after[begins] = np.append(begins[1:], steps)
    before[begins[1:]] = begins[:-1]
    heap, where = np.zeros(steps, np.int64), np.full(steps, valleys.NONE)
    lowest = begins[np.argsort(floor[begins], kind="stable")]
    heap[: len(lowest)], where[lowest] = lowest, np.arange(len(lowest))
    return Skyline(steps, floor.copy(), after, before, heap, where, np.array([len(lowest)]))
