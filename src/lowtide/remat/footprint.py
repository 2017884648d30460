"""The least bytes that a node's step holds, in any sequence."""

from __future__ import annotations

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.analysis.taken_over import taken_over
from lowtide.remat.measure import Liveness, liveness
from lowtide.remat.tables import Int64Array, RematTables
from lowtide.search.kernels import Array, kernel


@kernel
def write_footprints(graph: GraphTables, least: Array, liveness: Liveness) -> int:
    """Write per node the bytes that it reads, makes and holds, less the most it can take over."""
    makes = graph.makes
    reads = graph.reads
    dies = liveness.dies
    for b in range(graph.buffers):
        dies[b] = 0
    for v in range(graph.nodes):
        total = graph.own_bytes[v]
        for i in range(makes.starts[v], makes.starts[v + 1]):
            total += graph.size[makes.items[i]]
        for i in range(reads.starts[v], reads.starts[v + 1]):
            total += graph.size[reads.items[i]]
            dies[reads.items[i]] = v + 1
        least[v] = total - taken_over(graph, v, dies, v + 1, liveness.matching)
    return 0


def footprints(tables: RematTables) -> Int64Array:
    """Return per node the least bytes of a step in which it runs."""
    least = np.zeros(tables.node_count, np.int64)
    write_footprints(tables.problem.graph, least, liveness(tables.buffer_count))
    return least
