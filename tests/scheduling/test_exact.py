"""Orders of small graphs by the sets of nodes that have run."""

import random
from contextlib import suppress
from dataclasses import replace
from itertools import permutations

import numpy as np
from tests.remat.replay import ReplayError, replay
from tests.scheduling.small_graphs import Oracle, small_graph

from lowtide.analysis.memory_graph import lists
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.scheduling.depth_first import depth_first_order
from lowtide.scheduling.exact import lower_order
from lowtide.scheduling.proof import plain_bound


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


def test_what_is_no_higher_than_before_runs_at_once() -> None:
    """Where no bound is known, too: nodes that wait until one allows it leave more undecided."""
    rnd, ordered = random.Random(13), 0
    for _ in range(200):
        graph = small_graph(rnd, 10, 12).memory_graph()
        peak = peak_bytes(graph, depth_first_order(graph)) + 1
        ordered += lower_order(graph, peak, 0, 40 * graph.node_count) is not None
    assert ordered > 120


def test_what_nobody_reads_is_there_in_the_first_step_only() -> None:
    """An argument that an output overwrites may be read by nobody; the rest is tried out."""
    lower = 0
    for seed in range(80):
        graph = small_graph(random.Random(seed), 3, 5).memory_graph()
        rows = graph.consumers.rows()
        entering = [b for b, node in enumerate(graph.producer.tolist()) if node < 0]
        unread = replace(
            graph,
            consumers=lists([[] if b in entering else row for b, row in enumerate(rows)]),
            shares=graph.shares[~np.isin(graph.shares[:, 1], entering)],
            seconds=np.ones(graph.node_count),
        )
        peaks = []
        for order in permutations(range(graph.node_count)):
            with suppress(ReplayError):
                peaks.append(replay(unread, order).peak_bytes)
        found = lower_order(unread, max(peaks) + 1, 0)
        assert found is not None and found.order is not None
        assert replay(unread, found.order.tolist()).peak_bytes == min(peaks), seed
        lower += bool(entering) and min(peaks) < max(peaks)
    assert lower > 5
