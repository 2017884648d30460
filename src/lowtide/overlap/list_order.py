"""An order of a step, node by node: what the device does next so that its links are never idle."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.overlap.clock import StepClock
from lowtide.overlap.live_bytes import LiveBytes
from lowtide.overlap.step_graph import StepGraph
from lowtide.records import dataclass

_TRIES: Final = 24
"""So many nodes are asked for, the most urgent first, before the given order goes on."""

Heap = list[tuple[float, int]]


@dataclass(frozen=True, slots=True)
class ListRule:
    """What runs next of all that may: the node of the least `rank`.

    A transfer starts where fewer than `queued` others wait for its link, and live bytes stay within
    `limit`.
    """

    rank: Sequence[float]
    queued: int
    limit: int


def list_order(
    graph: StepGraph, memory: MemoryGraph, given: Sequence[int], rule: ListRule
) -> list[int]:
    """Return an order whose steps take at most the limit, if those of the given one do.

    Nodes run no later than they stand in the given order, unless others run earlier than there.
    """
    return _Walk(graph, memory, given, rule).run()


class _Walk:
    """One walk through the nodes; those that may run stand in heaps by what they do."""

    def __init__(
        self, graph: StepGraph, memory: MemoryGraph, given: Sequence[int], rule: ListRule
    ) -> None:
        self.graph, self.rule = graph, rule
        self.clock = StepClock(graph)
        self.live = LiveBytes(memory, given)
        self.order: list[int] = []
        self._waits = [len(x) for x in graph.before]
        self._has_run = [False] * graph.node_count
        self._instant: Heap = []
        self._computing: Heap = []
        self._starting: list[Heap] = [[] for _ in graph.slots]
        self._awaited: Heap = []
        """Second halves by the end of their transfers."""
        for node, count in enumerate(self._waits):
            if not count:
                self._is_ready(node)

    def run(self) -> list[int]:
        """Return the order."""
        while len(self.order) < self.graph.node_count:
            node = self._next()
            self._has_run[node] = True
            self.clock.run(node)
            self.live.run(node)
            self.order.append(node)
            for x in self.graph.after[node]:
                self._waits[x] -= 1
                if not self._waits[x]:
                    self._is_ready(x)
        return self.order

    def _is_ready(self, node: int) -> None:
        graph, rank = self.graph, self.rule.rank[node]
        if graph.start_of[node] >= 0:
            heapq.heappush(self._awaited, (self.clock.end[graph.start_of[node]], node))
        elif graph.link[node] >= 0:
            heapq.heappush(self._starting[graph.link[node]], (rank, node))
        elif graph.seconds[node]:
            heapq.heappush(self._computing, (rank, node))
        else:
            heapq.heappush(self._instant, (rank, node))

    def _next(self) -> int:
        while self._awaited and self._has_run[self._awaited[0][1]]:
            heapq.heappop(self._awaited)
        if self._awaited and self._awaited[0][0] <= self.clock.now:
            return heapq.heappop(self._awaited)[1]
        node = self._fitting(self._instant)
        if node is not None:
            return node
        for link, starting in enumerate(self._starting):
            if starting and self.clock.queued(link) < self.rule.queued:
                node = self._fitting(starting)
                if node is not None:
                    return node
        node = self._fitting(self._computing)
        if node is not None:
            return node
        if self._awaited:
            return heapq.heappop(self._awaited)[1]
        return self.live.given[self.live.first]

    def _fitting(self, heap: Heap) -> int | None:
        """The first node of a heap that has not run and fits; the heap is left without it."""
        skipped: Heap = []
        found = None
        while heap and len(skipped) < _TRIES:
            rank, node = heapq.heappop(heap)
            if self._has_run[node]:
                continue
            if self.live.fits(node, self.rule.limit):
                found = node
                break
            skipped.append((rank, node))
        for x in skipped:
            heapq.heappush(heap, x)
        return found
