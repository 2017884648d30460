"""What an order of a memory graph costs: the bytes live at each step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph

Int64Array = npt.NDArray[np.int64]


def step_bytes(graph: MemoryGraph, order: Int64Array) -> Int64Array:
    """Return the bytes live during each step of an order, which lists each node once.

    A step counts the buffers live in it and what its node holds while it runs, less what is taken
    over in it: each buffer takes over at most one, and each is taken over by at most one.
    """
    count = graph.node_count
    if not count:
        return np.zeros(0, np.int64)
    position, first, last = lifetimes(graph, order)
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, first, graph.buffer_bytes)
    np.subtract.at(change, last + 1, graph.buffer_bytes)
    live = np.cumsum(change)[:count] + (graph.scratch_bytes + graph.inner_bytes)[order]
    at, taken = _taken_over(graph, position, last)
    np.subtract.at(live, at, taken)
    return live


def peak_bytes(graph: MemoryGraph, order: Int64Array) -> int:
    """Return the largest step of an order, in bytes."""
    return int(step_bytes(graph, order).max(initial=0))


def lifetimes(graph: MemoryGraph, order: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the step of each node, and the first and the last one at which each buffer is live."""
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    first = np.where(graph.producer >= 0, position[graph.producer], 0)
    last = first.copy()
    consumers = graph.consumers
    np.maximum.at(last, consumers.row_numbers(), position[consumers.items])
    last[graph.live_out] = graph.node_count - 1
    return position, first, last


def _taken_over(
    graph: MemoryGraph, position: Int64Array, last: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """The steps at which a buffer takes over another one, and their bytes.

    Of several candidates the first one counts: a made buffer takes its first dying operand, and an
    operand goes to the first buffer that takes it.
    """
    node, read, made = graph.shares.T
    at = position[node]
    dies = (last[read] == at) & ~graph.live_out[read]
    read, made, at = read[dies], made[dies], at[dies]
    _, chosen = np.unique(made, return_index=True)
    read, at = read[chosen], at[chosen]
    _, chosen = np.unique(read, return_index=True)
    return at[chosen], graph.buffer_bytes[read[chosen]]
