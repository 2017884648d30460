"""Orders of small graphs by the sets of nodes that have run."""

import random

import numpy as np
from tests.scheduling.small_graphs import Oracle, small_graph

from lowtide.analysis.memory_profile import peak_bytes
from lowtide.scheduling.depth_first import depth_first_order
from lowtide.scheduling.exact import lower_order
from lowtide.scheduling.plain_bound import plain_bound


def test_orders_are_of_least_peak() -> None:
    rnd = random.Random(11)
    lowered = 0
    for _ in range(300):
        graph = small_graph(rnd, 2, 9)
        arrays, oracle = graph.memory_graph(), Oracle(graph)
        first = peak_bytes(arrays, depth_first_order(arrays))
        for bound in (0, plain_bound(arrays)):
            found = lower_order(arrays, first, bound)
            assert found is not None
            order = depth_first_order(arrays) if found.order is None else found.order
            assert oracle.peak(order.tolist()) == oracle.least_peak()
            assert found.order is None or peak_bytes(arrays, found.order) < first
            lowered += found.order is not None
    assert 40 < lowered < 560


def test_too_many_sets_are_left_to_others() -> None:
    rnd = random.Random(12)
    graph = small_graph(rnd, 12, 12).memory_graph()
    assert lower_order(graph, 1 << 40, 0, most_work=30) is None
    full = lower_order(graph, 1 << 40, 0)
    assert full is not None and full.order is not None
    assert np.array_equal(np.sort(full.order), np.arange(12))
