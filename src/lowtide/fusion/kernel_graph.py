"""The kernels of one computation while they are merged: who runs when, and what lives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.fusion.kernel_bodies import kernel_of
from lowtide.fusion.kernels import FusedKernel
from lowtide.fusion.live_bytes import Change, Lives
from lowtide.fusion.merge_order import Between, MergeOrder
from lowtide.fusion.merged_memory import merged_memory
from lowtide.fusion.order_memory import OrderMemory
from lowtide.fusion.refusal import FusionRefusal, RefusalKind
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Instruction
from lowtide.passes.rewriting import is_dead
from lowtide.records import dataclass

Int64Array: TypeAlias = npt.NDArray[np.int64]

_FAR: Final = 16
"""Places between two kernels from which on it matters what lives in between."""

_MOST_READERS: Final = 64
"""Readers of a value from which on it is taken as a result."""

_MOST_DISTANCE: Final = 4_096
"""Places between two kernels from which on they are never merged: lives are compared one by one."""


@dataclass(frozen=True, eq=False, slots=True)
class KernelMerge:
    """Two kernels, their nodes, what they make together, and what changes by that."""

    first: int
    second: int
    both: FusedKernel
    between: Between
    change: Change


def kernels_in(base: OrderMemory, target: TargetRecord) -> dict[int, FusedKernel]:
    """Return the kernels of a computation as it is, by node: those that something needs."""
    nodes = base.flow.nodes
    live: set[Instruction] = set()
    for node in reversed(base.order.tolist()):
        x = nodes[node]
        if (not is_dead(x) and not x.users) or x.is_root or not live.isdisjoint(x.users):
            live.add(x)
    found = {node: kernel_of(x, target) for node, x in enumerate(nodes) if x in live}
    return {node: kernel for node, kernel in found.items() if kernel is not None}


@final
class KernelGraph:
    """Kernels by their node; a kernel of several parts has the node that stands for all of them.

    Nodes are those of a dataflow and its memory graph. What is written over an argument, over what
    a loop carries or over the target of an update comes after whoever else reads that, so that no
    copy is needed; merging keeps that.
    """

    def __init__(
        self,
        base: OrderMemory,
        limit: int,
        target: TargetRecord,
        kernels: Mapping[int, FusedKernel],
    ) -> None:
        flow, order = base.flow, base.order
        self.target = target
        self.limit = limit
        """How many bytes may live."""
        self.flow = flow
        self.memory = base.graph
        self.instructions = flow.nodes
        self.node: dict[Instruction, int] = dict(flow.number)
        self.order = MergeOrder(order.tolist())
        self.kernels = dict(kernels)
        for node, kernel in kernels.items():
            self.node.update(dict.fromkeys(kernel.outputs, node))
        self._value = {
            x: leaves[0] for x, leaves in zip(flow.nodes, flow.leaves, strict=True) if leaves
        }
        self._connect()
        self._overwritten = {
            flow.root[alias.output]: flow.parameters[alias.parameter] for alias in base.aliases
        }
        self._read_before_overwriting()
        self._lives: Lives | None = None

    @property
    def lives(self) -> Lives:
        """What lives at each place: looked for once, by what merges kernels two by two."""
        if self._lives is None:
            places = self.order.rank
            final_order = np.argsort(np.array(places, np.int64))
            self._lives = Lives(self.memory, final_order, self._value, self.order.place)
            for node, kernel in self.kernels.items():
                self._lives.start(kernel, places[node])
        return self._lives

    def _connect(self) -> None:
        for x in self.instructions:
            for y in (*x.operands, *x.control_predecessors):
                if self.node[x] != self.node[y]:
                    self.order.connect(self.node[y], self.node[x])

    def _read_before_overwriting(self) -> None:
        """Have other readers of what is overwritten run before the one that does."""
        flow = self.flow
        pairs = [(flow.value_node[made], read) for made, read in self._overwritten.items()]
        for node, overwrites in enumerate(flow.overwrites):
            pairs += [(node, x.read) for x in overwrites]
        readers: dict[int, list[int]] = {read: [] for _, read in pairs}
        for node, values in enumerate(flow.reads):
            for value in values:
                if value in readers:
                    readers[value].append(node)
        for writer, read in pairs:
            for reader in readers[read]:
                self.order.wish(self._own(reader), self._own(writer))

    def _own(self, node: int) -> int:
        return self.node[self.instructions[node]]

    # -- reading -------------------------------------------------------------------------------

    def find(self, value: Instruction) -> int:
        """Return the node of the kernel, or of the instruction, that makes a value."""
        return self.order.find(self.node[value])

    def readers(self, value: Instruction) -> dict[int, None]:
        """Return the nodes of the kernels that read a value."""
        found = dict.fromkeys([self.find(x) for x in value.users])
        return {node: None for node in found if node in self.kernels}

    def inner(self, first: int, second: int) -> list[Instruction]:
        """Return the values of a kernel that only a second one reads."""
        reads = self.kernels[second].inputs
        return [
            x
            for x in self.kernels[first].outputs
            if x in reads
            and len(x.users) <= _MOST_READERS
            and x is not self.flow.computation.root
            and all(self.find(user) in (first, second) for user in x.users)
        ]

    def keeps_in_place(self, both: FusedKernel) -> bool:
        """Whether results that are to be written over an argument still can be."""
        reads = {self._value[x]: read for x, read in both.inputs.items()}
        for x, access in both.outputs.items():
            read = reads.get(self._overwritten.get(self._value[x], -1))
            if read is None or read.target:
                continue
            if read.access is None or read.access != access:
                return False
        return True

    # -- merging -------------------------------------------------------------------------------

    def plan(self, first: int, second: int, both: FusedKernel) -> KernelMerge | FusionRefusal:
        """Return how two kernels become one, unless that closes a cycle or costs memory.

        The first is in front of the second. More bytes may live, up to the limit, and
        bytes times places up to those that are not moved any more times the distance.
        """
        distance = self.order.rank[second] - self.order.rank[first]
        if distance > _MOST_DISTANCE:
            return FusionRefusal(RefusalKind.DISTANT, distance, _MOST_DISTANCE)
        between = self.order.between(first, second)
        if between is None:
            return FusionRefusal(RefusalKind.CYCLE)
        if between.after and between.before and distance > _FAR:
            return FusionRefusal(RefusalKind.DISTANT, distance, _FAR)
        ways = [late for late in (False, True) if not (between.after if late else between.before)]
        kernels = (self.kernels[first], self.kernels[second])
        nodes = (first, second)
        changes = [self.lives.change(kernels, nodes, both, late) for late in ways or [False]]
        change = min(changes, key=lambda x: x.area)
        most = self.lives.most(change)
        if most > self.limit:
            return FusionRefusal(RefusalKind.PEAK, most, self.limit)
        if distance > _FAR:
            less = sum([sum(x.moved()) for x in kernels]) - sum(both.moved())
            if change.area > less * distance:
                return FusionRefusal(RefusalKind.LONGER)
        return KernelMerge(first, second, both, between, change)

    def merge(self, merge: KernelMerge) -> int:
        """Make two kernels one; return its node."""
        moved = (*merge.between.after, *merge.between.before)
        before = {x: self.order.rank[x] for x in moved}
        self.lives.apply(merge.change)
        node = self.order.merge(merge.first, merge.second, merge.between, merge.change.late)
        for x, place in before.items():
            if self.order.rank[x] != place:
                self._move(x, place)
        del self.kernels[merge.first], self.kernels[merge.second]
        self.kernels[node] = merge.both
        return node

    def unite(self, groups: Sequence[Sequence[int]], made: Sequence[FusedKernel]) -> None:
        """Make one kernel of each group of kernels of one height; lives are not looked at."""
        nodes = self.order.unite(groups, self.order.heights())
        for group in groups:
            for node in group:
                del self.kernels[node]
        self.kernels.update(zip(nodes, made, strict=True))

    def overwritten_by(self, kernel: FusedKernel) -> set[int]:
        """Return the buffers of arguments over which results of a kernel are to be written."""
        values = [self._overwritten.get(self._value[x], -1) for x in kernel.outputs]
        return {x for x in values if x >= 0}

    def _move(self, node: int, before: int) -> None:
        kernel = self.kernels.get(node)
        numbers = [self.flow.number[x] for x in kernel.parts] if kernel else [node]
        nbytes = [self.flow.value_bytes[v] for x in numbers for v in self.flow.makes[x]]
        reads = [v for x in numbers for v in self.flow.reads[x]]
        self.lives.move(before, self.order.rank[node], sum(nbytes), reads)

    def merged(self) -> Iterator[tuple[int, FusedKernel]]:
        """Yield the kernels of several parts, in order, with their nodes."""
        found = [node for node, kernel in self.kernels.items() if len(kernel.parts) > 1]
        for node in sorted(found, key=self.order.rank.__getitem__):
            yield node, self.kernels[node]

    def made(self, kernel: FusedKernel) -> list[int]:
        """Return the buffers that a kernel makes."""
        return [self._value[x] for x in kernel.outputs]

    def read(self, kernel: FusedKernel) -> list[int]:
        """Return the buffers that a kernel reads."""
        return [self._value[x] for x in kernel.inputs]

    def memory_after(self) -> tuple[MemoryGraph, Int64Array]:
        """Return the memory graph of the merged kernels, and the number of each node in it."""
        stands_for = [self.order.find(self._own(node)) for node in range(len(self.instructions))]
        shares = {node: list(self._pairs(kernel)) for node, kernel in self.merged()}
        return merged_memory(self.memory, stands_for, shares)

    def _pairs(self, kernel: FusedKernel) -> Iterator[tuple[int, int]]:
        """Yield what a kernel reads with what may take its place."""
        for x, read in kernel.inputs.items():
            for y, access in kernel.outputs.items():
                if x.shape is y.shape and (read.target or read.access == access is not None):
                    yield self._value[x], self._value[y]
