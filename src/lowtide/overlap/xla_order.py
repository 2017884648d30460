"""The order of a step by XLA's scheduler, to compare with."""

from __future__ import annotations

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.overlap.step_graph import Order, StepGraph
from lowtide.xla.streams.latency_hiding import AsyncGraph, latency_hiding_order


def xla_order(graph: StepGraph, memory: MemoryGraph, given: Order, limit: int) -> Order:
    """Return the order; live bytes decide between nodes of equal depth, and keep to no limit."""
    freed = np.zeros(graph.node_count, np.int64)
    is_made = memory.producer >= 0
    np.add.at(freed, memory.producer[is_made], memory.buffer_bytes[is_made])
    return latency_hiding_order(
        AsyncGraph(
            graph.seconds, graph.transfer, graph.start_of, graph.before, tuple(freed.tolist())
        )
    )
