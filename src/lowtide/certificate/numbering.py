"""The graphs of a scheduled module in the numbers that its text gives to what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lowtide.analysis.memory_graph import Int64Array, Lists, MemoryGraph, lists
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.scheduling.proof import Proof, renamed

Proved = tuple[ComputationGraph, Proof | None]
"""A model of a scheduled computation, and a proof about it, if there is one."""


def in_order_of_text(found: Sequence[Proved]) -> list[Proved]:
    """Return the computations of a module, the entry last, in other numbers.

    Nodes are numbered by their place in the schedule, and so are those behind them that begin
    others; buffers by the nodes that make them; computations stand callees first, in the order in
    which their callers run them. Reading the text of the module gives these numbers.
    """
    renumbered = [_computation(*x) for x in found]
    order = _callees_first([model for model, _ in renumbered])
    number = {k: i for i, k in enumerate(order)}
    result = []
    for model, proof in [renumbered[k] for k in order]:
        calls = [replace(x, callee=number[x.callee]) for x in model.calls]
        result.append((replace(model, calls=tuple(calls)), proof))
    return result


def _callees_first(models: Sequence[ComputationGraph]) -> list[int]:
    """The numbers of all computations that the last one runs, and its own."""
    order: list[int] = []
    seen = {len(models) - 1}
    stack = [(len(models) - 1, iter(models[-1].calls))]
    while stack:
        computation, remaining = stack[-1]
        for call in remaining:
            if call.callee not in seen:
                seen.add(call.callee)
                stack.append((call.callee, iter(models[call.callee].calls)))
                break
        else:
            stack.pop()
            order.append(computation)
    return order


def _computation(model: ComputationGraph, proof: Proof | None) -> Proved:
    flow, graph = model.flow, model.graph
    count = len(flow.nodes)
    plain = [x for x in model.order if x < count]
    begins = [x for x in model.order if x >= count]
    old = np.array([*plain, *begins], np.int64)
    new = np.empty_like(old)
    new[old] = np.arange(len(old))
    buffers = np.lexsort((np.arange(len(flow.value_node)), new[np.array(flow.value_node, int)]))
    calls = [replace(x, node=int(new[x.node])) for x in model.calls]
    calls.sort(key=lambda call: call.node)
    found = replace(
        model,
        graph=_numbered(graph, old, new, buffers),
        calls=tuple(calls),
        order=tuple(new[list(model.order)].tolist()),
    )
    return found, None if proof is None else renamed(proof, new)


def _numbered(
    graph: MemoryGraph, old: Int64Array, new: Int64Array, buffers: Int64Array
) -> MemoryGraph:
    """The same graph; `old` and `buffers` are the former numbers of nodes and buffers."""
    number = np.empty_like(buffers)
    number[buffers] = np.arange(len(buffers))
    node, read, made = graph.shares.T
    shares = np.stack([new[node], number[read], number[made]], 1).astype(np.int32)
    producer = graph.producer[buffers]
    return replace(
        graph,
        operands=_rows(graph.operands, old, new),
        control=_rows(graph.control, old, new),
        scratch_bytes=graph.scratch_bytes[old],
        inner_bytes=graph.inner_bytes[old],
        name_rank=graph.name_rank[old],
        is_scalar=graph.is_scalar[old],
        is_leaf=graph.is_leaf[old],
        urgency=graph.urgency[old],
        root=int(new[graph.root]),
        buffer_bytes=graph.buffer_bytes[buffers],
        producer=np.where(producer >= 0, new[producer], -1).astype(np.int32),
        consumers=_rows(graph.consumers, buffers, new),
        live_out=graph.live_out[buffers],
        alias_set=graph.alias_set[buffers],
        colour=graph.colour[buffers],
        bin=graph.bin[buffers],
        shares=shares[np.argsort(shares[:, 0], kind="stable")],
        seconds=graph.seconds[old] if len(graph.seconds) else graph.seconds,
    )


def _rows(found: Lists, old: Sequence[int] | Int64Array, new: Int64Array) -> Lists:
    """Rows in another order, their items in other numbers."""
    rows = found.rows()
    return lists([new[rows[x]].tolist() for x in old])
