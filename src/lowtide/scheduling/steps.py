"""Kernels: the bytes of each step of an order, or of a part of one."""

from __future__ import annotations

from lowtide.analysis.graph_tables import GraphTables
from lowtide.analysis.taken_over import Matching, taken_over
from lowtide.search.kernels import Array, kernel


@kernel
def walk(
    graph: GraphTables,
    order: Array,
    first: int,
    stop: int,
    live: int,
    left: Array,
    profile: Array,
    matching: Matching,
) -> int:
    """Run the steps from `first` up to `stop`; return the bytes live behind the last one.

    `left` has the uses of each buffer that are still to come, one more where it is live-out, and is
    counted down; `profile` receives the bytes of each step.
    """
    makes = graph.makes
    reads = graph.reads
    for i in range(first, stop):
        node = order[i]
        made = 0
        freed = 0
        for k in range(makes.starts[node], makes.starts[node + 1]):
            b = makes.items[k]
            made += graph.size[b]
            if left[b] == 0:
                freed += graph.size[b]
        for k in range(reads.starts[node], reads.starts[node + 1]):
            b = reads.items[k]
            left[b] -= 1
            if left[b] == 0:
                freed += graph.size[b]
        shared = taken_over(graph, node, left, 0, matching)
        profile[i] = live + made + graph.own_bytes[node] - shared
        live += made - freed
    return live


@kernel
def uses_left(graph: GraphTables, left: Array) -> int:
    """Fill in the uses of each buffer, one more where live-out; return the bytes at the start."""
    users = graph.users
    live = 0
    for b in range(graph.buffers):
        left[b] = users.starts[b + 1] - users.starts[b] + graph.live_out[b]
        if graph.producer[b] < 0 and left[b] > 0:
            live += graph.size[b]
    return live
