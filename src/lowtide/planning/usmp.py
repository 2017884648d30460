"""TVM's unified static memory planner: buffers by name, with lists of conflicts, in pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final

import numpy as np

from lowtide.planning.hill_climb import hill_climb
from lowtide.planning.pools import (
    NOWHERE,
    UNBOUNDED,
    PoolPlacement,
    PoolProblem,
    by_conflicts,
    by_size,
    stack,
)
from lowtide.planning.problem import TensorUsageRecord
from lowtide.planning.registry import nearest
from lowtide.records import dataclass
from lowtide.search.effort import SearchOptions, StopReason


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Per buffer its pool and its offset in there; sizes of pools, and of all together, in bytes.

    The size of a pool is where the highest buffer in it ends.
    """

    offsets: dict[str, int]
    pools: dict[str, str]
    pool_sizes: dict[str, int]
    stopped: StopReason

    @property
    def workspace(self) -> int:
        """The bytes of all pools together."""
        return sum(self.pool_sizes.values())


Place = Callable[[PoolProblem, int, SearchOptions], PoolPlacement]

_ALGORITHMS: Final[Mapping[str, Place]] = {
    "greedy_by_size": lambda problem, _, __: stack(problem, by_size(problem)),
    "greedy_by_conflicts": lambda problem, _, __: stack(problem, by_conflicts(problem)),
    "hill_climb": hill_climb,
}


def plan(
    sizes: Mapping[str, int],
    conflicts: Mapping[str, Iterable[str]],
    algorithm: str = "greedy_by_size",
    *,
    pools: int | Mapping[str, int | None] | None = None,
    pool_candidates: Mapping[str, Sequence[str]] | None = None,
    alignment: int | Mapping[str, int] = 1,
    memory_pressure: int = 0,
    search: SearchOptions | None = None,
) -> PoolPlan:
    """Return where buffers lie so that none overlaps with one that it is in conflict with.

    `algorithm` is "greedy_by_size", "greedy_by_conflicts" or "hill_climb"; the last one stops when
    all pools take `memory_pressure` bytes. `conflicts` need not be symmetric: a buffer keeps off
    those in its own list that are placed before it. `pools` are sizes by name, None where there is
    no limit; a number is that of one pool for all, and without it that has no limit. A buffer goes
    to the first of its `pool_candidates`, or of all pools, that has room. What follows a buffer
    begins at a multiple of the alignment of that buffer. Ties go to the name that is last in the
    alphabet. Raises ValueError for unknown names, sizes below 0, alignments below 1, and buffers
    that fit into no pool.
    """
    if algorithm not in _ALGORITHMS:
        raise nearest(algorithm, list(_ALGORITHMS), "planner of conflicts")
    names = sorted(sizes, reverse=True)
    limits = pools if isinstance(pools, Mapping) else {"workspace": pools}
    chosen = {name: list((pool_candidates or {}).get(name, limits)) for name in names}
    wanted = [alignment if isinstance(alignment, int) else alignment.get(x, 1) for x in names]
    if min([*sizes.values(), *wanted, 0]) < 0 or 0 in wanted:
        raise ValueError("expected sizes that are not negative, and alignments above 0")
    lists = [list(conflicts.get(name, ())) for name in names]
    starts, listed = _indexed(lists, names, "buffer")
    pool_starts, candidates = _indexed(list(chosen.values()), list(limits), "pool")
    problem = PoolProblem(
        np.array([sizes[name] for name in names], np.int64),
        starts,
        listed,
        np.ones(len(names), np.int64),
        np.array(wanted, np.int64),
        pool_starts,
        candidates,
        np.array([UNBOUNDED if x is None else x for x in limits.values()], np.int64),
    )
    found = _ALGORITHMS[algorithm](problem, memory_pressure, search or SearchOptions())
    return _named(problem, found, names, list(limits))


def _indexed(
    lists: Sequence[Sequence[str]], names: Sequence[str], what: str
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Where each list begins, and the numbers of the names in all of them."""
    numbers = {name: number for number, name in enumerate(names)}
    for name in chain(*lists):
        if name not in numbers:
            raise nearest(name, names, what)
    starts = np.array([0, *accumulate([len(x) for x in lists])], np.int64)
    return starts, np.array([numbers[name] for name in chain(*lists)], np.int64)


def _named(
    problem: PoolProblem, found: PoolPlacement, names: Sequence[str], pools: Sequence[str]
) -> PoolPlan:
    lost = [names[x] for x in np.flatnonzero(found.pool == NOWHERE).tolist()]
    if lost:
        raise ValueError(f"pool space exceeded: {', '.join(lost[:5])} fit into no pool")
    rows = list(zip(names, found.offset.tolist(), found.pool.tolist(), strict=True))
    tops = dict(zip(pools, found.tops(problem).tolist(), strict=True))
    offsets = {name: offset for name, offset, _ in rows}
    return PoolPlan(offsets, {x: pools[pool] for x, _, pool in rows}, tops, found.stopped)


def conflicts_of_records(records: Sequence[TensorUsageRecord]) -> dict[str, list[str]]:
    """Return, by the number of the record as name, which tensors live at the same time."""
    first = np.array([record.first_task for record in records], np.int64)
    last = np.array([record.last_task for record in records], np.int64)
    found = {}
    for number in range(len(records)):
        together = np.flatnonzero((first <= last[number]) & (last >= first[number]))
        found[str(number)] = [str(other) for other in together.tolist() if other != number]
    return found
