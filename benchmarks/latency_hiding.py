"""The order of XLA's latency hiding scheduler: a list of what is ready, from the last node up.

openxla, "latency_hiding_scheduler.cc". A second half is put where all that reads it already
stands below. From then on its start is wanted once as much has been put above the second half as
the transfer takes; until then other nodes go first. At most so many transfers of a resource are
open at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import final

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class AsyncGraph:
    """Nodes with the seconds of each, and the transfers between first and second halves.

    `latency` is of starts, 0 elsewhere; `start_of` is of second halves, else -1. `before` has the
    nodes that come earlier. `freed` is by how many bytes fewer are live above a node than below.
    """

    seconds: Sequence[float]
    latency: Sequence[float]
    start_of: Sequence[int]
    before: Sequence[Sequence[int]]
    freed: Sequence[int]


def latency_hiding_order(graph: AsyncGraph, most_open: int = 1) -> list[int]:
    """Return the order, first node first, with at most so many transfers open at once."""
    return _BottomUp(graph, most_open).run()


@final
@dataclass(slots=True)
class _BottomUp:
    graph: AsyncGraph
    most_open: int
    now: float = 0.0
    open_count: int = 0
    ready_at: dict[int, float] = field(default_factory=dict)
    """The nodes that may be put next, and from when on nobody waits for them."""

    def run(self) -> list[int]:
        graph = self.graph
        waits = [0] * len(graph.seconds)
        for before in graph.before:
            for x in before:
                waits[x] += 1
        depth = self._async_depth()
        for node, count in enumerate(waits):
            if not count:
                self.ready_at[node] = 0.0
        order: list[int] = []
        times = [0.0] * len(waits)
        while self.ready_at:
            node = self._choice(depth)
            begin = max(self.now, self.ready_at.pop(node))
            self.now = begin + graph.seconds[node]
            times[node] = self.now
            self.open_count += (graph.start_of[node] >= 0) - (graph.latency[node] > 0)
            order.append(node)
            for x in graph.before[node]:
                waits[x] -= 1
                times[x] = max(times[x], self._wanted(x, node))
                if not waits[x]:
                    self.ready_at[x] = times[x]
        return order[::-1]

    def _wanted(self, node: int, below: int) -> float:
        """When a node may be put, of which one that waits for it was just put."""
        if self.graph.start_of[below] == node:
            return self.now + self.graph.latency[node]
        return self.now

    def _choice(self, depth: Sequence[float]) -> int:
        """The node to put: no start too early, no second half too many, then the deepest."""

        def rank(node: int) -> tuple[bool, bool, bool, float, int, int]:
            is_done = self.graph.start_of[node] >= 0
            return (
                is_done and self.open_count >= self.most_open,
                self.ready_at[node] > self.now,
                not is_done,
                -depth[node] if self.ready_at[node] <= self.now else self.ready_at[node],
                -self.graph.freed[node],
                -node,
            )

        return min(self.ready_at, key=rank)

    def _async_depth(self) -> list[float]:
        """The longest time of transfers on a path that ends at each node."""
        graph = self.graph
        readers: list[list[int]] = [[] for _ in graph.seconds]
        waits = [len(x) for x in graph.before]
        for node, before in enumerate(graph.before):
            for x in before:
                readers[x].append(node)
        order = [node for node, count in enumerate(waits) if not count]
        depth = [0.0] * len(waits)
        for node in order:
            for x in readers[node]:
                took = graph.latency[node] if graph.start_of[x] == node else 0.0
                depth[x] = max(depth[x], depth[node] + took)
                waits[x] -= 1
                if not waits[x]:
                    order.append(x)
        return depth
