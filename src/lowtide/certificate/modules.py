"""The memory graphs of a scheduled module as a certificate has them, and whether they are the same.

A computation that others run is a graph by itself; the node that runs it says how many bytes of
what it needs are the node's own: a loop's state, the results of a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import ComputationDataflow, dataflow
from lowtide.analysis.donation import Alias, aliases
from lowtide.analysis.footprint import body_aliases
from lowtide.analysis.memory_graph import Float64Array, MemoryGraph, memory_graph
from lowtide.certificate.graphs import Call, exponent_of, graph_of
from lowtide.certificate.orders import Ordered
from lowtide.ir import Computation, Module, Opcode
from lowtide.scheduling.proof import Proof


@dataclass(frozen=True, eq=False, slots=True)
class ComputationGraph:
    """A computation of a module, its memory graph, and which graphs its nodes run, by number."""

    computation: Computation
    graph: MemoryGraph
    calls: tuple[Call, ...]
    order: tuple[int, ...]


def computation_graphs(module: Module) -> list[ComputationGraph]:
    """Return the graphs of all that a scheduled module runs, callees first, the entry last.

    Raises ValueError for a module without a schedule.
    """
    if module.schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    flows = dataflow(module.entry)
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
        is_entry = computation is module.entry
        bound = body_aliases(flow) if computation in bodies else ()
        bound = aliases(module) if is_entry else bound
        calls = _calls(flow, numbers, state)
        order = tuple([flow.number[x] for x in module.schedule.sequences[computation]])
        found.append(ComputationGraph(computation, memory_graph(flow, bound, {}), calls, order))
        numbers[computation], state[computation] = len(numbers), _state_bytes(flow, bound)
    return found


def module_orders(
    module: Module,
    proofs: Mapping[str, Proof],
    seconds: Mapping[str, Float64Array] | None = None,
) -> list[Ordered]:
    """Return the scheduled computations of a module for a certificate.

    `proofs` and `seconds`, of each node, are by name of the computation.
    """
    known = seconds or {}
    return [
        Ordered(
            name=x.computation.name,
            graph=replace(x.graph, seconds=known.get(x.computation.name, x.graph.seconds)),
            steps=x.order,
            proof=proofs.get(x.computation.name),
            calls=x.calls,
        )
        for x in computation_graphs(module)
    ]


def differences(document: Mapping[str, Any], computations: Sequence[Ordered]) -> list[str]:
    """Return in what a valid certificate is not about some computations: none if it is.

    Times count where the computations have them, orders where the certificate has no budget.
    """
    problem, plan = document["problem"], document["plan"]
    names = [x.name for x in computations]
    if problem["names"] != names:
        return [f"it is about {', '.join(problem['names'])}, not about {', '.join(names)}"]
    exponent = exponent_of([x.graph for x in computations])
    found = []
    for number, computation in enumerate(computations):
        shown = problem["graphs"][number]
        own = graph_of(computation.graph, computation.calls, exponent).document()
        if not len(computation.graph.seconds):
            shown = {**shown, "nodes": [[x, 0, *rest] for x, _, *rest in shown["nodes"]]}
        wrong = [field for field in own if own[field] != shown[field]]
        if wrong:
            found.append(f"{computation.name}: other {', '.join(wrong)}")
        steps = [x + 1 for x in computation.steps]
        if steps and plan and not problem["budget"] and plan["orders"][number]["steps"] != steps:
            found.append(f"{computation.name}: another order")
    return found


def _calls(
    flow: ComputationDataflow, numbers: Mapping[Computation, int], state: Mapping[Computation, int]
) -> tuple[Call, ...]:
    """The calls of a computation's nodes; what is the caller's own does not count twice."""
    calls: dict[Call, None] = {}
    for instruction, _, callee in call_sites(flow.computation):
        node = flow.number[instruction]
        is_loop = instruction.opcode is Opcode.WHILE
        made = 0 if is_loop else sum([flow.value_bytes[v] for v in flow.makes[node]])
        calls[Call(node, numbers[callee], made + state[callee])] = None
    return tuple(calls)


def _state_bytes(flow: ComputationDataflow, bound: tuple[Alias, ...]) -> int:
    return sum([flow.value_bytes[flow.parameters[x.parameter]] for x in bound])
