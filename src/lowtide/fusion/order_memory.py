"""The order in which the instructions of a computation would run, and the memory it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.call_graph import call_sites, while_body
from lowtide.analysis.dataflow import ComputationDataflow, dataflow
from lowtide.analysis.donation import Alias, aliases, body_aliases
from lowtide.analysis.memory_graph import MemoryGraph, memory_graph
from lowtide.analysis.memory_profile import step_bytes
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.kept import kept
from lowtide.ir.traversal import all_callees, post_order
from lowtide.records import dataclass

Int64Array: TypeAlias = npt.NDArray[np.int64]
Scheduler: TypeAlias = Callable[[MemoryGraph], Int64Array]
"""From a memory graph to an order of its nodes."""


@dataclass(frozen=True, eq=False, slots=True)
class OrderMemory:
    """A computation, an order of its nodes, and the bytes that live in each step of it."""

    flow: ComputationDataflow
    graph: MemoryGraph
    order: Int64Array
    aliases: Sequence[Alias]
    steps: Int64Array

    @property
    def peak(self) -> int:
        """Bytes that live at most."""
        return int(self.steps.max(initial=0))


@final
class ModuleMemory:
    """Needs of the computations that a module runs; `computations` stand callees first."""

    def __init__(
        self,
        module: Module,
        computations: Sequence[Computation],
        calls: Mapping[Computation, Sequence[Instruction]],
        scheduler: Scheduler | None,
    ) -> None:
        self.scheduler = scheduler
        """None stands for the order of the text."""
        self._module = module
        self._calls = calls
        self._peaks: dict[Computation, int] = {}
        self._known: dict[Computation, OrderMemory] = {}
        self._computations = computations
        self._slack: dict[Computation, int] = {}
        """Per computation the bytes that more could live in it before its callers noticed."""
        self.look_again()

    def look_again(self) -> None:
        """Find what computations need that have changed, callees first, and forget all limits."""
        for computation in self._computations:
            self.of(computation)
        self._slack = {}

    def of(self, computation: Computation) -> OrderMemory:
        """Return what a computation needs; its callees have been asked for before."""
        found = self._known.get(computation)
        if found is None:
            found = self._known[computation] = self._estimate(computation)
        return found

    def limit(self, computation: Computation) -> int:
        """Return how many bytes may live in a computation, so that the module needs no more.

        The callers have had `limit_callees` since the limits were forgotten.
        """
        return self.of(computation).peak + self._slack.get(computation, 0)

    def limit_callees(self, computation: Computation) -> None:
        """Note what more may live in what a computation calls before that would be noticed."""
        sites = list(call_sites(computation))
        if not sites:
            return
        memory = self.of(computation)
        most = self.limit(computation)
        position = np.argsort(memory.order)
        for instruction, _, callee in sites:
            free = most - int(memory.steps[position[memory.flow.number[instruction]]])
            self._slack[callee] = min(self._slack.get(callee, free), free)

    def update(self, computation: Computation) -> None:
        """Note that a computation has changed."""
        waiting = [computation]
        while waiting:
            changed = waiting.pop()
            if self._known.pop(changed, None) is not None:
                waiting += [x.parent for x in self._calls.get(changed, ())]
        if self._calls.get(computation):
            self.of(computation)

    def _estimate(self, computation: Computation) -> OrderMemory:
        inner: dict[Instruction, int] = {}
        for instruction, _, callee in call_sites(computation):
            inner[instruction] = max(inner.get(instruction, 0), self._peaks.get(callee, 0))
        callers = self._calls.get(computation, ())
        is_body = any(x.opcode is Opcode.WHILE and while_body(x) is computation for x in callers)
        found = self._kept(computation, inner, is_body)
        arguments = [found.flow.parameters[x.parameter] for x in found.aliases]
        held = sum([found.flow.value_bytes[x] for x in arguments])
        self._peaks[computation] = found.peak - held
        return found

    def _kept(
        self, computation: Computation, inner: Mapping[Instruction, int], is_body: bool
    ) -> OrderMemory:
        """What a computation needs, found once as long as neither it nor what it calls changes."""
        held = aliases(self._module) if computation.is_entry else ()

        def order_memory() -> OrderMemory:
            flow = dataflow(computation)[computation]
            bound = body_aliases(flow) if is_body and not computation.is_entry else held
            graph = memory_graph(flow, bound, inner)
            if self.scheduler is None:
                order = np.array([flow.number[x] for x in post_order(computation)], np.int64)
            else:
                order = self.scheduler(graph)
            return OrderMemory(flow, graph, order, bound, step_bytes(graph, order))

        called = tuple([(x, x.version) for x in all_callees(computation)])
        key = (OrderMemory, self.scheduler, held, tuple(inner.items()), is_body, called)
        return kept(computation, key, order_memory)
