"""The memory graph of instructions as kernels will need it, before there are any kernels.

What a simple operation computes for one reader is computed in that reader's kernel. It takes no
memory, and what it is computed from is needed until then. The same holds for a value that is far
larger than what it is computed from, wherever it is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.ir import Instruction, Opcode
from lowtide.ir.traversal import post_order
from lowtide.ops.table import TABLE

_MOVES: Final = frozenset(
    {
        Opcode.BROADCAST,
        Opcode.CONCATENATE,
        Opcode.IOTA,
        Opcode.PAD,
        Opcode.RESHAPE,
        Opcode.REVERSE,
        Opcode.SLICE,
        Opcode.TRANSPOSE,
    }
)
_READS_FUSED: Final = _MOVES | {Opcode.REDUCE, Opcode.DOT, Opcode.DYNAMIC_UPDATE_SLICE}
_LARGER: Final = 4


def as_if_fused(row: ComputationGraph) -> ComputationGraph:
    """Return the graph of a computation in which what readers compute themselves takes no bytes."""
    graph, flow = row.graph, row.flow
    nbytes = graph.buffer_bytes.copy()
    consumers = [dict.fromkeys(x) for x in graph.consumers.rows()]
    for x in reversed(post_order(row.computation)):
        made = flow.makes[flow.number[x]]
        if len(made) != 1 or graph.live_out[made[0]] or not _is_computed_by_readers(x):
            continue
        nbytes[made[0]] = 0
        for read in flow.reads[flow.number[x]]:
            consumers[read].update(consumers[made[0]])
    return replace(row, graph=_changed(graph, nbytes, consumers))


def _changed(
    graph: MemoryGraph, nbytes: np.ndarray, consumers: list[dict[int, None]]
) -> MemoryGraph:
    _, read, made = graph.shares.T
    kept = (nbytes[read] > 0) & (nbytes[read] == nbytes[made])
    return replace(
        graph, buffer_bytes=nbytes, consumers=lists(consumers), shares=graph.shares[kept]
    )


def _is_computed_by_readers(x: Instruction) -> bool:
    if x.opcode not in _MOVES and not TABLE[x.opcode].elementwise:
        return False
    if not x.users or not all(_takes_in(y) for y in x.users):
        return False
    sizes = [y.shape.nbytes for y in x.operands if y.opcode is not Opcode.CONSTANT]
    if sum(sizes) * _LARGER <= x.shape.nbytes:
        return True
    return len(x.users) == 1 and 2 * x.shape.nbytes > max(sizes)


def _takes_in(x: Instruction) -> bool:
    return x.opcode in _READS_FUSED or TABLE[x.opcode].elementwise
