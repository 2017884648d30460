"""Live bytes of a program as if operations on single elements were fused with their readers.

    m = multiply(x, y)          takes no bytes: add reads x and y until it runs
    s = add(m, z)               takes bytes: dot reads it from memory
    d = dot(s, w)

Fusion proper weighs times and decides kernel by kernel; an estimate takes all that could be fused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.analysis.dataflow import ComputationDataflow
from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.analysis.module_graphs import module_graphs
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ops.table import TABLE
from lowtide.scheduling.list_scheduler import list_order

_MOVING: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.IOTA, Opcode.PAD, Opcode.REVERSE),
        *(Opcode.DYNAMIC_SLICE, Opcode.RESHAPE, Opcode.SLICE, Opcode.TRANSPOSE),
    }
)
_READERS: Final = frozenset({*_MOVING, Opcode.CONCATENATE, Opcode.GATHER, Opcode.REDUCE})
"""What computes its operands where it reads them, besides operations on single elements."""

_MOST_READ: Final = 16
"""A kernel that would read more values than that is cut."""


def fused_live_bytes(module: Module) -> int:
    """Return the most bytes that are live besides arguments: as written, or with fusion."""
    peaks: list[int] = []
    for found in module_graphs(module):
        graph = found.holding(peaks)
        fused = fused_graph(found.flow, graph)
        orders = np.arange(graph.node_count), list_order(fused)
        peaks.append(min([peak_bytes(x, order) for x in (graph, fused) for order in orders]))
    return peaks[-1]


def fused_graph(flow: ComputationDataflow, graph: MemoryGraph) -> MemoryGraph:
    """Return a memory graph in which values that can be fused take no bytes.

    Their readers read what they are computed from.
    """
    consumers = graph.consumers.rows()
    read: list[dict[int, None]] = [{} for _ in flow.nodes]
    stands_for: dict[int, dict[int, None]] = {}
    for node, x in enumerate(flow.nodes):
        for value in flow.reads[node]:
            read[node].update(stands_for.get(value, {value: None}))
        if len(flow.makes[node]) != 1 or not _fuses(x) or len(read[node]) > _MOST_READ:
            continue
        (value,) = flow.makes[node]
        if graph.live_out[value] or not all(_takes(flow.nodes[n]) for n in consumers[value]):
            continue
        stands_for[value] = read[node]
    size = graph.buffer_bytes.copy()
    size[list(stands_for)] = 0
    readers: list[list[int]] = [[] for _ in consumers]
    for node, values in enumerate(read):
        for value in values:
            readers[value].append(node)
    return replace(
        graph, buffer_bytes=size, consumers=lists(readers), shares=_shares(flow, graph, size, read)
    )


def _shares(
    flow: ComputationDataflow, graph: MemoryGraph, size: np.ndarray, read: list[dict[int, None]]
) -> np.ndarray:
    """The pairs of values that may lie in one buffer: of a kernel of single elements, all equal."""
    rows = [row for row in graph.shares.tolist() if size[row[1]] and size[row[2]]]
    known = {tuple(row) for row in rows}
    for node, x in enumerate(flow.nodes):
        if not TABLE[x.opcode].elementwise or len(flow.makes[node]) != 1:
            continue
        (made,) = flow.makes[node]
        pairs = [(node, value, made) for value in read[node] if 0 < size[made] == size[value]]
        rows += [list(row) for row in pairs if row not in known]
    return np.array(rows, np.int32).reshape(-1, 3)


def _fuses(x: Instruction) -> bool:
    return TABLE[x.opcode].elementwise or x.opcode in _MOVING


def _takes(x: Instruction) -> bool:
    return TABLE[x.opcode].elementwise or x.opcode in _READERS
