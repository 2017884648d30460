"""What a small graph needs by one minimum cut, without compiling anything."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import step_bytes
from lowtide.planning.native import Array, in_python
from lowtide.scheduling.cuts import Cuts
from lowtide.scheduling.words import packed

MOST_NODES: Final = 256
"""Graphs of more nodes are left to the compiled search, which is faster then."""

MOST_CUTS: Final = 16


def cut_bound(graph: MemoryGraph, order: Array) -> int:
    """Return bytes that the peak of no order is below: what the highest steps of one need.

    The result is 0 for a graph that is not small.
    """
    if not 0 < graph.node_count <= MOST_NODES:
        return 0
    steps = step_bytes(graph, order)
    bound = 0
    with in_python():
        cuts = Cuts(packed(graph))
        for place in np.argsort(-steps, kind="stable")[:MOST_CUTS].tolist():
            if bound < steps[place]:
                bound = max(bound, cuts.least(int(order[place])))
    return bound
