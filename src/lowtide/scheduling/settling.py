"""An order that keeps new edges and else stays close to a given one."""

from __future__ import annotations

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.scheduling.heap import WIDTH, drop_first, push
from lowtide.search.kernels import Array, kernel


@kernel
def settle_order(
    graph: GraphTables, place: Array, order: Array, waiting: Array, heap: Array
) -> int:
    """Fill `order` with the earliest node by `place` that waits for none; return how many fit."""
    before = graph.before
    behind = graph.behind
    size = 0
    for x in range(graph.nodes):
        waiting[x] = before.starts[x + 1] - before.starts[x]
        if waiting[x] == 0:
            size = push(heap, size, -place[x], 0, 0, x)
    at = 0
    while size > 0:
        x = heap[WIDTH - 1]
        size = drop_first(heap, size)
        order[at] = x
        at += 1
        for k in range(behind.starts[x], behind.starts[x + 1]):
            y = behind.items[k]
            waiting[y] -= 1
            if waiting[y] == 0:
                size = push(heap, size, -place[y], 0, 0, y)
    return at


def settled(tables: GraphTables, near: Array) -> Array | None:
    """Return a valid order close to `near`, None where nodes wait for each other."""
    count = tables.nodes
    place = np.empty(count, np.int64)
    place[near] = np.arange(count)
    order, waiting = np.empty(count, np.int64), np.empty(count, np.int64)
    heap = np.empty(WIDTH * (count + 1), np.int64)
    return order if settle_order(tables, place, order, waiting, heap) == count else None
