"""List scheduling: of the instructions that are ready, the one that frees most memory runs next.

The rules are those of XLA's ListMemoryScheduler (OpenXLA, hlo_memory_scheduler), but for one. After
each step XLA looks for changed priorities among the users of the operands just read; here, at the
last user of each value.
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.scheduling.depth_first import successors

Int64Array = npt.NDArray[np.int64]

_EXTREME: Final = 1 << 62
_Key = tuple[int, int]
"""Negative bytes freed and negative number of users, so that the least key goes first."""


def list_order(graph: MemoryGraph) -> Int64Array:
    """Return an order of all nodes.

    The next node is the ready one with most (bytes freed less bytes made, users); of equal ones,
    the one that became ready, or changed its priority, last. A node whose result has one element
    goes first. What calls need inside does not count. The time is near linear.
    """
    return _ListScheduler(graph).run()


class _ListScheduler:
    def __init__(self, graph: MemoryGraph) -> None:
        count = graph.node_count
        producer = graph.producer.tolist()
        self.size = np.where(graph.producer < 0, 0, graph.buffer_bytes).tolist()
        self.consumers = graph.consumers.rows()
        self.reads = graph.consumers.transposed(count)
        self.users = [len(users) for users in graph.operands.transposed(count)]
        self.successors, self.waiting = successors(graph)
        self.left = [
            len(nodes) + out
            for nodes, out in zip(self.consumers, graph.live_out.tolist(), strict=True)
        ]
        self.made = [0] * count
        for size, node in zip(self.size, producer, strict=True):
            if node >= 0:
                self.made[node] += size
        self.scalar = graph.is_scalar.tolist()
        self.urgency = graph.urgency.tolist()
        self.done = [False] * count
        self.heap: list[tuple[int, int, int, int]] = []
        self.key: dict[int, _Key] = {}
        self.stamp = 0
        """Falls with every push, so that the latest one comes first among equals."""

    def run(self) -> Int64Array:
        for node, count in enumerate(self.waiting):
            if not count:
                self._push(node)
        order: list[int] = []
        while self.heap:
            freed, users, _, node = heapq.heappop(self.heap)
            if not self.done[node] and self.key[node] == (freed, users):
                self.done[node] = True
                order.append(node)
                self._release(node)
        return np.array(order, np.int64)

    def _priority(self, node: int) -> _Key:
        if self.scalar[node]:
            return (-_EXTREME, -_EXTREME)
        if self.urgency[node]:
            return (-_EXTREME * self.urgency[node], -self.users[node])
        left, size = self.left, self.size
        freed = sum([size[value] for value in self.reads[node] if left[value] == 1])
        return (self.made[node] - freed, -self.users[node])

    def _push(self, node: int) -> None:
        key = self._priority(node)
        if self.key.get(node) != key:
            self.key[node] = key
            self.stamp -= 1
            heapq.heappush(self.heap, (*key, self.stamp, node))

    def _release(self, node: int) -> None:
        """Let nodes run that waited for this one; raise those that now free what it has read."""
        last_readers = []
        for value in self.reads[node]:
            self.left[value] -= 1
            if self.left[value] == 1:
                last_readers.append(value)
        for successor in self.successors[node]:
            self.waiting[successor] -= 1
            if not self.waiting[successor]:
                self._push(successor)
        for value in last_readers:
            for reader in self.consumers[value]:
                if not self.done[reader] and not self.waiting[reader]:
                    self._push(reader)
