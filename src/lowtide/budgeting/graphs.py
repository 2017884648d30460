"""The memory graphs of a scheduled module as budgets need them: with times, scratch, runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow, dataflow
from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.budgeting.once import Memo, runs_once
from lowtide.cost.machine import X86_SERVER, Machine
from lowtide.cost.module_times import Times, module_times, run_counts
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.records import dataclass
from lowtide.scheduling.module_model import model_graphs, program_order

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
ScratchBytes = Callable[[Instruction], int]


@dataclass(frozen=True, eq=False, slots=True)
class BudgetGraph:
    """A computation: its graph, the times of its nodes, and which of them run once only.

    The graph is that of `scheduling/module_model.py`: no step takes more than a step of the program
    does. Behind the instructions it has a node for each call or conditional that begins. Control is
    what the module asks for. `count` is how often the computation runs at least in one run of the
    module. `state_bytes` are bytes of the graph that belong to the caller: of the entry, donated
    arguments.
    """

    found: ComputationGraph
    times: Times
    once: frozenset[int]
    count: int
    state_bytes: int

    @property
    def computation(self) -> Computation:
        """The computation that this is the graph of."""
        return self.found.computation

    @property
    def order(self) -> Int64Array:
        """The order of the module's schedule."""
        return np.array(self.found.order, np.int64)

    def holding(self, peaks: Sequence[int], totals: Mapping[Computation, float]) -> MemoryGraph:
        """Return the graph with what callees need, in bytes by number and in seconds."""
        seconds = self.of_nodes(self.times.with_callees(totals))
        return replace(self.found.holding(peaks), seconds=seconds)

    def of_nodes(self, seconds: Float64Array) -> Float64Array:
        """Return seconds of instructions as those of nodes: what begins a call takes no time."""
        return np.concatenate([seconds, np.zeros(self.found.graph.node_count - len(seconds))])

    def program(self, sequence: Sequence[int]) -> tuple[int, ...]:
        """Return the instructions of a sequence of nodes, by number."""
        return program_order(sequence, self.found)

    def nodes(self, program: Sequence[int]) -> tuple[int, ...]:
        """Return the nodes of a sequence of instructions: each call follows its beginning."""
        begins = _begins(self.found)
        return tuple([x for node in program for x in (*begins.get(node, ()), node)])


@dataclass(frozen=True, eq=False)
class BudgetGraphs:
    """The graphs of all that a scheduled module runs, callees first, the entry last.

    Times are those of `machine`.
    """

    module: Module
    flows: Dataflow
    graphs: tuple[BudgetGraph, ...]
    machine: Machine

    @property
    def entry(self) -> BudgetGraph:
        """The graph of the entry."""
        return self.graphs[-1]

    @cached_property
    def totals(self) -> dict[Computation, float]:
        """Seconds of one run of each computation as it is, with those of what it runs."""
        found: dict[Computation, float] = {}
        for graph in self.graphs:
            seconds = graph.of_nodes(graph.times.with_callees(found))
            found[graph.computation] = float(seconds.sum())
        return found

    @property
    def has_calls(self) -> bool:
        """Whether something runs a computation in its own place: a call, a conditional, async."""
        return any(_begins(graph.found) for graph in self.graphs)

    @property
    def is_exact(self) -> bool:
        """Whether sequences need at least what the graphs say, which callees may fall short of."""
        return len(self.graphs) == 1


def budget_graphs(
    module: Module, scratch_bytes: ScratchBytes | None = None, machine: Machine = X86_SERVER
) -> BudgetGraphs:
    """Return the graphs of a scheduled module, with the times of a machine.

    `scratch_bytes` says what an instruction needs while it runs; nothing where it is None.
    """
    flows = dataflow(module.entry)
    times = module_times(flows, machine)
    counts = run_counts(flows, times)
    memo: Memo = {}
    conditions = _conditions(flows)
    found = []
    for model in model_graphs(module, flows, scratch_bytes):
        flow, computation = model.flow, model.computation
        once = [i for i, x in enumerate(flow.nodes) if runs_once(x, memo)]
        first = 0 if computation in conditions else len(flow.nodes)
        once += range(first, model.graph.node_count)
        graph = replace(model, graph=replace(model.graph, control=lists(_controlled(model))))
        owned = int(graph.graph.buffer_bytes[graph.graph.producer < 0].sum())
        found.append(
            BudgetGraph(graph, times[computation], frozenset(once), counts[computation], owned)
        )
    return BudgetGraphs(module, flows, tuple(found), machine)


def _conditions(flows: Dataflow) -> set[Computation]:
    """The conditions of loops, which decide over little memory: they run as they are."""
    sites = [site for computation in flows for site in call_sites(computation)]
    return {callee for _, role, callee in sites if role is CallRole.CONDITION}


def _begins(model: ComputationGraph) -> dict[int, Sequence[int]]:
    """The node that begins each call or conditional, in a list."""
    rows = model.graph.operands.rows()
    count = len(model.flow.nodes)
    return {node: row for node, row in enumerate(rows[:count]) if row and row[0] >= count}


# -- control ---------------------------------------------------------------------------------------


def _controlled(model: ComputationGraph) -> list[list[int]]:
    """The nodes before each node by control; what a call waits for comes before it begins."""
    rows = _control(model.flow)
    rows += [[] for _ in range(model.graph.node_count - len(rows))]
    for node, (begin,) in _begins(model).items():
        rows[begin], rows[node] = rows[node], [begin]
    return rows


def _control(flow: ComputationDataflow) -> list[list[int]]:
    """Per node those that have to run before, also for the sake of what only passes values on.

    What passes values on, or is a parameter, runs when one of them is read. So its readers wait for
    what it waits for, and what waits for it waits for those that make what it passes on.
    """
    before = [{flow.number[y]: None for y in x.control_predecessors} for x in flow.nodes]
    if not any(before):
        return [[] for _ in before]
    rows = zip(flow.makes, flow.nodes, strict=True)
    passing = [not makes or x.opcode is Opcode.PARAMETER for makes, x in rows]
    for node, row in enumerate(before):
        if passing[node] and row:
            for reader in _readers(flow, node, passing):
                before[reader].update(row)
    for node, row in enumerate(before):
        for other in list(row):
            if passing[other]:
                makers = {flow.value_node[v]: None for v in flow.leaves[other]}
                before[node].update(makers)
    return [[x for x in row if x != node] for node, row in enumerate(before)]


def _readers(flow: ComputationDataflow, node: int, passing: Sequence[bool]) -> list[int]:
    """The nodes that read what a node passes on, through others of its kind too."""
    found: dict[int, None] = {}
    stack = [node]
    while stack:
        for user in flow.nodes[stack.pop()].users:
            number = flow.number[user]
            if number not in found:
                found[number] = None
                if passing[number]:
                    stack.append(number)
    return list(found)
