"""Multi-output fusion: kernels that read the same, or one the other, and keep all results.

Nothing is computed twice. Reads and launches are saved. It may cost memory, since all operands and
results live together where the kernel runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, final

from lowtide.cost.kernels import move_seconds
from lowtide.cost.machine import Machine
from lowtide.fusion.kernel_graph import KernelGraph, KernelMerge
from lowtide.fusion.kernels import FusedKernel, merged, shared_reads
from lowtide.fusion.merging import merge_kernels
from lowtide.fusion.order_memory import Scheduler
from lowtide.fusion.refusal import FusionRefusal, RefusalKind
from lowtide.fusion.target_record import CPU_TARGET, TargetRecord
from lowtide.ir import Instruction, Module
from lowtide.passes.interface import Pass, example

_NEXT: Final = 3
"""How many of the next readers of a value, in order, one may be merged with."""

_LEAST_SHARE: Final = 0.02
"""The part of the time of two kernels that has to be saved."""


def fuse_multiple_outputs(
    module: Module, scheduler: Scheduler | None = None, target: TargetRecord = CPU_TARGET
) -> int:
    """Merge kernels that share reads in all computations that run; return how many vanished.

    The `scheduler` says in which order they would run. If more bytes live at the peak of its order
    then, the kernels that live there stay as they were; without one, only what lives between two
    kernels in the order of the text is looked at.
    """
    return merge_kernels(
        module, scheduler, target, lambda graph, banned: _Merger(graph, banned).run()
    )


def refusal_side_by_side(
    graph: KernelGraph, first: Instruction, second: Instruction
) -> FusionRefusal | None:
    """Return why two kernels that were left apart are, None where one is none of the graph's."""
    nodes = graph.find(first), graph.find(second)
    if not all(x in graph.kernels for x in nodes):
        return None
    return _Merger(graph, ()).refusal(*nodes) or FusionRefusal(RefusalKind.RAISING)


class _Pair(NamedTuple):
    """Two kernels, the one that runs first in front, what they would be as one, what that saves."""

    first: FusedKernel
    second: FusedKernel
    both: FusedKernel
    seconds: float


@final
class _Merger:
    """The pairs of kernels of one computation, those first that save most."""

    def __init__(self, graph: KernelGraph, banned: Collection[int]) -> None:
        self.graph = graph
        self.banned = banned
        """Nodes of kernels that stay alone."""
        self.seconds: dict[FusedKernel, float] = {}
        """Of the kernels that have been looked at: a launch, and reads and writes."""
        self.queue: list[tuple[float, int, int]] = []
        """Seconds saved, negative, and two instructions whose kernels could be merged."""
        self.pairs: dict[tuple[int, int], _Pair] = {}
        """What the nodes in the queue would be as one."""
        self.seen: set[tuple[FusedKernel, FusedKernel]] = set()
        """Pairs that have been in the queue, or are not worth it."""
        self.reached = graph.order.reached()

    def run(self) -> int:
        """Merge kernels until no two are left that have not been looked at; return how many go."""
        gone = 0
        while True:
            for first, second in dict.fromkeys([*self._neighbours(), *self._siblings()]):
                if first not in self.banned and second not in self.banned:
                    self._push(first, second)
            if not self.queue:
                return gone
            while self.queue:
                _, first, second = heappop(self.queue)
                gone += self._try(first, second)

    # -- pairs ---------------------------------------------------------------------------------

    def _neighbours(self) -> Iterator[tuple[int, int]]:
        """Yield kernels of which one reads the other."""
        for node, kernel in self.graph.kernels.items():
            for value in kernel.inputs:
                source = self.graph.find(value)
                if source in self.graph.kernels:
                    yield source, node

    def _siblings(self) -> Iterator[tuple[int, int]]:
        """Yield kernels that read the same value in the same space."""
        rank = self.graph.order.rank
        for value in self.graph.instructions:
            if len(value.users) < 2 or not value.shape.is_array or value.shape.element_count < 2:
                continue
            same: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for node in self.graph.readers(value):
                space = self.graph.kernels[node].space
                same[tuple([size for size in space if size != 1])].append(node)
            for nodes in same.values():
                nodes.sort(key=rank.__getitem__)
                for i, node in enumerate(nodes):
                    for other in nodes[i + 1 : i + 1 + _NEXT]:
                        yield node, other

    def _push(self, first: int, second: int) -> None:
        """Put two kernels into the queue if they are worth it and have never been there."""
        nodes = self._in_order(first, second)
        if nodes is None:
            return
        kernels = self.graph.kernels[nodes[0]], self.graph.kernels[nodes[1]]
        if kernels in self.seen:
            return
        self.seen.add(kernels)
        found = self._united(nodes, kernels)
        if isinstance(found, _Pair):
            self.pairs[first, second] = found
            heappush(self.queue, (-found.seconds, first, second))

    def _united(
        self, nodes: tuple[int, int], kernels: tuple[FusedKernel, FusedKernel]
    ) -> _Pair | FusionRefusal:
        """What two kernels would be as one, or why that is not legal or not worth it."""
        little = self._too_little(kernels, _most_shared(*kernels))
        if little is not None:
            return little
        if self._closes_cycle(nodes, kernels):
            return FusionRefusal(RefusalKind.CYCLE)
        both = merged(*kernels, self.graph.target, self.graph.inner(*nodes))
        if isinstance(both, FusionRefusal):
            return both
        moved = _no_longer_moved(*kernels, both)
        little = self._too_little(kernels, moved)
        if little is not None:
            return little
        return _Pair(*kernels, both, _seconds(self.graph.target.machine, moved))

    def refusal(self, first: int, second: int) -> FusionRefusal | None:
        """Return why the kernels of two nodes are left apart, None where they would not be."""
        nodes = self._in_order(first, second)
        if nodes is None:
            return None
        kernels = self.graph.kernels[nodes[0]], self.graph.kernels[nodes[1]]
        pair = self._united(nodes, kernels)
        if isinstance(pair, FusionRefusal):
            return pair
        found = self._planned(nodes, pair)
        return found if isinstance(found, FusionRefusal) else None

    def _closes_cycle(
        self, nodes: tuple[int, int], kernels: tuple[FusedKernel, FusedKernel]
    ) -> bool:
        """Whether a third kernel is known to run between two that have not been merged."""
        if self.reached is None or any(len(x.parts) > 1 for x in kernels):
            return False
        return self.reached.by_third(*nodes)

    def _too_little(
        self, kernels: tuple[FusedKernel, FusedKernel], moved: Sequence[int]
    ) -> FusionRefusal | None:
        """Why it does not count against the time of two kernels that so much is not moved."""
        if not any(moved):
            return FusionRefusal(RefusalKind.NOTHING_SHARED)
        machine = self.graph.target.machine
        total = 0.0
        for kernel in kernels:
            if kernel not in self.seconds:
                self.seconds[kernel] = _seconds(machine, kernel.moved())
            total += self.seconds[kernel]
        saved = _seconds(machine, moved)
        if saved > _LEAST_SHARE * total:
            return None
        return FusionRefusal(RefusalKind.LITTLE_SHARED, saved / total, _LEAST_SHARE)

    def _in_order(self, first: int, second: int) -> tuple[int, int] | None:
        """The two nodes as of now, None where they are one."""
        find, rank = self.graph.order.find, self.graph.order.rank
        a, b = find(first), find(second)
        if a == b:
            return None
        return (a, b) if rank[a] < rank[b] else (b, a)

    # -- merging -------------------------------------------------------------------------------

    def _try(self, first: int, second: int) -> bool:
        """Merge two kernels if they still are the ones looked at, or look at them anew."""
        pair = self.pairs.pop((first, second))
        nodes = self._in_order(first, second)
        if nodes is None:
            return False
        if (self.graph.kernels[nodes[0]], self.graph.kernels[nodes[1]]) != pair[:2]:
            self._push(first, second)
            return False
        plan = self._planned(nodes, pair)
        if isinstance(plan, FusionRefusal):
            return False
        self.graph.merge(plan)
        return True

    def _planned(self, nodes: tuple[int, int], pair: _Pair) -> KernelMerge | FusionRefusal:
        if not self.graph.keeps_in_place(pair.both):
            return FusionRefusal(RefusalKind.IN_PLACE)
        return self.graph.plan(*nodes, pair.both)


def _most_shared(first: FusedKernel, second: FusedKernel) -> list[int]:
    """The bytes that are not moved if all that both read, or one makes for the other, is shared."""
    fewer, more = sorted((first, second), key=lambda x: len(x.inputs))
    moved = [read.nbytes for x, read in fewer.inputs.items() if x in more.inputs]
    for x in first.outputs:
        if x in second.inputs:
            moved += (second.inputs[x].nbytes, x.shape.nbytes)
    return moved


def _no_longer_moved(first: FusedKernel, second: FusedKernel, both: FusedKernel) -> list[int]:
    """The bytes of each array that the kernel of both does not move any more."""
    moved = [*shared_reads(first, second, both)]
    moved += [read.nbytes for x, read in second.inputs.items() if x in first.outputs]
    moved += [x.shape.nbytes for x in first.outputs if x not in both.outputs]
    return moved


def _seconds(machine: Machine, moved: Iterable[int]) -> float:
    """A launch, and reading or writing each of so many bytes."""
    return machine.launch_seconds + sum([move_seconds(nbytes, machine) for nbytes in moved])


PASSES: Final = (
    Pass(
        "multi-output-fusion",
        fuse_multiple_outputs,
        "Makes one kernel of several that read the same values or one another; keeps all results.",
        *example(
            """
HloModule m

+fused_computation {
+ param_0 = f32[64,64] parameter(0)
+ s = f32[64,64] sine(param_0)
+ c = f32[64,64] cosine(param_0)
+ ROOT results = (f32[64,64], f32[64,64]) tuple(s, c)
+}
+
ENTRY main {
  x = f32[64,64] parameter(0)
- s = f32[64,64] sine(x)
- c = f32[64,64] cosine(x)
+ fused = (f32[64,64], f32[64,64]) fusion(x), kind=kLoop, calls=fused_computation
+ s = f32[64,64] get-tuple-element(fused), index=0
+ c = f32[64,64] get-tuple-element(fused), index=1
  ROOT both = (f32[64,64], f32[64,64]) tuple(s, c)
}
"""
        ),
    ),
)
