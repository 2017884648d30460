"""The bound that needs no search, worked out with NumPy and without."""

import random

import pytest
from tests.scheduling.small_graphs import small_graph

from lowtide.analysis import memory_profile
from lowtide.analysis.memory_profile import peak_bytes, step_bytes
from lowtide.scheduling import proof
from lowtide.scheduling.depth_first import post_order
from lowtide.scheduling.proof import plain_proof


@pytest.mark.parametrize("seed", range(40))
def test_few_nodes_need_what_many_do(seed, monkeypatch):
    graph = small_graph(random.Random(seed)).memory_graph()
    few = plain_proof(graph)
    monkeypatch.setattr(proof, "_FEW", 0)
    assert plain_proof(graph) == few


@pytest.mark.parametrize("seed", range(40))
def test_the_peak_is_the_largest_step_of_few_nodes_and_of_many(seed, monkeypatch):
    graph = small_graph(random.Random(seed)).memory_graph()
    order = post_order(graph)
    few, steps = peak_bytes(graph, order), step_bytes(graph, order).tolist()
    assert few == max(steps)
    monkeypatch.setattr(memory_profile, "_FEW", 0)
    assert peak_bytes(graph, order) == few
    assert step_bytes(graph, order).tolist() == steps
