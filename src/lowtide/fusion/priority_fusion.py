"""Priority fusion: what saves most time is fused first, with all that read it.

A producer goes into each of its readers, computed anew in each, so that its own value is never
stored and no cycle can arise. The queue is that of XLA's priority fusion; the clusters are sets of
instructions, so that what two of them both contain is computed once when they become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import prod
from typing import Final, final

from lowtide.fusion.access import Access, composed
from lowtide.fusion.cluster import Cluster, Kind, Read
from lowtide.fusion.cost_model import LAUNCH, move_seconds
from lowtide.fusion.legality import Joint, add_read, joined, seed
from lowtide.fusion.materialize import materialize
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Convolution
from lowtide.ir.traversal import computation_post_order, post_order
from lowtide.passes.interface import Pass
from lowtide.transforms.dead_code import remove_dead_code

_FAR: Final = 16
"""Positions between a value and a reader from which on it matters what lives in between."""

_SMALL: Final = 1 << 16
"""Bytes of a value whose life never matters."""

_GROWTH: Final = 2
"""How many times the instructions there were may be in all kernels together."""


def fuse_by_priority(module: Module) -> int:
    """Fuse what is worth it in all computations that run by themselves; return the fusions made."""
    applied = _applied_per_element(module)
    made = 0
    for computation in computation_post_order(module):
        if computation not in applied:
            made += _Fuser(computation).run()
    if made:
        remove_dead_code(module)
    return made


def _applied_per_element(module: Module) -> set[Computation]:
    """The bodies of fusions, reducers, comparators and the like."""
    return {
        callee
        for computation in module.computations.values()
        for instruction in computation.instructions.values()
        if instruction.opcode not in _CONTROL_FLOW
        for callee in instruction.called_computations
    }


_CONTROL_FLOW: Final = frozenset({Opcode.CALL, Opcode.WHILE, Opcode.CONDITIONAL})


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A producer, the clusters that it goes into, and what each becomes."""

    producer: Cluster
    joints: tuple[tuple[Cluster, Joint], ...]
    seconds: float


@final
class _Fuser:
    """The clusters of one computation, and the queue of producers."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.order = {x: number for number, x in enumerate(post_order(computation))}
        self.owner: dict[Instruction, Cluster] = {}
        self.readers: dict[Instruction, dict[Cluster, None]] = {}
        self.opaque: dict[Instruction, int] = {computation.root: len(self.order)}
        """Values that have to be stored, with the position of the last reader which needs it."""
        self.queue: list[tuple[float, int, int]] = []
        self.room = _GROWTH * len(self.order)

    def run(self) -> int:
        for instruction, position in self.order.items():
            cluster = seed(instruction, position)
            if cluster is None:
                for operand in instruction.operands:
                    self.opaque[operand] = max(self.opaque.get(operand, 0), position)
                continue
            self.owner[instruction] = cluster
            for operand in cluster.inputs:
                self.readers.setdefault(operand, {})[cluster] = None
        self.room -= len(self.order)
        self._spread_free_values()
        by_position = list(self.order)
        for root in self.owner:
            self._push(root)
        while self.queue:
            _, position, version = heappop(self.queue)
            cluster = self.owner.get(by_position[position])
            if cluster is None or cluster.version != version:
                continue
            candidate = self._candidate(cluster)
            if candidate is not None:
                self._merge(candidate)
        return materialize(self.computation, list(self.owner.values()), self.order)

    def _spread_free_values(self) -> None:
        """Compute constants, iotas and what is made of them wherever they are read."""
        for root in self.order:
            cluster = self.owner.get(root)
            if cluster is None or not cluster.is_free or cluster.kind is not Kind.LOOP:
                continue
            readers = self.readers.get(root, {})
            for reader in list(readers):
                joint = joined(cluster, reader)
                if joint is not None:
                    self._absorb(cluster, reader, joint)
                    del readers[reader]
            if not readers and root not in self.opaque:
                del self.owner[root]

    def _push(self, root: Instruction) -> None:
        """Put a producer into the queue, at its present worth."""
        cluster = self.owner.get(root)
        if cluster is None:
            return
        cluster.version += 1
        candidate = self._candidate(cluster)
        if candidate is not None:
            heappush(self.queue, (-candidate.seconds, cluster.position, cluster.version))

    # -- what is worth it ----------------------------------------------------------------------

    def _candidate(self, producer: Cluster) -> _Candidate | None:
        """Return what fusing a producer into its readers would be, None if not legal or useful."""
        root = producer.root
        readers = self.readers.get(root)
        if not readers:
            return None
        if root in self.opaque:
            return None
        if producer.kind is not Kind.LOOP and len(readers) > 1:
            return None
        joints = []
        for reader in readers:
            joint = joined(producer, reader)
            if joint is None:
                return None
            joints.append((reader, joint))
        if self._grows_too_much(producer, len(joints)):
            return None
        seconds = self._seconds_saved(producer)
        if seconds <= 0 or self._lengthens_lives(producer):
            return None
        return _Candidate(producer, tuple(joints), seconds)

    def _grows_too_much(self, producer: Cluster, readers: int) -> bool:
        return readers > 1 and (readers - 1) * len(producer.members) > max(self.room, 8)

    def _seconds_saved(self, producer: Cluster) -> float:
        """Moves and launches that are saved, less what is read and computed once more."""
        root = producer.root
        saved = 0.0 if _is_view(producer) else LAUNCH + move_seconds(root.shape.nbytes)
        saved += sum([move_seconds(read.nbytes) for read in producer.inputs.values()])
        times = -1.0
        for reader in self.readers[root]:
            read = reader.inputs[root]
            saved += move_seconds(read.nbytes)
            times += _evaluations(reader, read, root)
            for operand, own in producer.inputs.items():
                if operand not in reader.inputs:
                    saved -= move_seconds(_scaled(own, read, root).nbytes)
        return saved - times * producer.seconds + _TIE

    def _lengthens_lives(self, producer: Cluster) -> bool:
        """Whether without the value more bytes live for longer than with it, up to its last reader.

        Compared are bytes times positions, since where the peak will be is not known yet.
        """
        last = max([reader.position for reader in self.readers[producer.root]])
        if last - producer.position < _FAR:
            return False
        longer = 0
        for operand in producer.inputs:
            if operand.opcode in (Opcode.PARAMETER, Opcode.CONSTANT) and self.computation.is_entry:
                continue
            positions = [x.position for x in self.readers[operand]]
            ends = max(self.opaque.get(operand, 0), *positions)
            longer += operand.shape.nbytes * max(0, last - ends)
        return longer > max(producer.root.shape.nbytes, _SMALL) * (last - producer.position)

    # -- merging -------------------------------------------------------------------------------

    def _merge(self, candidate: _Candidate) -> None:
        producer = candidate.producer
        del self.owner[producer.root]
        del self.readers[producer.root]
        for operand in producer.inputs:
            self.readers[operand].pop(producer, None)
        self.room -= (len(candidate.joints) - 1) * len(producer.members)
        touched = dict.fromkeys(producer.inputs)
        for reader, joint in candidate.joints:
            touched[reader.root] = None
            if joint.kind is not reader.kind:
                touched.update(dict.fromkeys(reader.inputs))
            self._absorb(producer, reader, joint)
        for root in touched:
            self._push(root)

    def _absorb(self, producer: Cluster, reader: Cluster, joint: Joint) -> None:
        """Make a reader compute what it read from a producer."""
        read = reader.inputs.pop(producer.root)
        inputs: dict[Instruction, Read] = {}
        for operand, own in reader.inputs.items():
            add_read(inputs, operand, own._replace(access=composed(joint.consumer, own.access)))
        for operand, own in producer.inputs.items():
            scaled = _scaled(own, read, producer.root)
            access = composed(joint.producer, own.access)
            inner = own.inner or joint.inner
            add_read(inputs, operand, scaled._replace(access=access, inner=inner))
            self.readers[operand][reader] = None
        reader.inputs = inputs
        reader.members |= producer.members
        reader.seconds += producer.seconds * max(1.0, _evaluations(reader, read, producer.root))
        reader.kind, reader.space, reader.kept = joint.kind, joint.space, joint.kept
        reader.root_access = joint.root_access
        reader.hero = reader.hero or producer.hero
        reader.packable = reader.packable and producer.packable


_TIE: Final = 1e-12
"""What makes views and constants go in where nothing else speaks for or against."""


def _is_view(cluster: Cluster) -> bool:
    """Whether its value is not stored anyway, since it has the bytes of its operand."""
    return cluster.root.opcode in (Opcode.BITCAST, Opcode.RESHAPE, Opcode.CONSTANT) and (
        len(cluster.members) == 1
    )


def _scaled(own: Read, read: Read, root: Instruction) -> Read:
    """How a producer's operand is read where only a part of the producer's value is."""
    whole = root.shape.nbytes
    if read.nbytes >= whole or not whole:
        return own
    return own._replace(nbytes=own.nbytes * read.nbytes // whole)


def _evaluations(reader: Cluster, read: Read, root: Instruction) -> float:
    """How often each element of a value would be computed in a reader."""
    if read.inner:
        return _packings(reader, root)
    elements = root.shape.element_count
    if not elements or _is_hoisted(read.access):
        return 1.0
    return prod(reader.space) / elements


def _is_hoisted(access: Access) -> bool:
    """Whether inner loops leave it alone: it depends on the outermost dimensions only."""
    if access is None:
        return False
    used = [d for d in access if d >= 0]
    return sorted(used) == list(range(len(used)))


def _packings(reader: Cluster, root: Instruction) -> float:
    """How often an operand of a contraction is read while it is packed."""
    hero = reader.hero
    if hero is None or hero.opcode is not Opcode.CONVOLUTION or hero.operands[0] is not root:
        return 1.5
    window = hero.attributes_as(Convolution).window
    taps = prod([x.size for x in window.dimensions])
    steps = prod([x.stride for x in window.dimensions])
    return max(1.5, taps / steps)


PASSES: Final = (
    Pass(
        "priority-fusion",
        fuse_by_priority,
        "Makes kernels of several instructions, what saves most time first.",
        before="""
HloModule m

ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  product = f32[64,64] multiply(x, y)
  ROOT difference = f32[64,64] subtract(product, y)
}
""",
        after="""
HloModule m

fused_computation {
  param_0 = f32[64,64] parameter(0)
  param_1 = f32[64,64] parameter(1)
  product.1 = f32[64,64] multiply(param_0, param_1)
  ROOT difference.1 = f32[64,64] subtract(product.1, param_1)
}

ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  ROOT subtract_fusion = f32[64,64] fusion(x, y), kind=kLoop, calls=fused_computation
}
""",
    ),
)
