"""Memory graphs of a module in which no step takes more than a step of the program does.

A bound on these graphs is a bound on the flattened program, for any order of each computation. A
call or a conditional runs its callee on values of its caller. It is two nodes here: one that begins
the callee, and the node itself, which holds what the callee needs.

    order      ... begin node ...
    given      #########              live until the callee begins
    callee               ####         how long it holds what it was given is up to the callee
    result               #########    counts where someone reads it

What is given counts in the graph of the callee where nothing else reads it. Elsewhere it counts in
the graph of the caller, and only if it is needed later.

In the program the two nodes run one right after the other; an order of the graph may run others
between them. Where a result of equal bytes can take the place of what is given, the node itself
reads that. This costs no step more, and no order can begin long before the node runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow, ValueKind
from lowtide.analysis.memory_graph import Int32Array, Int64Array, Lists, MemoryGraph, lists
from lowtide.analysis.module_graphs import ComputationGraph, GraphCall, module_graphs
from lowtide.analysis.scratch import ScratchBytes
from lowtide.ir import Computation, Instruction, Module, Opcode, Schedule
from lowtide.records import dataclass
from lowtide.scheduling.module_places import Edge, Reads, bound_results, forced_edges, may_take_over

_INSIDE: Final = frozenset({Opcode.CALL, Opcode.CONDITIONAL, Opcode.ASYNC_START})
"""Operations whose callees work on the values of the caller."""


def model_graphs(
    module: Module,
    flows: Dataflow | None = None,
    scratch_bytes: ScratchBytes | None = None,
    *,
    has_copies: bool = True,
) -> list[ComputationGraph]:
    """Return the graphs of all that a module runs, callees first, the entry last.

    Nodes are those of `module_graphs`, followed by one for each call or conditional that begins;
    `order` has these, too. What instructions need while they run counts where `scratch_bytes` tells
    how much that is. What runs first so that no more copies are needed is in `control`, unless
    the module lacks copies (`has_copies`).
    """
    graphs = module_graphs(module, flows)
    reads = _reads(graphs)
    uses = _uses(graphs, reads)
    edges = forced_edges(graphs, reads) if has_copies else {}
    found = []
    for graph in graphs:
        x = graph.computation
        graph = _with_scratch(graph, scratch_bytes)
        found.append(_model(graph, reads[x], uses[x], edges.get(x, ())))
    return found


def program_order(found: Sequence[int] | Int64Array, graph: ComputationGraph) -> tuple[int, ...]:
    """Return an order of a model without the nodes that only begin others."""
    count = len(graph.flow.nodes)
    return tuple([int(node) for node in found if node < count])


def with_orders(models: Sequence[ComputationGraph], schedule: Schedule) -> list[ComputationGraph]:
    """Return the graphs that `model_graphs` returned once the module has a schedule."""
    orders = [[x.flow.number[y] for y in schedule.sequences[x.computation]] for x in models]
    return [replace(x, order=model_order(y, x)) for x, y in zip(models, orders, strict=True)]


def model_order(order: Sequence[int], graph: ComputationGraph) -> tuple[int, ...]:
    """Return an order of a program with the nodes that begin others, each right before its one."""
    nodes = [x for x, node in enumerate(graph.flow.nodes) if node.opcode in _INSIDE]
    count = len(graph.flow.nodes)
    return _with_begins(order, {node: count + k for k, node in enumerate(nodes)})


# -- what callees read ---------------------------------------------------------------------------


def _reads(graphs: Sequence[ComputationGraph]) -> dict[Computation, Reads]:
    """Per computation the values that its calls and conditionals read."""
    found: dict[Computation, Reads] = {}
    inside: dict[Computation, list[int]] = {}
    """Per computation the numbers of the parameter leaves that something in it reads."""
    flows = {x.computation: x.flow for x in graphs}
    for computation, flow in flows.items():
        own: dict[int, tuple[int, ...]] = {}
        read: set[int] = set()
        for node, instruction in enumerate(flow.nodes):
            values = flow.reads[node]
            if instruction.opcode in _INSIDE:
                values = own[node] = tuple(dict.fromkeys(_values_read(flow, node, flows, inside)))
            read.update(values)
        found[computation] = own
        inside[computation] = [k for k, v in enumerate(flow.parameters) if v in read]
    return found


def _values_read(
    flow: ComputationDataflow,
    node: int,
    flows: Mapping[Computation, ComputationDataflow],
    inside: Mapping[Computation, Sequence[int]],
) -> Iterator[int]:
    instruction = flow.nodes[node]
    if instruction.opcode is not Opcode.CONDITIONAL:
        given = [v for x in instruction.operands for v in flow.leaves_of(x)]
        yield from [given[k] for k in inside[instruction.called_computations[0]]]
        return
    selector, *operands = instruction.operands
    yield from flow.leaves_of(selector)
    made = [flow.leaves[node].index(value) for value in flow.makes[node]]
    for branch, operand in zip(instruction.called_computations, operands, strict=True):
        given = list(flow.leaves_of(operand))
        yield from [given[k] for k in inside[branch]]
        number = {value: k for k, value in enumerate(flows[branch].parameters)}
        returned = [flows[branch].root[leaf] for leaf in made]
        yield from [given[number[value]] for value in returned if value in number]


# -- what callers have and use -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Use:
    """Facts that hold for a computation at every place that runs it.

    The values of its result that are `kept` live to its end. Those of its parameters that are
    `given` take bytes of the caller that nothing else there reads: they end where they are read
    last inside.
    """

    kept: frozenset[int]
    given: frozenset[int]

    def __and__(self, other: _Use) -> _Use:
        return _Use(self.kept & other.kept, self.given & other.given)


def _uses(
    graphs: Sequence[ComputationGraph], reads: Mapping[Computation, Reads]
) -> dict[Computation, _Use]:
    entry = graphs[-1].computation
    flows = {x.computation: x.flow for x in graphs}
    found = {
        x: _Use(frozenset(flow.root), frozenset() if x is entry else frozenset(flow.parameters))
        for x, flow in flows.items()
    }
    for graph in reversed(graphs):
        flow, use = graph.flow, found[graph.computation]
        readers = _readers(flow, reads[graph.computation])
        sizes = graph.graph.buffer_bytes
        alone = frozenset(
            [
                value
                for value, count in readers.items()
                if count == 1 and value not in use.kept and (sizes[value] or value in use.given)
            ]
        )
        used = readers.keys() | use.kept
        for site in _sites(flow):
            found[site.callee] &= _use_at(flow, flows[site.callee], site, used, alone)
    return found


def _readers(flow: ComputationDataflow, reads: Reads) -> Counter[int]:
    """How many nodes read each value."""
    return Counter([v for node, row in enumerate(flow.reads) for v in reads.get(node, row)])


@dataclass(frozen=True, slots=True)
class _Site:
    """A call: the instruction, as what the callee runs, and the values that it is given."""

    caller: Instruction
    role: CallRole
    callee: Computation
    given: tuple[int, ...]


def _sites(flow: ComputationDataflow) -> Iterator[_Site]:
    for caller, role, callee in call_sites(flow.computation):
        if role is not CallRole.BRANCH:
            given = tuple([v for x in caller.operands for v in flow.leaves_of(x)])
            yield _Site(caller, role, callee, given)
            continue
        for branch, operand in zip(caller.called_computations, caller.operands[1:], strict=True):
            if branch is callee:
                yield _Site(caller, role, callee, tuple(flow.leaves_of(operand)))


def _use_at(
    flow: ComputationDataflow,
    callee: ComputationDataflow,
    site: _Site,
    used: AbstractSet[int],
    alone: AbstractSet[int],
) -> _Use:
    if site.role in (CallRole.CONDITION, CallRole.BODY):
        return _Use(frozenset(callee.root), frozenset())
    times = Counter(site.given)
    pairs = zip(callee.parameters, site.given, strict=True)
    given = frozenset([inner for inner, v in pairs if v in alone and times[v] == 1])
    made = {*flow.makes[flow.number[site.caller]]}
    if site.role is not CallRole.BRANCH:
        made &= used
    shift = len(site.given) if site.role is CallRole.ASYNC else 0
    returned = flow.leaves_of(site.caller)[shift : shift + len(callee.root)]
    results = zip(callee.root, returned, strict=True)
    return _Use(frozenset([inner for inner, outer in results if outer in made]), given)


# -- graphs --------------------------------------------------------------------------------------


def _with_scratch(found: ComputationGraph, scratch_bytes: ScratchBytes | None) -> ComputationGraph:
    if scratch_bytes is None:
        return found
    scratch = np.array([scratch_bytes(x) for x in found.flow.nodes], np.int64)
    return replace(found, graph=replace(found.graph, scratch_bytes=scratch))


def _model(
    found: ComputationGraph, reads: Reads, use: _Use, edges: Sequence[Edge]
) -> ComputationGraph:
    flow, graph = found.flow, found.graph
    begins = {node: graph.node_count + k for k, node in enumerate(reads)}
    live_out = np.zeros_like(graph.live_out)
    live_out[list(use.kept)] = True
    size = graph.buffer_bytes.copy()
    used = _readers(flow, reads).keys() | use.kept
    given = sorted(use.given & used)
    size[given] = [flow.value_bytes[value] for value in given]
    size[_unused(flow, reads, used)] = 0
    replaced = _replaced(flow, reads, size)
    model = replace(
        _begun(_with_edges(graph, edges), begins),
        buffer_bytes=size,
        live_out=live_out,
        consumers=_consumers(flow, reads, begins, replaced),
        shares=_shares(flow, graph, size, replaced),
    )
    calls = tuple([_call(x, flow, size) if x.node in begins else x for x in found.calls])
    return replace(found, graph=model, calls=calls, order=_with_begins(found.order, begins))


def _with_begins(order: Sequence[int], begins: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(
        [x for node in order for x in ((begins[node], node) if node in begins else (node,))]
    )


def _with_edges(graph: MemoryGraph, edges: Sequence[Edge]) -> MemoryGraph:
    if not edges:
        return graph
    control = [list(row) for row in graph.control.rows()]
    for before, behind in edges:
        control[behind].append(before)
    return replace(graph, control=lists([list(dict.fromkeys(row)) for row in control]))


def _unused(flow: ComputationDataflow, reads: Reads, used: AbstractSet[int]) -> list[int]:
    """What callees return and nobody reads: it need not be there any more when they end."""
    made = [value for node in reads for value in flow.makes[node] if value not in used]
    return [value for value in made if flow.value_kind[value] is ValueKind.RETURNED]


Replaced = Mapping[tuple[int, int], int]
"""By node that runs a callee and what that reads: a result that takes its place, in the model."""


def _replaced(flow: ComputationDataflow, reads: Reads, size: Int64Array) -> Replaced:
    """A result of equal bytes for each value that a callee reads, as far as there are some."""
    found: dict[tuple[int, int], int] = {}
    for node, values in reads.items():
        results: dict[int, list[int]] = {}
        for made in reversed(flow.makes[node]):
            results.setdefault(int(size[made]), []).append(made)
        for value in values:
            if size[value] and results.get(int(size[value])):
                found[node, value] = results[int(size[value])].pop()
    return found


def _shares(
    flow: ComputationDataflow, graph: MemoryGraph, size: Int64Array, replaced: Replaced
) -> Int32Array:
    bound = bound_results(flow, graph)
    rows = [(node, read, made) for (node, read), made in replaced.items()]
    rows += [
        (node, read, made)
        for node, pairs in enumerate(flow.shares)
        for read, made in pairs
        if 0 < size[read] == size[made] and may_take_over(flow, graph, bound, read, made)
    ]
    return np.array(rows, np.int32).reshape(-1, 3)


def _begun(graph: MemoryGraph, begins: Mapping[int, int]) -> MemoryGraph:
    """The nodes of a graph, and behind them those that begin others: these wait in their place."""
    if not begins:
        return graph
    count, added = graph.node_count, len(begins)
    old = list(begins)
    operands, control = list(graph.operands.rows()), list(graph.control.rows())
    begun_operands = [operands[node] for node in old]
    begun_control = [control[node] for node in old]
    for node, begin in begins.items():
        operands[node], control[node] = [begin], []
    none, ranks = np.zeros(added, np.int64), np.arange(count, count + added, dtype=np.int32)
    return replace(
        graph,
        operands=lists([*operands, *begun_operands]),
        control=lists([*control, *begun_control]),
        scratch_bytes=np.concatenate([graph.scratch_bytes, none]),
        inner_bytes=np.concatenate([graph.inner_bytes, none]),
        name_rank=np.concatenate([graph.name_rank, ranks]),
        is_scalar=np.concatenate([graph.is_scalar, none.astype(np.bool_)]),
        is_leaf=np.concatenate([graph.is_leaf, none.astype(np.bool_)]),
        urgency=np.concatenate([graph.urgency, none.astype(np.int32)]),
        seconds=np.concatenate([graph.seconds, none]) if len(graph.seconds) else graph.seconds,
    )


def _consumers(
    flow: ComputationDataflow, reads: Reads, begins: Mapping[int, int], replaced: Replaced
) -> Lists:
    consumers: list[list[int]] = [[] for _ in flow.value_node]
    for node, values in enumerate(flow.reads):
        for value in reads.get(node, values):
            is_replaced = (node, value) in replaced
            consumers[value].append(node if is_replaced else begins.get(node, node))
    return lists(consumers)


def _call(call: GraphCall, flow: ComputationDataflow, size: Int64Array) -> GraphCall:
    """A call that holds what its callee needs beyond what counts as made by the caller's node."""
    made = list(flow.makes[call.node])
    state = call.less - sum([flow.value_bytes[value] for value in made])
    return GraphCall(call.node, call.callee, state + int(size[made].sum()))
