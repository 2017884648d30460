"""Objects as chains of tensors, from a flow of least cost.

Each tensor either starts an object, at the cost of its size, or takes over the object of a tensor
that ended before it begins, at the cost of what it is larger than that tensor: a heuristic, since
an object may already be larger than its last tensor. The costs of all tensors are a flow problem
(TensorFlow Lite GPU delegate), solved by successive shortest paths.

The graph has a vertex for each tensor as the one taken over from (left) and as the one that takes
over (right), a source and a sink, and edges of capacity 1:

    source -> left j, cost 0            source -> right i, cost size i
    left j -> right i, cost max(0, size i - size j), where j ends before i begins
    right i -> sink, cost 0

It is not stored: as records are in order of first task, `left j` has edges to all tensors from
`begin[j]` on, and the flow is given by `giver[i]`, where the unit that enters `right i` comes from.
Time grows with the cube of the number of tensors: 1,000 take seconds, 10,000 would take an hour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.planning.objects.task_profile import nbytes_of, shared
from lowtide.planning.plans import ObjectsAssignment
from lowtide.planning.problem import TensorUsageRecord
from lowtide.planning.registry import ObjectOptions, ObjectStrategy
from lowtide.records import dataclass
from lowtide.search.kernels import Array, Record, kernel

NEW: Final = -1
"""In place of a giver: the tensor starts an object."""

UNSERVED: Final = -2
"""In place of a giver: no unit of flow enters the tensor yet."""

INFINITE: Final = 2**62

_NATIVE_FROM: Final = 50
"""From this many tensors on, compiling the search pays for itself."""


def min_cost_flow(
    records: Sequence[TensorUsageRecord], options: ObjectOptions
) -> ObjectsAssignment:
    """Return the assignment of the cheapest flow; of equal ones the one that the original finds.

    Costs are exact, where those of the original wrap around at 2 GiB.
    """
    giver = _solve(records)
    taker = {by: tensor for tensor, by in enumerate(giver) if by != NEW}
    ids = [-1] * len(records)
    objects = 0
    for start, by in enumerate(giver):
        if by != NEW:
            continue
        tensor: int | None = start
        while tensor is not None:
            ids[tensor] = objects
            tensor = taker.get(tensor)
        objects += 1
    return shared(records, ids, objects)


@dataclass(frozen=True, eq=False, slots=True)
class Chains(Record):
    """A flow of the tensors, of which there are `count`, in order of first task.

    Per tensor: its bytes; in `begin` the first tensor that begins when it is over; `giver`, the
    tensor whose object it takes over, NEW or UNSERVED; `gives`, 1 where its own object is taken
    over.
    """

    count: int
    nbytes: Array
    begin: Array
    giver: Array
    gives: Array


@dataclass(frozen=True, eq=False, slots=True)
class Distances(Record):
    """The distance of each vertex from the source; one that shrank in a round waits for the next.

    Per vertex: its `distance`, the vertex `previous` to it on a cheapest path, and the last round
    in which it was `queued`. `queue` and `next_queue` list vertices.
    """

    distance: Array
    previous: Array
    queued: Array
    queue: Array
    next_queue: Array


def _solve(records: Sequence[TensorUsageRecord]) -> list[int]:
    """Per tensor the one whose object it takes over, or `NEW`."""
    n = len(records)
    firsts = [record.first_task for record in records]
    chains = Chains(
        count=n,
        nbytes=np.array([nbytes_of(record) for record in records], np.int64),
        begin=np.array([bisect_right(firsts, record.last_task) for record in records], np.int64),
        giver=np.full(n, UNSERVED, np.int64),
        gives=np.zeros(n, np.int64),
    )
    distances = Distances(*(np.zeros(2 * n + 2, np.int64) for _ in range(5)))
    augment_flow = augment if n >= _NATIVE_FROM else augment.python
    while augment_flow(chains, distances):
        continue
    givers: list[int] = chains.giver.tolist()
    return givers


@kernel
def augment(chains: Chains, distances: Distances) -> int:
    """Send one more unit along a cheapest path; return 0 if there is none.

    Vertices are `left` 0 to n - 1, `right` n to 2n - 1, the source 2n and the sink 2n + 1. Those
    that came closer in one round are scanned in the next, in the order in which they did.
    """
    n = chains.count
    queue = distances.queue
    for v in range(2 * n + 2):
        distances.distance[v] = INFINITE
        distances.queued[v] = 0
    distances.distance[2 * n] = 0
    queue[0] = 2 * n
    length = 1
    turn = 0
    while length > 0:
        turn += 1
        found = 0
        for at in range(length):
            found = scan(queue[at], chains, distances, turn, found)
        for at in range(found):
            queue[at] = distances.next_queue[at]
        length = found
    if distances.distance[2 * n + 1] == INFINITE:
        return 0
    return send(chains, distances.previous)


@kernel
def scan(v: int, chains: Chains, distances: Distances, turn: int, found: int) -> int:
    """Follow the edges with room from a vertex; return how many vertices are queued then."""
    n = chains.count
    nbytes = chains.nbytes
    giver = chains.giver
    here = distances.distance[v]
    if v < n:
        for i in range(chains.begin[v], n):
            if giver[i] != v:
                reached = here + max(0, nbytes[i] - nbytes[v])
                found = reach(n + i, reached, v, distances, turn, found)
    elif v < 2 * n:
        by = giver[v - n]
        if by == UNSERVED:
            found = reach(2 * n + 1, here, v, distances, turn, found)
        elif by != NEW:
            back = here - max(0, nbytes[v - n] - nbytes[by])
            found = reach(by, back, v, distances, turn, found)
    elif v == 2 * n:
        for i in range(n):
            if chains.gives[i] == 0:
                found = reach(i, 0, v, distances, turn, found)
            if giver[i] != NEW:
                found = reach(n + i, nbytes[i], v, distances, turn, found)
    else:
        for i in range(n):
            if giver[i] != UNSERVED:
                found = reach(n + i, here, v, distances, turn, found)
    return found


@kernel
def reach(u: int, reached: int, v: int, distances: Distances, turn: int, found: int) -> int:
    """Note that `u` is so far from the source by way of `v`; return how many are queued then."""
    if distances.distance[u] <= reached:
        return found
    distances.distance[u] = reached
    distances.previous[u] = v
    if distances.queued[u] == turn:
        return found
    distances.queued[u] = turn
    distances.next_queue[found] = u
    return found + 1


@kernel
def send(chains: Chains, previous: Array) -> int:
    """Send a unit along the path that leads to the sink; return 1."""
    n = chains.count
    v = 2 * n + 1
    while v != 2 * n:
        u = previous[v]
        if v < n:
            if u == 2 * n:
                chains.gives[v] = 1
        elif v < 2 * n:
            if u == 2 * n:
                chains.giver[v - n] = NEW
            elif u < n:
                chains.giver[v - n] = u
        v = u
    return 1


STRATEGIES: Final = (
    ObjectStrategy(
        "mincostflow",
        min_cost_flow,
        "chains of tensors that cost least, growth counted from each tensor to the next",
        "TensorFlow Lite GPU delegate",
    ),
)
