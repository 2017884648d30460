"""What a graph needs whatever the order, at a glance: the largest single step, and the ends."""

from __future__ import annotations

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph


def plain_bound(graph: MemoryGraph) -> int:
    """Return bytes that the peak of no order is below.

    The step of a node has what it reads and makes, less what its results may take over; the last
    step has what is kept.
    """
    count = graph.node_count
    size = graph.buffer_bytes
    kept = int(size[graph.live_out].sum())
    if not count:
        return kept
    need = graph.scratch_bytes + graph.inner_bytes
    np.add.at(need, graph.consumers.items, size[graph.consumers.row_numbers()])
    made = graph.producer >= 0
    np.add.at(need, graph.producer[made], size[made])
    taking = np.unique(graph.shares[:, 2])
    np.subtract.at(need, graph.producer[taking], size[taking])
    return max(kept, int(need.max()))
