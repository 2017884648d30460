"""The values to compute once more behind a peak, chosen together: the minimum cut that binds there.

A value that is read behind the peak is stored over it, or computed once more out of values that are
stored over it, each at its bytes; computing takes time, which counts at a price. As several values
may be made of one that is not stored yet, a choice one by one does not see what pays.
"""

from __future__ import annotations

from typing import Final, final

from lowtide.analysis.minimum_cut import minimum_cut
from lowtide.fusion.cluster import Cluster, KernelKind
from lowtide.fusion.cluster_graph import ClusterGraph, evaluations
from lowtide.fusion.peak import PeakView
from lowtide.ir import Instruction

_SOURCE: Final = 0
_SINK: Final = 1


def chosen_by_cut(
    graph: ClusterGraph, view: PeakView, seconds_per_byte: float
) -> dict[Instruction, None]:
    """Return the values to compute behind the peak of a view, a byte at a price in seconds."""
    return _PeakCut(graph, view, seconds_per_byte).run()


@final
class _PeakCut:
    """The network: per value a node "is read later", and one "is computed later" if it can be."""

    def __init__(self, graph: ClusterGraph, view: PeakView, seconds_per_byte: float) -> None:
        self.graph, self.view, self.seconds_per_byte = graph, view, seconds_per_byte
        self.arcs: list[tuple[int, int, int]] = []
        self.read: dict[int, int] = {}
        self.computed: dict[Instruction, int] = {}
        self.count = 2
        self.endless = 1 + sum(view.bytes)

    def run(self) -> dict[Instruction, None]:
        """Return the values on the side of the source, where all that holds stands."""
        view = self.view
        stored = view.memory.buffers.stored
        begins = [
            x
            for x, buffer in stored.items()
            if view.bytes[buffer] >= view.least
            and view.is_before(x)
            and view.last[buffer] > view.at
        ]
        waiting = [(x, stored[x]) for x in begins]
        for _, buffer in waiting:
            self.arcs.append((_SOURCE, self._node(buffer), self.endless))
        seen = {buffer for _, buffer in waiting}
        while waiting:
            value, buffer = waiting.pop()
            for operand, other in self._stored(value, buffer):
                if other not in seen:
                    seen.add(other)
                    waiting.append((operand, other))
        return self._on_the_side_of_the_source() if self.computed else {}

    def _stored(self, value: Instruction, buffer: int) -> list[tuple[Instruction, int]]:
        """Add how a value may be had later; return what it is then computed of."""
        view, own = self.view, self._node(buffer)
        cluster = self.graph.owner.get(value)
        nbytes = view.bytes[buffer]
        if cluster is None or not self._may_run_again(cluster, buffer):
            # What is read later in any case is stored in any case, and costs nothing more.
            is_kept = view.last[buffer] > view.at
            self.arcs.append((own, _SINK, 0 if is_kept else nbytes))
            return []
        later = self.computed[value] = self.count
        self.count += 1
        self.arcs.append((own, later, nbytes))
        self.arcs.append((later, _SINK, self._price(cluster)))
        found = []
        for operand in cluster.inputs:
            read = view.memory.buffers.of(operand)
            if read is not None and view.bytes[read]:
                self.arcs.append((later, self._node(read), self.endless))
                found.append((operand, read))
        return found

    def _may_run_again(self, cluster: Cluster, buffer: int) -> bool:
        view = self.view
        if cluster.kind is not KernelKind.LOOP or not view.is_before(cluster.root):
            return False
        if view.memory.graph.live_out[buffer] or cluster.root in self.graph.opaque:
            return False
        return not view.is_read_late_and_alone(buffer)

    def _price(self, cluster: Cluster) -> int:
        """What computing a value once more is worth, in bytes."""
        readers = self.view.late_readers(cluster.root)
        root = cluster.root
        times = sum([evaluations(x, x.inputs[root], cluster) for x in readers]) or 1.0
        return min(self.endless, int(times * cluster.seconds / self.seconds_per_byte))

    def _node(self, buffer: int) -> int:
        if buffer not in self.read:
            self.read[buffer] = self.count
            self.count += 1
        return self.read[buffer]

    def _on_the_side_of_the_source(self) -> dict[Instruction, None]:
        side = minimum_cut(self.arcs, _SOURCE, _SINK).source_side
        return {x: None for x, node in self.computed.items() if node in side}
