"""The queue of producers: the one that saves most time is fused first, with all that read it.

A producer goes into each of its readers and is computed anew there. So its own value is never
stored, and no cycle can arise. The queue is that of XLA's priority fusion. Clusters are sets of
instructions: what two of them both contain is computed once when they become one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias, final

from lowtide.cost.kernels import move_seconds
from lowtide.fusion.cluster import Cluster, ClusterRead, KernelKind
from lowtide.fusion.cluster_graph import ClusterGraph, evaluations
from lowtide.fusion.legality import Joint, joined_by_all
from lowtide.fusion.live_memory import is_kept_by_caller
from lowtide.fusion.refusal import FusionRefusal, RefusalKind
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Computation, Instruction, Opcode

_FAR: Final = 16
"""Positions between a value and a reader from which on it matters what lives in between."""

_Reads: TypeAlias = Mapping[Instruction, ClusterRead]

_SMALL: Final = 1 << 16
"""Bytes of a value whose life never matters."""

_MANY_READERS: Final = 16
"""Readers of a value that it takes too long to look at each time when one of them changes."""


def fused_clusters(computation: Computation, target: TargetRecord) -> ClusterGraph:
    """Return the clusters of a computation, of which those are fused that saves time."""
    graph = ClusterGraph(computation, target)
    graph.spread_free_values()
    _Queue(graph).run()
    return graph


def refusal(graph: ClusterGraph, producer: Cluster) -> FusionRefusal | None:
    """Return why the queue leaves a producer stored in the end, None where it would not."""
    found = _Queue(graph).candidate(producer)
    if not isinstance(found, FusionRefusal):
        return None
    if found.kind is RefusalKind.NEEDED:
        return found._replace(by=_last_to_need(graph, producer.root))
    return found


def _last_to_need(graph: ClusterGraph, value: Instruction) -> Instruction | None:
    """The last instruction that has to find a value stored, None for the end of the computation."""
    readers = [x for x in value.users if x in graph.alone]
    is_result = graph.opaque.get(value, 0) >= len(graph.order)
    return None if is_result or not readers else max(readers, key=graph.order.__getitem__)


class _Candidate(NamedTuple):
    """A producer, the clusters that it goes into, and what each becomes."""

    producer: Cluster
    joints: tuple[tuple[Cluster, Joint], ...]
    seconds: float


@final
class _Queue:
    """The producers of one computation, by the time that is saved once all readers compute them."""

    def __init__(self, graph: ClusterGraph) -> None:
        self.graph = graph
        self.queue: list[tuple[float, int, int]] = []
        self.postponed: dict[Instruction, None] = dict.fromkeys(graph.owner)
        """Producers that are looked at anew when the queue is empty."""
        self.moves: dict[Cluster, tuple[_Reads, dict[Instruction, float], float]] = {}
        """The seconds to move what a producer reads, each and all, for as long as it reads that."""
        self.merges = 0
        self.latest: dict[Cluster, tuple[int, _Candidate]] = {}
        """What was put into the queue last of a producer, after so many merges."""

    def run(self) -> None:
        by_position = list(self.graph.order)
        while self.postponed:
            postponed, self.postponed = self.postponed, {}
            for root in postponed:
                self._push(root)
            while self.queue:
                _, position, version = heappop(self.queue)
                cluster = self.graph.owner.get(by_position[position])
                if cluster is None or cluster.version != version:
                    continue
                candidate = self._latest(cluster)
                if isinstance(candidate, _Candidate):
                    self._merge(candidate)

    def _touch(self, root: Instruction) -> None:
        """Look at a producer again, whose readers or inputs changed."""
        if len(self.graph.readers.get(root, ())) > _MANY_READERS:
            self.postponed[root] = None
        else:
            self._push(root)

    def _push(self, root: Instruction) -> None:
        """Put a producer into the queue, at its present worth."""
        cluster = self.graph.owner.get(root)
        if cluster is None:
            return
        cluster.version += 1
        candidate = self.candidate(cluster)
        if isinstance(candidate, _Candidate):
            self.latest[cluster] = self.merges, candidate
            heappush(self.queue, (-candidate.seconds, cluster.position, cluster.version))

    def _latest(self, producer: Cluster) -> _Candidate | FusionRefusal:
        """What fusing a producer is now: what the queue has, if nothing was fused since."""
        merges, candidate = self.latest.pop(producer)
        return candidate if merges == self.merges else self.candidate(producer)

    def _merge(self, candidate: _Candidate) -> None:
        producer = candidate.producer
        self.merges += 1
        touched = dict.fromkeys(producer.inputs)
        for reader, joint in candidate.joints:
            touched[reader.root] = None
            if joint.kind is not reader.kind:
                touched.update(dict.fromkeys(reader.inputs))
        self.graph.room -= self._growth(producer, len(candidate.joints))
        self.graph.absorb(producer, candidate.joints)
        for root in touched:
            self._touch(root)

    # -- what is worth it ----------------------------------------------------------------------

    def candidate(self, producer: Cluster) -> _Candidate | FusionRefusal:
        """Return what fusing a producer into its readers is, or why it is not legal or useful."""
        root = producer.root
        if root in self.graph.opaque:
            return _NEEDED
        readers = self.graph.reading(root)
        if not readers:
            return _NEEDED
        if producer.kind is not KernelKind.LOOP and len(readers) > 1:
            return FusionRefusal(RefusalKind.MANY_READERS, len(readers))
        joints = joined_by_all(producer, readers, self.graph.target)
        if isinstance(joints, FusionRefusal):
            return joints
        growth = self._growth(producer, len(joints))
        if growth > self.graph.room:
            return FusionRefusal(RefusalKind.GROWTH, growth, self.graph.room)
        seconds = self._seconds_saved(producer, readers)
        if seconds <= 0:
            return FusionRefusal(RefusalKind.SLOWER, -seconds)
        last = self._lengthened(producer, readers)
        if last is not None:
            return FusionRefusal(RefusalKind.LIVES, by=last)
        return _Candidate(producer, joints, seconds)

    def _growth(self, producer: Cluster, readers: int) -> int:
        """How many instructions and parameters are written more than once, at most."""
        return (readers - 1) * (len(producer.members) + len(producer.inputs))

    def _seconds_saved(self, producer: Cluster, readers: Sequence[Cluster]) -> float:
        """Moves and launches that are saved, less what is read and computed once more."""
        root = producer.root
        machine = self.graph.target.machine
        whole = root.shape.nbytes
        moves, saved = self._moves(producer)
        if not _is_view(producer):
            saved += machine.launch_seconds + move_seconds(whole, machine)
        times = -1.0
        for reader in readers:
            read = reader.inputs[root]
            saved += move_seconds(read.nbytes, machine)
            times += evaluations(reader, read, producer)
            part = min(1.0, read.nbytes / whole) if whole else 1.0
            known = reader.inputs
            saved -= part * sum([move for x, move in moves.items() if x not in known])
        return saved - times * producer.seconds + _TIE

    def _moves(self, producer: Cluster) -> tuple[dict[Instruction, float], float]:
        """The seconds to move each value that a producer reads, and all of them."""
        known = self.moves.get(producer)
        if known is not None and known[0] is producer.inputs:  # A join gives it other reads.
            return known[1], known[2]
        machine = self.graph.target.machine
        each = {x: move_seconds(read.nbytes, machine) for x, read in producer.inputs.items()}
        whole = sum(each.values())
        self.moves[producer] = producer.inputs, each, whole
        return each, whole

    def _lengthened(self, producer: Cluster, readers: Sequence[Cluster]) -> Instruction | None:
        """The last reader, if without the value more bytes live for longer than with it, up to it.

        Compared are bytes times positions, since where the peak will be is not known yet.
        """
        graph = self.graph
        reader = max(readers, key=lambda x: x.position)
        last = reader.position
        if last - producer.position < _FAR:
            return None
        longer = 0
        for operand in producer.inputs:
            if is_kept_by_caller(operand, graph.computation):
                continue
            positions = [graph.order[x] for x in graph.readers[operand]]
            ends = max(graph.opaque.get(operand, 0), *positions)
            longer += operand.shape.nbytes * max(0, last - ends)
        shorter = max(producer.root.shape.nbytes, _SMALL) * (last - producer.position)
        return reader.root if longer > shorter else None


_NEEDED: Final = FusionRefusal(RefusalKind.NEEDED)

_TIE: Final = 1e-12
"""What makes views and constants go in where nothing else speaks for or against."""


def _is_view(cluster: Cluster) -> bool:
    """Whether its value is not stored anyway, since it has the bytes of its operand."""
    return cluster.root.opcode in (Opcode.BITCAST, Opcode.RESHAPE, Opcode.CONSTANT) and (
        len(cluster.members) == 1
    )
