"""Values stored at the peak where less lives with them than with what they are computed from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from lowtide.fusion.cluster import Cluster
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.peak import Estimate, PeakView
from lowtide.ir import Instruction, Opcode


def store_before(graph: ClusterGraph, estimate: Estimate) -> int:
    """Store values before a peak which clusters behind it compute; return how many."""
    work = _Storing(graph, estimate)
    return sum([work.run(at) for at in estimate.peaks])


@final
class _Storing:
    def __init__(self, graph: ClusterGraph, estimate: Estimate) -> None:
        self.graph = graph
        self.view = PeakView(graph, estimate)
        self.ready: dict[Instruction, int] = {}
        """When all is there that a value is computed of, by position."""
        self.large = self._large()

    def run(self, at: int) -> int:
        """Take the values that save most first, of those that can be made in time."""
        self.view.at = at
        gains: dict[Instruction, dict[Instruction, None]] = {}
        for value in self._kept_by_clusters():
            for member in self._computed_from(value):
                gains.setdefault(member, {})[value] = None
        stored = 0
        for member, values in sorted(gains.items(), key=self._most_first):
            stored += self._store(member, values)
        return stored

    def _most_first(
        self, item: tuple[Instruction, dict[Instruction, None]]
    ) -> tuple[bool, int, int]:
        member, values = item
        is_late = self.ready[member] >= min([self._end(x) for x in values])
        return is_late, -self._gain(member, values), self.graph.order[member]

    def _end(self, value: Instruction) -> int:
        """The position from which on a value is gone where no cluster behind it reads it."""
        view, buffer = self.view, self.view.memory.buffers.of(value)
        readers = self.graph.readers.get(value, ())
        taken = [p for p in map(view.position_of, readers) if view.is_taken_over(buffer, p)]
        return max([p for p in taken if p < view.at], default=view.at)

    def _gain(self, member: Instruction, values: Iterable[Instruction]) -> int:
        return sum([x.shape.nbytes for x in values]) - member.shape.nbytes

    def _large(self) -> list[tuple[Instruction, int]]:
        """The large arrays that are made and are no result, with their buffers."""
        view = self.view
        live_out = view.memory.graph.live_out
        found = []
        for value in view.memory.nodes:
            if not value.shape.is_array or value.opcode is Opcode.PARAMETER:
                continue
            buffer = view.memory.buffers.of(value)
            if buffer is not None and view.bytes[buffer] >= view.least and not live_out[buffer]:
                found.append((value, buffer))
        return found

    def _kept_by_clusters(self) -> list[Instruction]:
        """The large values that live at the peak because of clusters at it or behind it."""
        view = self.view
        return [
            value
            for value, buffer in self.large
            if view.last[buffer] >= view.at
            and view.is_before(value)
            and not view.is_read_late_and_alone(buffer)
        ]

    def _readers(self, value: Instruction) -> list[Cluster]:
        """The clusters at the peak or behind it that read a value."""
        owner, view = self.graph.owner, self.view
        readers = self.graph.readers.get(value, ())
        return [owner[x] for x in readers if view.position_of(x) >= view.at]

    def _computed_from(self, value: Instruction) -> list[Instruction]:
        """The values that all of these readers compute from it, and may be stored instead."""
        readers = self._readers(value)
        if not readers:
            return []
        first = readers[0]
        reached, ready = {value}, self.ready
        found = []
        for member in sorted(first.members, key=self.graph.order.__getitem__):
            made = [
                ready[x] if x in first.members else self.view.position_of(x)
                for x in member.operands
            ]
            ready[member] = max(made, default=-1)
            if reached.isdisjoint(member.operands):
                continue
            reached.add(member)
            if member is not first.root and all(member in x.members for x in readers[1:]):
                found.append(member)
        return found

    def _store(self, member: Instruction, values: dict[Instruction, None]) -> bool:
        left = [x for x in values if self._readers(x)]
        if self._gain(member, left) < self.view.least:
            return False
        readers = dict.fromkeys([y for x in left for y in self._readers(x)])
        if not all(member in x.members for x in readers):
            return False
        if any(x.root is member for x in readers):
            return False
        return self.graph.split(member, list(readers))
