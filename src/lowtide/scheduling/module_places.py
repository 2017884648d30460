"""The order of nodes that follows in a module where two values have to lie in one place.

A value may be replaced by another one: the state of a loop, what an operation writes into, an
argument that an output overwrites. It is not needed any more by then, or the module would need a
copy. So in every order that needs no copy, all that reads it runs before what makes the other one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lowtide.analysis.call_graph import while_body
from lowtide.analysis.dataflow import ComputationDataflow, ValueKind
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.ir import Computation, Opcode

Flows = Mapping[Computation, ComputationDataflow]
Reads = Mapping[int, tuple[int, ...]]
"""By node that runs a callee in its own place: the caller's values which that reads."""
Edge = tuple[int, int]
"""A node, and one that runs later."""


def forced_edges(
    graphs: Sequence[ComputationGraph], reads: Mapping[Computation, Reads]
) -> dict[Computation, list[Edge]]:
    """Return for each computation, callees first, the pairs of nodes whose order is forced."""
    flows = {x.computation: x.flow for x in graphs}
    replaced: dict[Computation, frozenset[int]] = {}
    """Per computation the numbers of the parameter leaves that something in it replaces."""
    found: dict[Computation, list[Edge]] = {}
    for graph in graphs:
        flow, computation = graph.flow, graph.computation
        ends = [
            (value, node)
            for node in range(len(flow.nodes))
            for value in _replaced_at(flow, node, flows, replaced)
        ]
        values = {value for value, _ in ends}
        replaced[computation] = frozenset([k for k, v in enumerate(flow.parameters) if v in values])
        readers = _readers(flow, reads[computation])
        ends += _bound_ends(flow, graph.graph)
        edges = [(r, node) for value, node in ends for r in readers[value] if r != node]
        found[computation] = list(dict.fromkeys(edges))
    return found


def _replaced_at(
    flow: ComputationDataflow,
    node: int,
    flows: Flows,
    replaced: Mapping[Computation, frozenset[int]],
) -> Iterator[int]:
    """The values, of any bytes, in whose place something lies once a node has run."""
    instruction = flow.nodes[node]
    yield from [x.read for x in flow.overwrites[node]]
    if instruction.opcode is Opcode.WHILE:
        given = flow.leaves_of(instruction.operands[0])
        yield from [given[leaf] for leaf in flows[while_body(instruction)].changed_state]
    elif instruction.opcode in (Opcode.CALL, Opcode.ASYNC_START):
        given = tuple([v for x in instruction.operands for v in flow.leaves_of(x)])
        yield from [given[k] for k in sorted(replaced[instruction.called_computations[0]])]
    elif instruction.opcode is Opcode.CONDITIONAL:
        made = [flow.leaves[node].index(value) for value in flow.makes[node]]
        for branch, x in zip(
            instruction.called_computations, instruction.operands[1:], strict=True
        ):
            given, inner = flow.leaves_of(x), flows[branch]
            returned = {inner.root[leaf] for leaf in made}
            yield from [given[k] for k in sorted(replaced[branch])]
            yield from [given[k] for k, v in enumerate(inner.parameters) if v in returned]


def _bound_ends(flow: ComputationDataflow, graph: MemoryGraph) -> Iterator[Edge]:
    """Each argument that a result is written over, and the node that makes the result."""
    for before, value in bound_results(flow, graph).items():
        is_made = flow.value_kind[value] is not ValueKind.PARAMETER
        if before not in flow.root and is_made:
            yield before, flow.value_node[value]


def bound_results(flow: ComputationDataflow, graph: MemoryGraph) -> dict[int, int]:
    """Return the result that is written over each argument over which one is."""
    parameter_of = {int(graph.alias_set[v]): v for v in flow.parameters if graph.alias_set[v] >= 0}
    found: dict[int, int] = {}
    for value in dict.fromkeys(flow.root):
        before = parameter_of.get(int(graph.alias_set[value]))
        if before is not None:
            found[before] = value
    return found


def _readers(flow: ComputationDataflow, reads: Reads) -> list[list[int]]:
    """The nodes that read each value that takes bytes."""
    readers: list[list[int]] = [[] for _ in flow.value_node]
    for node, values in enumerate(flow.reads):
        for value in reads.get(node, values):
            if flow.value_bytes[value]:
                readers[value].append(node)
    return readers


def may_take_over(
    flow: ComputationDataflow, graph: MemoryGraph, bound: Mapping[int, int], read: int, made: int
) -> bool:
    """Whether a buffer that is made may lie in the place of one that is read, in some order.

    `bound` has the results that are written over arguments. A result has the place of the argument
    that it is written over, or one of its own: it takes that of no other argument that results are
    written over. Nor does a value that is still read when that result is made.
    """
    if read not in bound:
        return True
    result = bound[read]
    if made in flow.root:
        return bool(graph.alias_set[made] == graph.alias_set[read])
    node = flow.value_node[result]
    if flow.value_kind[result] is ValueKind.PARAMETER or made not in flow.reads[node]:
        return True
    calls = flow.nodes[node].called_computations and flow.nodes[node].opcode is not Opcode.FUSION
    return bool(calls) or (made, result) in flow.shares[node]
