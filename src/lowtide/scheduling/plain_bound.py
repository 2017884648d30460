"""A bound on every order of a graph that needs no search: its largest step, and its ends."""

from __future__ import annotations

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.scheduling.proof import CutBound, KeptBytes


def plain_bound(graph: MemoryGraph) -> int:
    """Return bytes that the peak of no order is below."""
    return plain_proof(graph).bytes


def plain_proof(graph: MemoryGraph) -> KeptBytes | CutBound:
    """Return the last step or the largest single one, whichever needs more.

    The step of a node has what it reads and makes, less what its results may take over; the last
    step has what is kept.
    """
    count = graph.node_count
    size = graph.buffer_bytes
    kept = KeptBytes(int(size[graph.live_out].sum()))
    if not count:
        return kept
    need = graph.scratch_bytes + graph.inner_bytes
    np.add.at(need, graph.consumers.items, size[graph.consumers.row_numbers()])
    made = graph.producer >= 0
    np.add.at(need, graph.producer[made], size[made])
    taking = np.flatnonzero(np.bincount(graph.shares[:, 2], minlength=len(size)))
    np.subtract.at(need, graph.producer[taking], size[taking])
    largest = int(need.argmax())
    step = CutBound(int(need[largest]), largest)
    return kept if kept.bytes >= step.bytes else step
