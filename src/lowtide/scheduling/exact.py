"""Orders of least peak for small graphs: the sets of nodes that may have run, cheapest first.

The cost of an order is its largest step. A set of nodes is reached by its cheapest order. The
search goes on with the cheapest set; of equally cheap ones, with that of most nodes.

A node runs at once if its step is no higher than one that has run, or than a bound of every order,
and if it leaves no more live than before: no order is better for waiting.
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import matched_bytes, peak_bytes
from lowtide.records import dataclass
from lowtide.search.deadline import Deadline
from lowtide.search.kernels import Array

MOST_NODES: Final = 1_000
MOST_WORK: Final = 100_000
"""Graphs of more nodes, and searches that look at more nodes in all, are left to others."""


@dataclass(frozen=True, eq=False, slots=True)
class LowerOrder:
    """An order below a peak, of least peak; None where there is none, which is then proved."""

    order: Array | None


def lower_order(
    graph: MemoryGraph,
    peak: int,
    bound: int,
    most_work: int = MOST_WORK,
    deadline: Deadline | None = None,
) -> LowerOrder | None:
    """Return an order of least peak if that is below `peak`, None where that takes too long.

    `bound`: bytes that the peak of no order is below.
    """
    if bound >= peak:
        return LowerOrder(None)
    if not 0 < graph.node_count <= MOST_NODES:
        return None
    # Programs of one kernel search nothing.
    from lowtide.scheduling.known_orders import KnownSearch, keep, key_of, known

    key = key_of(graph, bound)
    before = known(key)
    if before is not None and before.answers(peak, most_work):
        return before.answer(peak)
    deadline = deadline or Deadline()
    search = _Search(graph, peak, bound)
    found = search.run(most_work, deadline)
    if found is None:
        if not deadline.passed:
            keep(key, KnownSearch(peak, most_work, ended=False))
        return None
    least = peak if found.order is None else peak_bytes(graph, found.order)
    keep(key, KnownSearch(least, search.work, ended=True, order=found.order))
    return found


class _Search:
    def __init__(self, graph: MemoryGraph, peak: int, bound: int) -> None:
        count = graph.node_count
        self.count, self.peak, self.bound = count, peak, bound
        self.size: list[int] = graph.buffer_bytes.tolist()
        self.kept: list[bool] = graph.live_out.tolist()
        self.own: list[int] = (graph.scratch_bytes + graph.inner_bytes).tolist()
        self.pairs: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.before = [0] * count
        self.behind: list[list[int]] = [[] for _ in range(count)]
        self.users = [0] * len(self.size)
        self._fill(graph)
        self.start = self._start(graph)
        self.from_set: dict[int, tuple[int, int]] = {}
        self.matters: list[int] = [self._others(node) for node in range(count)]
        self.changes: list[dict[int, tuple[int, int]]] = [{} for _ in range(count)]
        """By node: which nodes decide what its step takes and leaves, and what it does by these."""
        self.looked_at: set[int] = set()

    @property
    def work(self) -> int:
        """The least of what may be looked at with which a search that ended comes to its end."""
        return (len(self.looked_at) - 1) * self.count

    def _fill(self, graph: MemoryGraph) -> None:
        """By node: what it reads that may die, makes for good, and makes for others."""
        count, size = self.count, self.size
        reads: list[dict[int, None]] = [{} for _ in range(count)]
        for b, consumers in enumerate(graph.consumers.rows()):
            for node in consumers:
                self.users[b] |= 1 << node
                if not self.kept[b]:
                    reads[node][b] = None
        self.ends = [[(b, size[b], self.users[b]) for b in x] for x in reads]
        self.stays = [0] * count
        self.passed_on: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for b, node in enumerate(graph.producer.tolist()):
            if node < 0:
                continue
            self.own[node] += size[b]
            if self.kept[b]:
                self.stays[node] += size[b]
            else:
                self.passed_on[node].append((size[b], self.users[b]))
        for rows in (graph.operands.rows(), graph.control.rows()):
            for node, others in enumerate(rows):
                for other in others:
                    self.before[node] |= 1 << other
                    self.behind[other].append(node)
        for node, read, made in graph.shares.tolist():
            if not self.kept[read]:
                self.pairs[node].append((read, made))

    def _start(self, graph: MemoryGraph) -> int:
        """The bytes that are live before the first step."""
        entering = np.flatnonzero(graph.producer < 0).tolist()
        self.unread = sum([self.size[b] for b in entering if not self._needed(b, 0)])
        return sum([self.size[b] for b in entering if self._needed(b, 0)])

    def _needed(self, b: int, done: int) -> bool:
        return self.kept[b] or bool(self.users[b] & ~done)

    def _others(self, node: int) -> int:
        """The nodes that read what a node reads or makes; sets of nodes are bits."""
        found = 0
        for users in [*[x for _, _, x in self.ends[node]], *[x for _, x in self.passed_on[node]]]:
            found |= users
        return found

    def run(self, most_work: int, deadline: Deadline) -> LowerOrder | None:
        """Go on with the cheapest set, until that is all nodes or too much is done."""
        everything = (1 << self.count) - 1
        first = sum([1 << node for node, before in enumerate(self.before) if not before])
        heap = [(self.bound, 0, 0, self.start, first)]
        looked_at = self.looked_at
        while heap:
            highest, _, done, live, ready = heapq.heappop(heap)
            if done in looked_at:
                continue
            if done == everything:
                return LowerOrder(self._order(everything))
            if len(looked_at) * self.count > most_work or deadline.passed:
                return None
            looked_at.add(done)
            for node, step, left in self._moves(done, live, ready, highest):
                after = done | 1 << node
                high = max(highest, step)
                if high < self.peak and after not in looked_at:
                    known = self.from_set.get(after)
                    if known is None or high < known[0]:
                        self.from_set[after] = high, node
                        entry = (high, -after.bit_count(), after, left)
                        heapq.heappush(heap, (*entry, self._ready(ready, node, after)))
        return LowerOrder(None)

    def _ready(self, ready: int, node: int, after: int) -> int:
        """The nodes that may run behind a node, of those that might before it."""
        ready &= ~(1 << node)
        for other in self.behind[node]:
            if not self.before[other] & ~after:
                ready |= 1 << other
        return ready

    def _moves(self, done: int, live: int, ready: int, highest: int) -> list[tuple[int, int, int]]:
        """What can run next: the node, the bytes of its step, and those live behind it."""
        found = []
        live_in_step = live if done else live + self.unread
        while ready:
            node = (ready & -ready).bit_length() - 1
            ready &= ready - 1
            others = done & self.matters[node]
            change = self.changes[node].get(others)
            if change is None:
                change = self.changes[node][others] = self._change(others, node)
            step, left = live_in_step + change[0], live + change[1]
            if step <= highest and left <= live:
                return [(node, step, left)]
            if step < self.peak:
                found.append((node, step, left))
        return found

    def _change(self, done: int, node: int) -> tuple[int, int]:
        """The bytes that a node adds in its step to those live before it, and for those behind."""
        waiting = ~(done | 1 << node)
        step, left = self.own[node], self.stays[node]
        for size, users in self.passed_on[node]:
            if users & waiting:
                left += size
        dying = [b for b, _, users in self.ends[node] if not users & waiting]
        for b in dying:
            left -= self.size[b]
        if self.pairs[node]:
            step -= matched_bytes([x for x in self.pairs[node] if x[0] in dying], self.size)
        return step, left

    def _order(self, done: int) -> Array:
        order: list[int] = []
        while done:
            _, node = self.from_set[done]
            order.append(node)
            done &= ~(1 << node)
        return np.array(order[::-1], np.int64)
