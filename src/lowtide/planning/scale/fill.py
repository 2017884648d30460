"""Filling an arena from below.

The lowest valley of the skyline is filled next, as in the best-fit heuristic of Burke, Kendall and
Whitwell ("A New Placement Heuristic for the Orthogonal Stock-Cutting Problem", 2004), here with
rectangles that cannot move in time. Two things are new: a buffer has to cover the step at which
least may be wasted, the bytes of the buffers to come counted; and time is measured by how much is
live, so that room is left free away from the peak. A valley that no buffer fits into is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lowtide.planning.problem import Int64Array, PackingProblem, live_profile
from lowtide.planning.scale import valleys
from lowtide.planning.scale.trees import tree_of

BLOCK: Final = 50_000
"""Valleys to fill before Python looks whether the user wants to stop."""

TICKS: Final = 1_000
"""How long the step is at which most is live; one with little is 1."""


@dataclass(frozen=True, slots=True)
class Manner:
    """What is best for a valley.

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
    """Return the offsets of all buffers; it ends as soon as an arena over `limit` is certain.

    Steps have to be numbered from 0, buffers to have bytes, and to be free to lie anywhere in the
    arena. A buffer is taken as live from its first step to its last. `check` is called now and
    then: it may raise an exception to end the work.
    """
    first, last = problem.spans()
    spans = _spans(problem, first, last)
    profile = live_profile(spans)
    clock = _clock(profile, manner)
    order, group = _groups(first, last + 1, clock)
    ends = tree_of(last[order] + 1)
    by_first = np.argsort(first[order], kind="stable")
    rank = np.zeros(len(order), np.int64)
    rank[by_first] = np.arange(len(order))
    slack = tree_of(limit - profile)
    steps = len(profile)
    state = np.zeros(valleys.STATE_FIELDS, np.int64)
    state[valleys.LEFT], state[valleys.STEPS] = len(order), steps
    state[valleys.GROUPS], state[valleys.TRIES] = len(group) - 1, manner.tries
    state[valleys.LEAVES], state[valleys.STEP_LEAVES] = len(ends) // 2, len(slack) // 2
    offset = np.zeros(len(order), np.int64)
    columns: tuple[Any, ...] = (
        first[order],
        last[order] + 1,
        problem.nbytes[order],
        problem.alignment[order],
        _values(problem.nbytes[order], manner),
        group,
        clock,
        ends,
        rank,
        np.searchsorted(first[order][by_first], np.arange(len(profile) + 1)),
        tree_of(last[order][by_first] + 1),
        slack,
        np.zeros_like(slack),
        *_flat(steps, state),
        offset,
    )
    result = valleys.MORE
    while result == valleys.MORE:
        if check is not None:
            check()
        result = valleys.fill(BLOCK, state, manner.reach, *columns)
    work = int(state[valleys.WORK])
    if result == valleys.TOO_HIGH:
        return Filling(None, work)
    offsets = np.zeros(len(order), np.int64)
    offsets[order] = offset
    return Filling(offsets, work)


def _spans(problem: PackingProblem, first: Int64Array, last: Int64Array) -> PackingProblem:
    return PackingProblem(
        problem.nbytes,
        problem.alignment,
        np.arange(len(problem)),
        first,
        last,
        problem.fixed_offset,
        problem.region_of,
        problem.region_bytes,
    )


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


def _flat(steps: int, state: Int64Array) -> tuple[Int64Array, ...]:
    """A skyline of one segment, which waits to be filled: height, neighbours, heap, place in it."""
    height = np.zeros(steps, np.int64)
    after, before = np.full(steps, valleys.NONE), np.full(steps, valleys.NONE)
    heap, where = np.zeros(steps, np.int64), np.full(steps, valleys.NONE)
    after[0], where[0], state[valleys.WAITING] = steps, 0, 1
    return height, after, before, heap, where
