"""Minimum cuts, in native code and in Python."""

import random

import numpy as np
from tests.scheduling.small_graphs import Oracle, small_graph

from lowtide.analysis.graph_tables import tables_of
from lowtide.analysis.memory_profile import step_bytes
from lowtide.scheduling.cuts import Cuts
from lowtide.scheduling.depth_first import depth_first_order
from lowtide.search.kernels import in_python


def test_no_order_is_below_a_cut_which_is_the_same_in_python() -> None:
    rnd = random.Random(6)
    tight = 0
    for _ in range(100):
        graph = small_graph(rnd, 2, 9)
        arrays = graph.memory_graph()
        node = int(step_bytes(arrays, depth_first_order(arrays)).argmax())
        native, python = Cuts(tables_of(arrays)), Cuts(tables_of(arrays))
        value = native.least(node)
        with in_python():
            assert python.least(node) == value
        assert np.array_equal(native.where, python.where)
        least = Oracle(graph).least_peak()
        assert value <= least
        tight += value == least
    assert tight > 30
