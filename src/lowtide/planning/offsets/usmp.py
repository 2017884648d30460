"""The planners of TVM's unified static memory planner, on lifetimes, in one pool without limit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from lowtide.planning.hill_climb import hill_climb
from lowtide.planning.plans import Packing, arena_packing
from lowtide.planning.pools import UNBOUNDED, PoolProblem, by_conflicts, by_size, stack
from lowtide.planning.problem import Int64Array, PackingProblem, max_live
from lowtide.planning.registry import OffsetStrategy
from lowtide.search.effort import SearchOptions

MOST_CONFLICTS: Final = 60_000_000
"""Lists of more conflicts take too much memory."""


def stacked(
    problem: PackingProblem, _: SearchOptions, *, order: Callable[[PoolProblem], Int64Array]
) -> Packing:
    """Return the packing that puts buffers on top of all that live with them and come before.

    Raises ValueError where more than `MOST_CONFLICTS` pairs live at the same time.
    """
    pools = pool_problem(problem)
    return _packing(problem, stack(pools, order(pools)).offset)


def climbed(problem: PackingProblem, search: SearchOptions) -> Packing:
    """Return the packing that the hill climb accepts last; raises ValueError as `stacked` does."""
    found = hill_climb(pool_problem(problem), max_live(problem), search)
    packing = _packing(problem, found.offset)
    return Packing(packing.region, packing.offset, packing.arena_bytes, stopped=found.stopped)


def _packing(problem: PackingProblem, offset: Int64Array) -> Packing:
    return arena_packing(problem, offset[::-1])


def pool_problem(problem: PackingProblem) -> PoolProblem:
    """Return the problem with lists of conflicts, buffers in reverse: ties go to the last one."""
    first, last = (x[::-1] for x in problem.spans())
    count = len(problem)
    before = np.searchsorted(np.sort(last), first, side="left")
    degree = np.searchsorted(np.sort(first), last, side="right") - before - 1
    if degree.sum() > MOST_CONFLICTS:
        raise ValueError(
            f"{degree.sum():,} conflicts are too many; expected {MOST_CONFLICTS:,} at most"
        )
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(degree)])
    conflicts = np.zeros(int(starts[-1]), np.int64)
    for buffer in range(count):
        together = np.flatnonzero((first <= last[buffer]) & (last >= first[buffer]))
        conflicts[starts[buffer] : starts[buffer + 1]] = together[together != buffer]
    return PoolProblem(
        np.ascontiguousarray(problem.nbytes[::-1]),
        starts,
        conflicts,
        np.ascontiguousarray(problem.alignment[::-1]),
        np.ones(count, np.int64),
        np.arange(count + 1),
        np.zeros(count, np.int64),
        np.array([UNBOUNDED], np.int64),
    )


def _strategy(
    name: str, place: Callable[[PackingProblem, SearchOptions], Packing], sentence: str
) -> OffsetStrategy:
    return OffsetStrategy(name, place, sentence, "TVM, USMP", frozenset({"alignment"}))


STRATEGIES: Final = (
    _strategy(
        "usmp_by_size",
        partial(stacked, order=by_size),
        "Largest first, on top of all that live at the same time; holes stay.",
    ),
    _strategy(
        "usmp_by_conflicts",
        partial(stacked, order=by_conflicts),
        "Most conflicts first, on top of all that live at the same time; holes stay.",
    ),
    _strategy("usmp_hill_climb", climbed, "First fit in an order that random swaps improve."),
)
