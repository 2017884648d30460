"""Objects given out in order of first task, the closest in size first.

An object of bytes grows where the tensor is larger than it, and no new one is made while another
one is free. A reallocation graph restricts which tensor may follow which one in an object. Objects
of images, with two or three extents, do not grow.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from math import prod
from typing import Final

from lowtide.planning.objects.task_profile import ObjectsInUse, nbytes_of, shared, shared_alike
from lowtide.planning.plans import ObjectsAssignment
from lowtide.planning.problem import TensorUsageRecord
from lowtide.planning.registry import ObjectOptions, ObjectStrategy, ReallocationGraph

Pool = list[tuple[int, int]]
"""Free objects as (size, number), sorted."""


def greedy_in_order(
    records: Sequence[TensorUsageRecord], options: ObjectOptions
) -> ObjectsAssignment:
    """Return the assignment of each tensor to the free object that is closest in size.

    Raises ValueError for a reallocation graph of another number of tensors, and for one with sizes
    of several extents.
    """
    graph = options.reallocation_graph
    if graph is not None and len(graph) != len(records):
        raise ValueError(f"a reallocation graph of {len(graph)} tensors, expected {len(records)}")
    if not records or not isinstance(records[0].size, tuple):
        return _grown(records, graph)
    if graph is not None:
        raise ValueError("a reallocation graph is for sizes in bytes, not for extents")
    return _covering(records)


def _grown(
    records: Sequence[TensorUsageRecord], graph: ReallocationGraph | None
) -> ObjectsAssignment:
    in_use = ObjectsInUse()
    pool: Pool = []
    sizes: list[int] = []
    occupant: list[int] = []
    ids: list[int] = []
    for tensor, record in enumerate(records):
        for number in in_use.released(record.first_task):
            insort(pool, (sizes[number], number))
        nbytes = nbytes_of(record)
        if graph is None:
            chosen = _closest(pool, nbytes)
        else:
            chosen = _closest_related(pool, nbytes, occupant, graph[tensor])
        if chosen is None:
            target = len(sizes)
            sizes.append(nbytes)
            occupant.append(tensor)
        else:
            target = pool.pop(chosen)[1]
            sizes[target] = max(sizes[target], nbytes)
            occupant[target] = tensor
        ids.append(target)
        in_use.occupy(target, record.last_task)
    return shared(records, ids, len(sizes))


def _closest(pool: Pool, nbytes: int) -> int | None:
    """The place in the pool of the object to take, None where the pool is empty.

    It is the smallest that is large enough, or the largest that is not where that is closer.
    """
    if not pool:
        return None
    above = bisect_left(pool, (nbytes, -1))
    if above == len(pool):
        return above - 1
    if above and nbytes - pool[above - 1][0] < pool[above][0] - nbytes:
        return above - 1
    return above


def _closest_related(
    pool: Pool, nbytes: int, occupant: Sequence[int], related: Sequence[int]
) -> int | None:
    """The place of the closest object whose last tensor is related, None where there is none."""
    allowed = frozenset(related)
    places = [place for place, (_, number) in enumerate(pool) if occupant[number] in allowed]
    return min(places, key=lambda place: abs(pool[place][0] - nbytes), default=None)


def _covering(records: Sequence[TensorUsageRecord]) -> ObjectsAssignment:
    """Sizes of several extents: the closest in volume of the objects that cover the tensor."""
    in_use = ObjectsInUse()
    pool: list[int] = []
    sizes: list[tuple[int, ...]] = []
    ids: list[int] = []
    for record in records:
        pool += in_use.released(record.first_task)
        extents = record.size if isinstance(record.size, tuple) else (record.size,)
        volume = prod(extents)
        covering = [number for number in pool if _covers(sizes[number], extents)]
        if covering:
            target = min(covering, key=lambda number: abs(prod(sizes[number]) - volume))
            pool.remove(target)
        else:
            target = len(sizes)
            sizes.append(extents)
        ids.append(target)
        in_use.occupy(target, record.last_task)
    return shared_alike(records, ids, sizes)


def _covers(extents: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(extent >= least for extent, least in zip(extents, other, strict=True))


STRATEGIES: Final = (
    ObjectStrategy(
        "greedy_in_order",
        greedy_in_order,
        "in order of first task, the free object closest in size, which grows where needed",
        "TensorFlow Lite GPU delegate",
        dimensions=frozenset({1, 2, 3}),
        reallocation=True,
    ),
)
