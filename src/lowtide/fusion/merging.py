"""Merging of kernels in all computations of a module, as long as the peak does not rise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final, TypeAlias, final

from lowtide.analysis.memory_profile import lifetimes, step_bytes
from lowtide.fusion.kernel_graph import KernelGraph, kernels_in
from lowtide.fusion.materialize_kernel import materialize_kernels
from lowtide.fusion.order_memory import ModuleMemory, OrderMemory, Scheduler
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.traversal import running_computations

Merge: TypeAlias = Callable[[KernelGraph, Collection[int]], int]
"""Merges kernels of a graph, but not those of some nodes; returns how many vanished."""


def merge_kernels(
    module: Module,
    scheduler: Scheduler | None,
    target: TargetRecord,
    merge: Merge,
    growth: float = 0.0,
) -> int:
    """Merge kernels in all computations that run by themselves; return how many vanished.

    The `scheduler` says in which order they would run. If more bytes live at the peak of its order
    then, by more than the part `growth`, the kernels that live there stay as they were.
    """
    calls = calls_of(module)
    unused = {x for x in module.computations.values() if x not in calls}
    run = running_computations(module)
    if not any(_may_have_two(x) for x in run):
        return 0
    memory = ModuleMemory(module, run, calls, scheduler)
    merging = _Merging(memory, target, merge, growth)
    gone = 0
    while found := sum([merging.merge_in(computation) for computation in reversed(run)]):
        gone += found
        if merging.is_done(run):
            break
        memory.look_again()
    if gone:
        _remove_unused_bodies(module, unused)
    return gone


def kernel_graph(
    module: Module, computation: Computation, scheduler: Scheduler, target: TargetRecord
) -> KernelGraph:
    """Return the kernels of a computation of a module, of which none have been merged yet."""
    run = running_computations(module)
    memory = ModuleMemory(module, run, calls_of(module), scheduler)
    for caller in reversed(run):
        memory.limit_callees(caller)
    base = memory.of(computation)
    return KernelGraph(base, memory.limit(computation), target, kernels_in(base, target))


def calls_of(module: Module) -> dict[Computation, list[Instruction]]:
    """Return the instructions that call each computation of a module."""
    found: dict[Computation, list[Instruction]] = defaultdict(list)
    for computation in module.computations.values():
        for x in computation.instructions.values():
            for callee in x.called_computations:
                found[callee].append(x)
    return found


def _may_have_two(computation: Computation) -> bool:
    """Whether a computation has two instructions or more that may be kernels."""
    found = [x for x in computation.instructions.values() if x.opcode not in _NO_KERNELS]
    return len(found) >= _PAIR


_NO_KERNELS: Final = frozenset(
    {Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE}
)


def _remove_unused_bodies(module: Module, before: Collection[Computation]) -> None:
    """Remove computations that are not called any more."""
    called = calls_of(module)
    for computation in list(module.computations.values()):
        if computation not in called and computation not in before:
            del module.computations[computation.name]


@final
class _Merging:
    """Facts about the computations of a module while their kernels are merged."""

    def __init__(
        self, memory: ModuleMemory, target: TargetRecord, merge: Merge, growth: float
    ) -> None:
        self.memory = memory
        self._target = target
        self._merge = merge
        self._growth = growth
        self._settled: dict[Computation, tuple[OrderMemory, int]] = {}
        """Of computations in which nothing could be done, what they needed then."""
        self._done: set[Computation] = set()
        """Computations in which so little was left to do that more is not worth looking for."""

    def is_done(self, computations: Collection[Computation]) -> bool:
        """Return whether nothing is left to look for in some computations."""
        return self._done.issuperset(computations)

    def merge_in(self, computation: Computation) -> int:
        """Merge kernels of a computation, its callers first; return how many vanished.

        What less lives in callers then is not there for it to take.
        """
        gone = 0 if computation in self._done else self._merge_in(computation)
        self.memory.limit_callees(computation)
        return gone

    def _merge_in(self, computation: Computation) -> int:
        base = self.memory.of(computation)
        limit = self.memory.limit(computation) + int(self._growth * base.peak)
        if self._settled.get(computation) == (base, limit):
            return 0
        kernels = kernels_in(base, self._target)
        if len(kernels) < _PAIR:
            self._done.add(computation)
            return 0
        banned: set[int] = set()
        for _ in range(_ROUNDS):
            graph = KernelGraph(base, limit, self._target, kernels)
            before = len(graph.kernels)
            gone = self._merge(graph, banned)
            if not gone:
                break
            guilty = _raising_the_peak(graph, limit, self.memory.scheduler)
            if not guilty:
                materialize_kernels(computation, [kernel for _, kernel in graph.merged()])
                self.memory.update(computation)
                if gone * _FEW < before:
                    self._done.add(computation)
                return gone
            banned |= guilty
        self._settled[computation] = base, limit
        return 0


_ROUNDS: Final = 4
"""How often a computation is scheduled to see whether its peak remains."""

_PAIR: Final = 2

_FEW: Final = 16
"""Where less than one of so many kernels vanished, hardly any will the next time."""

_LEAST_BYTES: Final = 1 / 512
"""The part of the peak below which a value does not count."""


def _raising_the_peak(graph: KernelGraph, limit: int, scheduler: Scheduler | None) -> set[int]:
    """The nodes of merged kernels with values at the new peak, if that is higher than it may be.

    Those that run before it and whose results are live there, those that run after it and for
    which it holds operands, and one that runs there.
    """
    if scheduler is None:
        return set()
    after, number = graph.memory_after()
    order = scheduler(after)
    steps = step_bytes(after, order)
    at = int(steps.argmax())
    if steps[at] <= limit:
        return set()
    position, first, last = lifetimes(after, order)
    counts = (after.buffer_bytes > steps[at] * _LEAST_BYTES) & (first <= at) & (last >= at)
    counts &= (after.producer >= 0) & (after.alias_set < 0)
    found: set[int] = set()
    for node, kernel in graph.merged():
        place = position[number[node]]
        values = graph.made(kernel) if place < at else graph.read(kernel) if place > at else ()
        if place == at or any(counts[x] for x in values):
            found.update([graph.flow.number[x] for x in kernel.parts])
    return found or {graph.flow.number[x] for _, kernel in graph.merged() for x in kernel.parts}
