"""An order of kernels that stays right while they are merged.

Two kernels may become one unless a path leads from one to the other through a third. Only what
lies between them in the order has to be searched, and then moves: after Pearce and Kelly, "A
dynamic topological sort algorithm for directed acyclic graphs" (2006).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from lowtide.records import dataclass

_MOST_EDGES: Final = 4_000
"""Edges that one search follows before it gives up, which keeps all of them linear."""


_MOST_NODES: Final = 1 << 14
"""Nodes up to which it is worth its memory to know what each of them reaches: 32 MB."""


@dataclass(frozen=True, slots=True)
class Between:
    """Nodes that run after the first and nodes that run before the second of two, in order."""

    after: tuple[int, ...]
    before: tuple[int, ...]


@final
class Reached:
    """What the nodes of a graph reach, as the bits of one number each."""

    def __init__(self, bits: Sequence[int], targets: Sequence[Sequence[int]]) -> None:
        self._bits, self._targets = bits, targets

    def by_third(self, first: int, second: int) -> bool:
        """Return whether a path leads from one node to another one through a third."""
        bits = self._bits
        if not bits[first] >> second & 1:
            return False
        return any(bits[x] >> second & 1 for x in self._targets[first] if x != second)


@final
class MergeOrder:
    """Nodes in an order in which they can run; merged ones have one representative."""

    def __init__(self, order: Sequence[int]) -> None:
        count = len(order)
        self.rank = [0] * count
        """Places in the order, of representatives."""
        for place, node in enumerate(order):
            self.rank[node] = place
        self._parent = list(range(count))
        self._sources: list[list[int]] = [[] for _ in range(count)]
        self._targets: list[list[int]] = [[] for _ in range(count)]

    def find(self, node: int) -> int:
        """Return the representative of a node."""
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def place(self, node: int) -> int:
        """Return the place of what stands for a node."""
        return self.rank[self.find(node)]

    def connect(self, source: int, target: int) -> None:
        """Note that a node runs before another one, which is behind it in the order."""
        self._targets[source].append(target)
        self._sources[target].append(source)

    def wish(self, source: int, target: int) -> bool:
        """Have a node run before another one, where that closes no cycle; return whether it does.

        A search that takes too long counts as a cycle.
        """
        source, target = self.find(source), self.find(target)
        if source == target:
            return False
        if self.rank[source] > self.rank[target]:
            after = self._reached(self._targets, target, source, 1)
            if after is None:
                return False
            before = self._reached(self._sources, source, target, -1)
            if before is None:
                return False
            self._place([*self._sorted(before), source, target, *self._sorted(after)])
        self.connect(source, target)
        return True

    def reached(self) -> Reached | None:
        """Return what each node reaches as of now, None where that is too much to note."""
        count = len(self.rank)
        if count > _MOST_NODES:
            return None
        bits = [0] * count
        for node in sorted(range(count), key=self.rank.__getitem__, reverse=True):
            for x in self._targets[node]:
                bits[node] |= bits[x] | 1 << x
        return Reached(bits, [tuple(x) for x in self._targets])

    def between(self, first: int, second: int) -> Between | None:
        """Return what would have to move if two representatives were merged, the first in front.

        None where a path leads from one to the other through a third, or the search is too long.
        """
        after = self._reached(self._targets, first, second, 1, direct=True)
        if after is None:
            return None
        before = self._reached(self._sources, second, first, -1, direct=True)
        if before is None:
            return None
        return Between(self._sorted(after), self._sorted(before))

    def merge(self, first: int, second: int, between: Between, late: bool) -> int:
        """Make two nodes one and return it; with `late` at the place of the second.

        Where something has to come before or after them, the place follows from that.
        """
        if between.after and between.before:
            self._place([*between.before, first, second, *between.after])
        elif between.after or between.before:
            late = not between.after
        place = self.rank[second if late else first]
        kept, gone = first, second
        if self._size(first) < self._size(second):
            kept, gone = second, first
        self._parent[gone] = kept
        self._sources[kept] += self._sources[gone]
        self._targets[kept] += self._targets[gone]
        self._sources[gone], self._targets[gone] = [], []
        self.rank[kept] = place
        return kept

    def heights(self) -> dict[int, int]:
        """Return how many edges the longest path from each representative has.

        What has the same height is independent, also when nodes of other heights are united.
        """
        found: dict[int, int] = {}
        nodes = {self.find(x): None for x in range(len(self.rank))}
        for node in sorted(nodes, key=self.rank.__getitem__, reverse=True):
            targets = {self.find(x): None for x in self._targets[node]}
            found[node] = max([found[x] + 1 for x in targets if x != node], default=0)
        return found

    def unite(self, groups: Sequence[Sequence[int]], heights: Mapping[int, int]) -> list[int]:
        """Make each group of nodes of one height one node, and return these."""
        rank = self.rank
        order = sorted(heights, key=lambda x: (-heights[x], rank[x]))
        for place, node in enumerate(order):
            rank[node] = place
        for first, *others in groups:
            for node in others:
                self._parent[node] = first
                self._sources[first] += self._sources[node]
                self._targets[first] += self._targets[node]
        return [group[0] for group in groups]

    def _size(self, node: int) -> int:
        return len(self._sources[node]) + len(self._targets[node])

    def _sorted(self, nodes: set[int]) -> tuple[int, ...]:
        return tuple(sorted(nodes, key=self.rank.__getitem__))

    def _place(self, nodes: Sequence[int]) -> None:
        """Put nodes into the places that they have now, in the order given."""
        places = sorted([self.rank[x] for x in nodes])
        for node, place in zip(nodes, places, strict=True):
            self.rank[node] = place

    def _reached(
        self, edges: list[list[int]], start: int, end: int, sign: int, direct: bool = False
    ) -> set[int] | None:
        """Nodes strictly between that are reached from the start; None if the end is, or too many.

        With `direct` an edge from the start to the end does not count.
        """
        limit = self.rank[end]
        found: set[int] = set()
        stack = [start]
        left = _MOST_EDGES
        while stack:
            node = stack.pop()
            left -= len(edges[node])
            if left < 0:
                return None
            for x in edges[node]:
                other = self.find(x)
                if other == end:
                    if direct and node == start:
                        continue
                    return None
                if other == start or other in found or (limit - self.rank[other]) * sign <= 0:
                    continue
                found.add(other)
                stack.append(other)
        return found
