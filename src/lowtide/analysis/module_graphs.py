"""The memory graphs of all that a module runs, and the bytes of each inside its callers.

A computation that others run has a graph of its own. The node that runs it holds what that graph
needs, less the bytes that are the node's own: the state of a loop, the results of a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow, dataflow
from lowtide.analysis.donation import Alias, aliases, body_aliases
from lowtide.analysis.memory_graph import MemoryGraph, memory_graph
from lowtide.ir import Computation, Module, Opcode
from lowtide.ir.kept import kept
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class GraphCall:
    """A node that runs the graph of number `callee`.

    The node holds what that graph needs, less `less` bytes that are the node's own buffers. It runs
    it `times` times at least, where that is known.
    """

    node: int
    callee: int
    less: int = 0
    times: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class ComputationGraph:
    """A computation, its memory graph without what callees need, and which graphs its nodes run.

    `order` is that of the module's schedule, none where it has none.
    """

    flow: ComputationDataflow
    graph: MemoryGraph
    calls: tuple[GraphCall, ...]
    order: tuple[int, ...]

    @property
    def computation(self) -> Computation:
        """The computation that this is the graph of."""
        return self.flow.computation

    def holding(self, peaks: Sequence[int]) -> MemoryGraph:
        """Return the graph with what callees need: `peaks` has the bytes of graphs by number."""
        if not self.calls:
            return self.graph
        inner = np.zeros(self.graph.node_count, np.int64)
        for call in self.calls:
            inner[call.node] = max(inner[call.node], peaks[call.callee] - call.less)
        return replace(self.graph, inner_bytes=inner)


def module_graphs(module: Module, flows: Dataflow | None = None) -> list[ComputationGraph]:
    """Return the graphs of all that a module runs, callees first, the entry last.

    `flows` is the dataflow of the entry, where it is known.
    """
    flows = dataflow(module.entry) if flows is None else flows
    bodies = {
        callee
        for computation in flows
        for _, role, callee in call_sites(computation)
        if role is CallRole.BODY
    }
    numbers: dict[Computation, int] = {}
    state: dict[Computation, int] = {}
    found: list[ComputationGraph] = []
    for computation, flow in flows.items():
        bound = body_aliases(flow) if computation in bodies else ()
        bound = aliases(module) if computation is module.entry else bound
        calls = _calls(flow, numbers, state)
        graph = _graph(flow, bound)
        found.append(ComputationGraph(flow, graph, calls, _order(module, flow)))
        numbers[computation], state[computation] = len(numbers), _state_bytes(flow, bound)
    return found


def _graph(flow: ComputationDataflow, bound: tuple[Alias, ...]) -> MemoryGraph:
    """The memory graph of a computation without what it calls, made once for a dataflow."""
    return kept(flow.computation, (_graph, flow, bound), lambda: memory_graph(flow, bound, {}))


def _order(module: Module, flow: ComputationDataflow) -> tuple[int, ...]:
    if module.schedule is None or flow.computation not in module.schedule.sequences:
        return ()
    return tuple([flow.number[x] for x in module.schedule.sequences[flow.computation]])


def _calls(
    flow: ComputationDataflow, numbers: Mapping[Computation, int], state: Mapping[Computation, int]
) -> tuple[GraphCall, ...]:
    """The calls of a computation's nodes; what is the caller's own does not count twice."""
    calls: dict[GraphCall, None] = {}
    for instruction, _, callee in call_sites(flow.computation):
        node = flow.number[instruction]
        is_loop = instruction.opcode is Opcode.WHILE
        made = 0 if is_loop else sum([flow.value_bytes[v] for v in flow.makes[node]])
        calls[GraphCall(node, numbers[callee], made + state[callee])] = None
    return tuple(calls)


def _state_bytes(flow: ComputationDataflow, bound: tuple[Alias, ...]) -> int:
    return sum([flow.value_bytes[flow.parameters[x.parameter]] for x in bound])
