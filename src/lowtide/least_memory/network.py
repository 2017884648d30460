"""Minimum cuts of one large network, each with further arcs without a limit at its source and sink.

What arcs without a limit lead to from the source lies on its side of every cut, and what they lead
from to the sink lies on that one. Of the other nodes those count that lie on a path between the
two. What is left of a network is small, and only that is given to an algorithm for flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import ArrayLike

from lowtide.records import dataclass
from lowtide.search.kernels import Array, Record, kernel

SOURCE: Final = 0
SINK: Final = 1

_MANY: Final = 4_000
"""Networks of fewer arcs are cut as they are, in less time than it takes to load compiled code."""


@dataclass(frozen=True, eq=False, slots=True)
class NodeArcs(Record):
    """Arcs by the node that they leave, or in the other direction by the one they lead to.

    Those of node `i` are `arc[begin[i]:begin[i + 1]]`, and lead to the nodes in `to`, by number of
    the arc; `capacity` is by number as well.
    """

    begin: Array
    arc: Array
    to: Array
    capacity: Array


@final
class MomentNetwork:
    """Arcs between so many nodes: tails, heads, and capacities, where `endless` is no limit."""

    def __init__(self, nodes: int, arcs: tuple[Array, Array, Array], endless: int) -> None:
        self.nodes, self.endless = nodes, endless
        self.tails, self.heads, self.capacity = arcs
        self._forward = _sorted(self.tails, nodes)
        self._backward = _sorted(self.heads, nodes)

    def __len__(self) -> int:
        return len(self.tails)

    def cut(self, begins: ArrayLike, ends: ArrayLike, without: Sequence[int] = ()) -> int:
        """Return the least capacity between source and sink, some nodes being one with either.

        `begins` go with the source, `ends` with the sink; arcs in `without` count for nothing.
        """
        if len(self) >= _MANY:
            capacity = self._capacity_without(without)
            side = self._sides(np.append(begins, SOURCE), np.append(ends, SINK), capacity)
            if side is not None:
                tails, heads = side[self.tails], side[self.heads]
                kept = (tails >= 0) & (heads >= 0) & (tails != heads) & (capacity > 0)
                kept &= (tails != SINK) & (heads != SOURCE)
                return int(_flow(tails[kept], heads[kept], capacity[kept]).optimal_flow())
        return int(self.solved(begins, ends, without).optimal_flow())

    def solved(self, begins: ArrayLike, ends: ArrayLike, without: Sequence[int] = ()) -> Any:
        """Return a solver that has a flow of that capacity; the arcs of the network come first."""
        first, last = np.asarray(begins, np.int64), np.asarray(ends, np.int64)
        return _flow(
            np.concatenate([self.tails, np.full(len(first), SOURCE), last]),
            np.concatenate([self.heads, first, np.full(len(last), SINK)]),
            np.concatenate(
                [self._capacity_without(without), np.full(len(first) + len(last), self.endless)]
            ),
        )

    def _capacity_without(self, arcs: Sequence[int]) -> Array:
        """The capacities, with some arcs that count for nothing."""
        if not len(arcs):
            return self.capacity
        capacity = self.capacity.copy()
        capacity[list(arcs)] = 0
        return capacity

    def _sides(self, begins: Array, ends: Array, capacity: Array) -> Array | None:
        """By node its number in a small network, -1 where no path between the two sides leads.

        None where the sides cannot be kept apart.
        """
        forward = NodeArcs(*self._forward, self.heads, capacity)
        backward = NodeArcs(*self._backward, self.tails, capacity)
        at_source, at_sink = np.zeros((2, self.nodes), np.int64)
        queue = np.zeros(self.nodes, np.int64)
        reach(forward, at_source, _first(queue, begins, at_source), queue, self.endless)
        reach(backward, at_sink, _first(queue, ends, at_sink), queue, self.endless)
        if np.any(at_source & at_sink):
            return None
        behind, before = at_source | at_sink, at_source | at_sink
        reach(forward, behind, _begun(queue, at_source), queue, 1)
        reach(backward, before, _begun(queue, at_sink), queue, 1)
        between = np.flatnonzero(behind & before & ~(at_source | at_sink))
        side = np.full(self.nodes, -1, np.int64)
        side[at_source != 0], side[at_sink != 0] = SOURCE, SINK
        side[between] = 2 + np.arange(len(between))
        return side


def _sorted(ends: Array, nodes: int) -> tuple[Array, Array]:
    """Where the arcs of each node begin, and the arcs by their nodes."""
    order = np.argsort(ends, kind="stable")
    return np.searchsorted(ends[order], np.arange(nodes + 1)), order


def _first(queue: Array, nodes: Array, seen: Array) -> int:
    """Put nodes into the queue, and return how many there are."""
    seen[nodes.astype(np.int64)] = 1
    return _begun(queue, seen)


def _begun(queue: Array, seen: Array) -> int:
    found = np.flatnonzero(seen)
    queue[: len(found)] = found
    return len(found)


@kernel
def reach(arcs: NodeArcs, seen: Array, count: int, queue: Array, least: int) -> int:
    """See all that arcs of a capacity of `least` lead to; return how many nodes were walked from.

    The walk begins at `count` nodes in the queue, and does not go on from others that were seen.
    """
    begin = arcs.begin
    at = 0
    while at < count:
        node = queue[at]
        at += 1
        for place in range(begin[node], begin[node + 1]):
            arc = arcs.arc[place]
            head = arcs.to[arc]
            if seen[head] == 0 and arcs.capacity[arc] >= least:
                seen[head] = 1
                queue[count] = head
                count += 1
    return count


def _flow(tails: Array, heads: Array, capacity: Array) -> Any:
    """A solver that has the most that flows from source to sink."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    solver = SimpleMaxFlow()
    solver.add_arcs_with_capacity(
        np.append(tails, SOURCE), np.append(heads, SINK), np.append(capacity, 0)
    )
    if solver.solve(SOURCE, SINK) != solver.OPTIMAL:
        raise RuntimeError("the maximum flow was not found")
    return solver
