"""What a node's step holds at least, in any sequence."""

from __future__ import annotations

import numpy as np

from lowtide.remat.measure import ROOM, taken_over
from lowtide.remat.tables import (
    BUFFER,
    BUFFER_COUNT,
    BUFFERS_AT,
    MADE,
    MADE_END,
    NODE,
    NODE_COUNT,
    NODES_AT,
    PAIRS,
    PAIRS_END,
    READS,
    READS_END,
    SCRATCH,
    SIZE,
    Int64Array,
    Tables,
)
from lowtide.search.kernels import Array, kernel


@kernel
def write_footprints(g: Array, least: Array, room: Array) -> int:
    """Write per node the bytes that it reads, makes and holds, less the most it can take over."""
    count = g[BUFFER_COUNT]
    base = g[BUFFERS_AT]
    for b in range(count):
        room[count + b] = 0
    for v in range(g[NODE_COUNT]):
        node = NODES_AT + 1 + v * NODE
        total = g[node + SCRATCH]
        for i in range(g[node + MADE], g[node + MADE_END]):
            total += g[base + g[i] * BUFFER + SIZE]
        for i in range(g[node + READS], g[node + READS_END]):
            total += g[base + g[i] * BUFFER + SIZE]
            room[count + g[i]] = v + 1
        if g[node + PAIRS] != g[node + PAIRS_END]:
            total -= taken_over(g, node, v + 1, room)
        least[v] = total
    return 0


def footprints(tables: Tables) -> Int64Array:
    """Return per node the least bytes of a step in which it runs."""
    least = np.zeros(tables.node_count, np.int64)
    room = np.zeros(ROOM * tables.buffer_count + 1, np.int64)
    write_footprints(tables.words, least, room)
    return least
