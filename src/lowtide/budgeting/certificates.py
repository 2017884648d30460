"""Certificates of plans within a budget: that they keep to it, and the least that they cost.

The proof is about the graphs of the module as it is planned without a budget. The plan is that of
the module in which the further runs of instructions are written out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.budgeting.bounds import ModuleBounds
from lowtide.budgeting.graphs import BudgetGraph, BudgetGraphs, budget_graphs
from lowtide.certificate.graphs import exponent_of
from lowtide.certificate.modules import differences, ordered
from lowtide.certificate.orders import (
    Boundary,
    Ordered,
    arena_of_given,
    order_sections,
    program_budget_certificate,
)
from lowtide.compiler import ModulePlan
from lowtide.compiler.certificates import arena_of, certificate_of, scheduled_plan
from lowtide.cost.machine import Machine
from lowtide.ir import Computation, Module
from lowtide.records import dataclass
from lowtide.scheduling.proof import CutBound, KeptBytes, Proof
from lowtide.search.effort import Effort


def certificate_within(
    graphs: BudgetGraphs, bounds: ModuleBounds, budget: int, made: ModulePlan | None
) -> dict[str, Any]:
    """Return the certificate of a plan within a budget of bytes, and of what it costs at least.

    `graphs` are those of the module planned without a budget, without scratch; `bounds` may be of
    graphs with scratch. `made` is the plan, also without scratch, of this module and no variant;
    None where no plan is known: then the certificate says whether there is none. Raises ValueError
    for a budget of 0 bytes.
    """
    base = _base(graphs, bounds.boundaries(budget))
    program = None if made is None else _program(made, graphs.machine)
    exponent = _exponent(base, program)
    sections: dict[str, Any] = {}
    if made is not None and program is not None:
        sections = order_sections(program, _text(made), arena_of(made), exponent)
    return program_budget_certificate(
        base.computations,
        str(graphs.module).encode(),
        budget,
        base.boundaries,
        sections,
        base.given_bytes,
        exponent,
    )


def certify_within(base: Module, module: Module, budget: int) -> dict[str, Any]:
    """Return the certificate of a scheduled module in which parts of another one run again.

    `base` is that other one, also scheduled, and `budget` in bytes. What kernels need while they
    run does not count, so less is proved than with it. Where the plan without that does not keep to
    the budget, the certificate is that of the module alone. Raises LowtideError as `certify` does.
    """
    made = scheduled_plan(module)
    if made.report.ladder.arena_bytes > budget:
        return certificate_of(made)
    graphs = budget_graphs(base)
    return certificate_within(graphs, ModuleBounds(graphs, Effort.DEFAULT), budget, made)


def differences_within(
    document: Mapping[str, Any], graphs: BudgetGraphs, made: ModulePlan | None
) -> list[str]:
    """Return in what a valid certificate is not that of a module and its plan: none if it is.

    `graphs` and `made` are as for `certificate_within`; None says that no plan is known, and holds
    for a certificate without one only.
    """
    base = _base(graphs, ())
    program = None if made is None else _program(made, graphs.machine)
    exponent = _exponent(base, program)
    problem, plan = document["problem"], document["plan"]
    given = arena_of_given(base.given_bytes)
    found = differences({**document, "plan": {}}, base.computations, given, exponent)
    if problem["text"] != sha256(str(graphs.module).encode()).hexdigest():
        found.append("the module without a budget has another text")
    if (made is None) != (not plan):
        return [*found, "it has a plan" if made is None else "it has no plan, and there is one"]
    if made is not None and program is not None:
        inner = differences(plan, program, arena_of(made).rows, exponent)
        found += [f"the plan: {x}" for x in inner]
        if plan["problem"]["text"] != sha256(_text(made)).hexdigest():
            found.append("the plan is that of another text")
    return found


def is_within(document: Mapping[str, Any]) -> bool:
    """Whether a certificate is one of a module within a budget, or says that no plan is known."""
    problem, plan = document["problem"], document["plan"]
    return bool(document["kind"] == "order" and problem["budget"] and "orders" not in plan)


@dataclass(frozen=True, slots=True)
class _Base:
    """Data of a module without a budget for a certificate, and the place of its cost's proof."""

    computations: list[Ordered]
    boundaries: list[Boundary]
    given_bytes: int


def _base(graphs: BudgetGraphs, boundaries: Sequence[Boundary]) -> _Base:
    """Return the computations in the numbers of the text; boundaries are per graph, or none."""
    given = graphs.entry.state_bytes
    if graphs.has_calls:
        return _Base([_as_one_node(graphs)], [Boundary(1, 0.0)], given)
    models = _timed(graphs)
    prices: dict[str, float] = {}
    proofs: list[Proof] = [KeptBytes(0)] * len(models)
    for number, boundary in enumerate(boundaries):
        prices[models[number].computation.name] = boundary.price
        if boundary.node < models[number].graph.node_count:
            proofs[number] = CutBound(0, boundary.node)
    found = ordered(list(zip(models, proofs, strict=True)))
    placed = [Boundary(_node(x), prices.get(x.name, 0.0)) for x in found]
    return _Base(found, placed, given)


def _node(computation: Ordered) -> int:
    proof = computation.proof
    return proof.node if isinstance(proof, CutBound) else computation.graph.node_count


def _program(made: ModulePlan, machine: Machine) -> list[Ordered]:
    graphs = budget_graphs(made.module, machine=machine)
    return ordered([(x, None) for x in _timed(graphs)])


def _text(made: ModulePlan) -> bytes:
    return str(made.module).encode()


def _exponent(base: _Base, program: Sequence[Ordered] | None) -> int:
    """The exponent of the tick that suits both."""
    rows = [base.computations, program or ()]
    return min([exponent_of([(x.graph, x.calls) for x in row]) for row in rows])


# -- graphs ----------------------------------------------------------------------------------------


def _timed(graphs: BudgetGraphs) -> list[ComputationGraph]:
    """The graphs with seconds of nodes without what they run, how often they run that, and control.

    In `control` a node that runs once only stands before itself.
    """
    return [_timed_graph(graphs, graph) for graph in graphs.graphs]


def _timed_graph(graphs: BudgetGraphs, graph: BudgetGraph) -> ComputationGraph:
    model = graph.found
    runs = Counter[tuple[int, Computation]]()
    for run in graph.times.runs:
        if run.is_certain:
            runs[run.node, run.callee] += run.count
    callees = [graphs.graphs[call.callee].computation for call in model.calls]
    pairs = zip(model.calls, callees, strict=True)
    calls = [replace(call, times=runs[call.node, callee]) for call, callee in pairs]
    control = [list(row) for row in model.graph.control.rows()]
    for node in sorted(graph.once):
        control[node].append(node)
    seconds = graph.of_nodes(graph.times.with_branches(graphs.totals))
    timed = replace(model.graph, seconds=seconds, control=lists(control))
    return replace(model, graph=timed, calls=tuple(calls))


def _as_one_node(graphs: BudgetGraphs) -> Ordered:
    """The entry as one node that makes all results: all that is proved of a module with calls."""
    entry = graphs.entry.found.graph
    results = np.flatnonzero(entry.live_out)
    count = len(results)
    nothing, one = np.zeros(1, np.int64), np.ones(1, np.bool_)
    graph = MemoryGraph(
        operands=lists([[]]),
        control=lists([[]]),
        scratch_bytes=nothing,
        inner_bytes=nothing,
        name_rank=np.zeros(1, np.int32),
        is_scalar=~one,
        is_leaf=~one,
        urgency=np.zeros(1, np.int32),
        root=0,
        buffer_bytes=entry.buffer_bytes[results],
        producer=np.zeros(count, np.int32),
        consumers=lists([[] for _ in results]),
        live_out=np.ones(count, np.bool_),
        alias_set=np.full(count, -1, np.int32),
        colour=np.zeros(count, np.int32),
        bin=np.full(count, -1, np.int32),
        shares=np.zeros((0, 3), np.int32),
        seconds=np.array([graphs.totals[graphs.entry.computation]]),
    )
    return Ordered(graphs.entry.computation.name, graph, ())
