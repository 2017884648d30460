"""Bounds of small graphs by cuts that run as Python."""

import random

import numpy as np
import pytest
from tests.scheduling.small_graphs import Oracle, small_graph

from lowtide.analysis.memory_profile import step_bytes
from lowtide.planning.native import in_python
from lowtide.scheduling import cut_bound as module
from lowtide.scheduling.cut_bound import cut_bound
from lowtide.scheduling.cuts import Cuts
from lowtide.scheduling.depth_first import depth_first_order
from lowtide.scheduling.words import packed


def test_no_order_is_below_and_most_bounds_are_met() -> None:
    rnd = random.Random(5)
    tight = 0
    for _ in range(200):
        graph = small_graph(rnd, 2, 9)
        arrays = graph.memory_graph()
        bound = cut_bound(arrays, depth_first_order(arrays))
        least = Oracle(graph).least_peak()
        assert bound <= least
        tight += bound == least
    assert tight > 100


def test_python_finds_what_native_code_finds() -> None:
    rnd = random.Random(6)
    for _ in range(50):
        graph = small_graph(rnd, 2, 14).memory_graph()
        node = int(step_bytes(graph, depth_first_order(graph)).argmax())
        native, python = Cuts(packed(graph)), Cuts(packed(graph))
        value = native.least(node)
        with in_python():
            assert python.least(node) == value
        assert np.array_equal(native.where, python.where)


def test_a_graph_that_is_not_small_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = small_graph(random.Random(7), 9, 9).memory_graph()
    order = depth_first_order(graph)
    assert cut_bound(graph, order) > 0
    monkeypatch.setattr(module, "MOST_NODES", graph.node_count - 1)
    assert cut_bound(graph, order) == 0
