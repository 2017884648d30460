"""Bounds that are added up over windows, against exhaustive search and in a program's shape."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from tests.remat.small_graphs import least_extra, random_graph

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.remat.bound import BoundSearch, is_above, topological_order, without_rounding
from lowtide.remat.branches import ticks_by_cases
from lowtide.remat.network import Networks
from lowtide.remat.prices import CutLines
from lowtide.remat.tables import Float64Array, Int64Array, tables_of
from lowtide.remat.windows import WindowBound
from lowtide.search.effort import Effort


def read_between_large_steps(count: int) -> MemoryGraph:
    """A chain of large steps and small ones in turn, of which the small ones read one value.

    Node 0 makes that value, of 4 bytes; node 1 reads it first. Each large step takes 8 bytes
    besides, so the value is not there while it runs.
    """
    nodes = 2 + 2 * count
    readers: list[list[int]] = [[] for _ in range(nodes)]
    readers[0] = [1, *range(3, nodes, 2)]
    for before, node in pairwise(range(1, nodes)):
        readers[before].append(node)
    own, sizes = np.zeros(nodes, np.int64), np.ones(nodes, np.int64)
    own[range(2, nodes, 2)], sizes[0] = 8, 4
    return graph_of(readers, own, sizes, np.full(nodes, 1e-6))


def random_chain(random: Random) -> MemoryGraph:
    """A chain of small and large steps, some of which also read what others long before make."""
    nodes = random.randrange(6, 10)
    readers: list[list[int]] = [[] for _ in range(nodes)]
    for node in range(1, nodes):
        for before in range(node):
            if random.random() < (0.85 if before == node - 1 else 0.25):
                readers[before].append(node)
    own = [random.choice((0, 0, 3, 6, 9)) for _ in range(nodes)]
    sizes = [random.choice((1, 1, 2, 4)) for _ in range(nodes)]
    seconds = [random.choice((1, 2, 3)) * 1e-6 for _ in range(nodes)]
    return graph_of(readers, np.array(own), np.array(sizes), np.array(seconds))


def graph_of(
    readers: list[list[int]], own: Int64Array, sizes: Int64Array, seconds: Float64Array
) -> MemoryGraph:
    """A graph whose nodes make a buffer each, with its readers."""
    nodes = len(readers)
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
        seconds=seconds,
    )


def test_each_window_adds_a_run() -> None:
    graph = read_between_large_steps(3)
    search = BoundSearch(tables_of(graph), topological_order(tables_of(graph)), Effort.FAST)
    budget = 10
    best = least_extra(graph, budget)
    assert best == pytest.approx(3e-6)
    assert search.at(budget).extra_seconds == pytest.approx(1e-6)
    assert search.proved(budget).extra_seconds == pytest.approx(best)


def check(seeds: range) -> tuple[int, int]:
    """Assert that no sum over windows is above the optimum; count sums, and those above one node.

    All nodes are tried as ends of windows, some may run only once.
    """
    proved_some = more = 0
    for seed in seeds:
        random = Random(seed)
        graph = random_graph(random) if seed % 4 == 0 else random_chain(random)
        once = [v for v in range(graph.node_count) if random.random() < random.choice((0.0, 0.2))]
        tables = tables_of(graph, once)
        order = topological_order(tables)
        networks = Networks(tables, order)
        peak = peak_bytes(graph, order)
        for budget in (peak - 1, peak * 7 // 8, peak * 3 // 4):
            best = least_extra(graph, budget, once)
            if best is None:
                continue
            behind = {}
            for node in range(graph.node_count):
                lines = CutLines(networks.of(node))
                lines.refine(networks, budget, lambda: False)
                behind[node] = ticks_by_cases(networks, lines, budget, lambda: False)
            proved = WindowBound(networks, budget, behind, lambda: False).proved()
            assert proved * tables.tick_seconds <= best + 1e-12, (seed, budget)
            proved_some += proved > 0
            more += proved > max(behind.values())
    return proved_some, more


def test_no_sum_over_windows_is_above_the_optimum() -> None:
    proved_some, more = check(range(300))
    assert proved_some > 20
    assert more > 0


@pytest.mark.slow
def test_soundness_of_many_sums() -> None:
    check(range(300, 20_000))


def test_a_bound_that_only_rounding_puts_above_a_plan_is_what_the_plan_takes() -> None:
    takes = 3.444351999999999e-06
    assert without_rounding(3.444352e-06, takes) == takes
    assert without_rounding(3.4e-06, takes) == 3.4e-06
    assert without_rounding(4e-06, takes) == 4e-06  # Wrong, which is not hidden.
    assert is_above(4e-06, takes) and not is_above(3.444352e-06, takes)
