"""Bounds by which of several large steps runs first, against exhaustive search."""

from itertools import count
from random import Random

import numpy as np
import pytest
from tests.remat.small_graphs import least_extra, random_graph

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.remat.bound import BoundSearch, topological_order
from lowtide.remat.first_large import FirstLarge
from lowtide.remat.measure import footprints
from lowtide.remat.network import Networks
from lowtide.remat.tables import tables_of
from lowtide.search.effort import Effort


def step_with_gradients(layers: int, scratch: int, activation: int = 4) -> MemoryGraph:
    """A training step whose gradients of weights take `scratch` bytes and wait for nothing behind.

    Node i < layers makes the activation of a layer, node `layers + i` the gradient that comes back
    through layer `layers - 1 - i`; the gradient of its weights reads both.
    """
    forward = list(range(layers))
    back = [2 * layers - 1 - i for i in forward]
    weights = [2 * layers + i for i in forward]
    nodes = 3 * layers
    readers: list[list[int]] = [[] for _ in range(nodes)]
    for i in forward:
        readers[i] = [*([i + 1] if i + 1 < layers else []), back[i], weights[i]]
        readers[back[i]] = [*([back[i - 1]] if i else []), weights[i]]
    readers[layers - 1].sort()
    own = np.zeros(nodes, np.int64)
    own[weights] = scratch
    sizes = np.ones(nodes, np.int64)
    sizes[forward] = activation
    operands = [[b for b in range(nodes) if v in readers[b]] for v in range(nodes)]
    return MemoryGraph(
        operands=lists(operands),
        control=lists([[] for _ in range(nodes)]),
        scratch_bytes=own,
        inner_bytes=np.zeros(nodes, np.int64),
        name_rank=np.arange(nodes, dtype=np.int32),
        is_scalar=np.zeros(nodes, bool),
        is_leaf=np.zeros(nodes, bool),
        urgency=np.zeros(nodes, np.int32),
        root=nodes - 1,
        buffer_bytes=sizes,
        producer=np.arange(nodes, dtype=np.int32),
        consumers=lists([sorted(x) for x in readers]),
        live_out=np.zeros(nodes, bool),
        alias_set=np.full(nodes, -1, np.int32),
        colour=np.zeros(nodes, np.int32),
        bin=np.full(nodes, -1, np.int32),
        shares=np.zeros((0, 3), np.int32),
        seconds=np.full(nodes, 1e-6),
    )


def test_gradients_that_need_room_are_behind_more_than_one_node_proves() -> None:
    graph = step_with_gradients(4, scratch=8)
    search = BoundSearch(tables_of(graph), topological_order(tables_of(graph)), Effort.DEFAULT)
    better = 0
    for budget in range(search.least_bytes, peak_bytes(graph, np.arange(graph.node_count))):
        best = least_extra(graph, budget)
        if best is None:
            continue
        alone, proved = search.at(budget), search.proved(budget)
        assert alone.extra_seconds <= proved.extra_seconds <= best + 1e-12, budget
        better += proved.extra_seconds > alone.extra_seconds + 1e-12
    assert better


def check(seeds: range) -> int:
    """Assert that no case-by-case bound is above the optimum; count those that prove something."""
    proved_some = 0
    for seed in seeds:
        random = Random(seed)
        graph = random_graph(random)
        once = random.sample(range(graph.node_count), random.choice((0, 0, 1, 2)))
        tables = tables_of(graph, once)
        order = topological_order(tables)
        search = BoundSearch(tables, order, Effort.FAST)
        peak = peak_bytes(graph, order)
        if search.least_bytes >= peak:
            continue
        budget = random.randint(search.least_bytes, peak - 1)
        best = least_extra(graph, budget, once)
        if best is None:
            continue
        networks = Networks(tables, order)
        for node in range(graph.node_count):
            cases = FirstLarge(networks, footprints(tables), node, lambda: False)
            price = networks.price(random.choice((0.1, 1.0, 10.0)) * float(tables.cost.max()))
            ticks, _ = cases.proved(budget, 0, price, 10_000)
            assert ticks * tables.tick_seconds <= best + 1e-12, (seed, node, budget)
            proved_some += ticks > 0
            for most in (1, 2, 4, 8):
                assert cases.proved(budget, 0, price, most)[0] <= ticks, (seed, node, budget)
    return proved_some


def test_no_case_proves_more_than_the_optimum() -> None:
    assert check(range(150)) > 30


@pytest.mark.slow
def test_soundness_of_many_cases() -> None:
    assert check(range(1000, 5000)) > 1000


def test_cases_that_were_not_looked_at_prove_nothing() -> None:
    graph = step_with_gradients(4, scratch=8)
    tables = tables_of(graph)
    order = topological_order(tables)
    search = BoundSearch(tables, order, Effort.DEFAULT)
    networks, least = Networks(tables, order), footprints(tables)
    improved = []
    for budget in range(search.least_bytes, peak_bytes(graph, order)):
        bound = search.at(budget)
        if bound.node is None or bound.price is None:
            continue
        known = bound.extra_ticks
        calls = count()
        all_cases = FirstLarge(networks, least, bound.node, lambda: False)
        ticks, cuts = all_cases.proved(budget, known, bound.price, 10_000)
        if ticks == known:
            continue
        improved.append(budget)
        for most in range(min(cuts, 12)):
            found, made = all_cases.proved(budget, known, bound.price, most)
            assert known <= found <= ticks
            assert made <= most + 60
        late = FirstLarge(networks, least, bound.node, lambda calls=calls: next(calls) >= 0)
        assert late.proved(budget, known, bound.price, 10_000) == (known, 0)
    assert improved
