"""Clusters are changed where most is live, as long as that lowers the peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import Dataflow, dataflow
from lowtide.analysis.donation import Alias, aliases
from lowtide.analysis.footprint import body_aliases
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.live_memory import live_memory
from lowtide.fusion.order_memory import Scheduler
from lowtide.fusion.peak import Estimate, estimated
from lowtide.fusion.recomputing import recompute_behind
from lowtide.fusion.storing import store_before
from lowtide.ir import Computation, Instruction, Module

ROUNDS: Final = 3
"""How often a computation is scheduled to look for its peak."""


@final
class PeakLowering:
    """Lowers the peaks of the computations of a module, callees first."""

    def __init__(self, module: Module, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._flows: Dataflow = dataflow(module.entry)
        self._aliases: dict[Computation, tuple[Alias, ...]] = {module.entry: aliases(module)}
        for computation in self._flows:
            for _, role, callee in call_sites(computation):
                if role is CallRole.BODY:
                    self._aliases[callee] = body_aliases(self._flows[callee])
        self._peaks: dict[Computation, int] = {}

    def lowered(self, graph: ClusterGraph) -> ClusterGraph:
        """Return the clusters with lower peak, or the same ones; what is given stays as it is."""
        computation = graph.computation
        if computation not in self._flows:
            return graph
        best = self._estimate(graph)
        for _ in range(ROUNDS):
            before = best.peak_bytes
            for change in (store_before, recompute_behind):
                graph, best = self._changed(graph, best, change)
            if best.peak_bytes == before:
                break
        flow = self._flows[computation]
        held = self._aliases.get(computation, ())
        arguments = sum([flow.value_bytes[flow.parameters[x.parameter]] for x in held])
        self._peaks[computation] = max(0, best.peak_bytes - arguments)
        return graph

    def _changed(
        self,
        graph: ClusterGraph,
        estimate: Estimate,
        change: Callable[[ClusterGraph, Estimate], int],
    ) -> tuple[ClusterGraph, Estimate]:
        """The clusters after a change and what they need, or before it if that is no more."""
        trial = graph.copy()
        if not change(trial, estimate):
            return graph, estimate
        found = self._estimate(trial)
        return (trial, found) if found.peak_bytes < estimate.peak_bytes else (graph, estimate)

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
