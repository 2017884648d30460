"""Changes of clusters where most is live, as long as they lower the peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Final, TypeAlias, final

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import Dataflow, dataflow
from lowtide.analysis.donation import Alias, aliases, body_aliases
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.live_memory import live_memory
from lowtide.fusion.order_memory import Scheduler
from lowtide.fusion.peak import Estimate, estimated
from lowtide.fusion.recomputing import SECONDS_PER_BYTE, recompute_behind
from lowtide.fusion.storing import store_before
from lowtide.fusion.total_time import total_seconds
from lowtide.ir import Computation, Instruction, Module

ROUNDS: Final = 3
"""How often a computation is scheduled to look for its peak."""


_PRICES: Final = (3e-9, 1e-8, 3e-8, 1e-7)
"""What a byte less at the peak may cost in seconds, in turn, where time may be spent on memory."""

Change: TypeAlias = Callable[[ClusterGraph, Estimate], int]


@final
class Allowance:
    """The time by which kernels may run longer for a lower peak, and by which they do.

    In each computation it is the part `priority` of the time of its kernels; `spent` are the
    seconds that this came to in all of them, each run once. Nothing that takes time is tried once
    `is_late` says so.
    """

    def __init__(self, priority: float, is_late: Callable[[], bool] = lambda: False) -> None:
        self.priority, self.spent, self.is_late = priority, 0.0, is_late


@final
class PeakLowering:
    """Lowers the peaks of the computations of a module, callees first.

    What costs next to nothing is always done, and what costs more within an allowance.
    """

    def __init__(self, module: Module, scheduler: Scheduler, allowance: Allowance) -> None:
        self._scheduler, self._allowance = scheduler, allowance
        self._flows: Dataflow = dataflow(module.entry)
        self._aliases: dict[Computation, tuple[Alias, ...]] = {module.entry: aliases(module)}
        for computation in self._flows:
            for _, role, callee in call_sites(computation):
                if role is CallRole.BODY:
                    self._aliases[callee] = body_aliases(self._flows[callee])
        self._peaks: dict[Computation, int] = {}
        self._settled_stores: ClusterGraph | None = None
        """The clusters where storing values lowered nothing: that does not depend on prices."""

    def lowered(self, graph: ClusterGraph) -> ClusterGraph:
        """Return the clusters with lower peak, or the same ones; what is given stays as it is."""
        computation = graph.computation
        if computation not in self._flows:
            return graph
        graph, best = self._settled(graph, self._estimate(graph), SECONDS_PER_BYTE, inf)
        if self._allowance.priority:
            graph, best = self._paid(graph, best)
        flow = self._flows[computation]
        held = self._aliases.get(computation, ())
        arguments = sum([flow.value_bytes[flow.parameters[x.parameter]] for x in held])
        self._peaks[computation] = max(0, best.peak_bytes - arguments)
        return graph

    def _paid(self, graph: ClusterGraph, best: Estimate) -> tuple[ClusterGraph, Estimate]:
        """The clusters after changes that take time, the cheapest first."""
        before = total_seconds(graph)
        for price in _PRICES:
            if self._allowance.is_late():
                break
            most = before * (1 + self._allowance.priority)
            graph, best = self._settled(graph, best, price, most)
        self._allowance.spent += max(0.0, total_seconds(graph) - before)
        return graph, best

    def _settled(
        self, graph: ClusterGraph, best: Estimate, price: float, most_seconds: float
    ) -> tuple[ClusterGraph, Estimate]:
        """The clusters once no change lowers the peak any more, or after the last round."""
        changes = (store_before, partial(recompute_behind, seconds_per_byte=price))
        for _ in range(ROUNDS):
            before = best.peak_bytes
            for change in changes:
                graph, best = self._changed(graph, best, change, most_seconds)
            if best.peak_bytes == before:
                break
        return graph, best

    def _changed(
        self, graph: ClusterGraph, estimate: Estimate, change: Change, most_seconds: float
    ) -> tuple[ClusterGraph, Estimate]:
        """The clusters after a change, or before it where it lowers nothing or takes too long."""
        if change is store_before and graph is self._settled_stores:
            return graph, estimate
        trial = graph.copy()
        if change(trial, estimate) and total_seconds(trial) <= most_seconds:
            found = self._estimate(trial)
            if found.peak_bytes < estimate.peak_bytes:
                return trial, found
        if change is store_before:
            self._settled_stores = graph
        return graph, estimate

    def _estimate(self, graph: ClusterGraph) -> Estimate:
        computation = graph.computation
        held = self._aliases.get(computation, ())
        memory = live_memory(graph, self._flows[computation], held, self._inner(graph))
        return estimated(memory, self._scheduler)

    def _inner(self, graph: ClusterGraph) -> Mapping[Instruction, int]:
        """What the callees of instructions need beyond operands and results."""
        inner: dict[Instruction, int] = {}
        for instruction, role, callee in call_sites(graph.computation):
            if callee in self._peaks:
                made = 0 if role in _LOOPS else instruction.shape.nbytes
                nbytes = max(0, self._peaks[callee] - made)
                inner[instruction] = max(inner.get(instruction, 0), nbytes)
        return inner


_LOOPS: Final = (CallRole.BODY, CallRole.CONDITION)
