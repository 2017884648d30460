"""Bounds by what is held, against exhaustive search and where a cut alone proves half of it."""

from random import Random

import numpy as np
import pytest
from tests.remat.small_graphs import least_extra, random_graph
from tests.remat.test_windows import graph_of, random_chain

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.remat.bound import BoundSearch, topological_order
from lowtide.remat.branches import DEEP_SPLITS, Cases, ticks_by_cases
from lowtide.remat.network import Networks
from lowtide.remat.prices import CutLines
from lowtide.remat.tables import RematTables, tables_of
from lowtide.search.effort import Effort


def half_a_value_fits() -> MemoryGraph:
    """A value of 4 bytes, which a step of 8 reads beside its own result, and a later one."""
    sizes, own = np.array([4, 1, 1]), np.array([0, 8, 0])
    return graph_of([[1, 2], [2], []], sizes=sizes, own=own, seconds=np.full(3, 1e-6))


def value_read_before() -> MemoryGraph:
    """The same value of 4 bytes, read by a small step ahead of the large one."""
    sizes, own = np.array([4, 1, 1, 1]), np.array([0, 0, 8, 0])
    return graph_of([[1, 3], [2], [3], []], sizes=sizes, own=own, seconds=np.full(4, 1e-6))


def by_cases(tables: RematTables, node: int, budget: int) -> tuple[float, ...]:
    """The seconds that the network of a node proves: by its cut alone, a few cases, and many."""
    networks = Networks(tables, topological_order(tables))
    lines = CutLines(networks.of(node))
    lines.refine(networks, budget, lambda: False)
    alone = max(0, lines.ticks(lines.best(budget), budget))
    found = ticks_by_cases(networks, lines, budget, lambda: False)
    deep = Cases(networks, lines, budget).divide(DEEP_SPLITS, lambda: False)
    return tuple([ticks * tables.tick_seconds for ticks in (alone, found, deep)])


def test_a_value_of_which_half_fits_is_made_again() -> None:
    graph, budget = value_read_before(), 12
    alone, found, deep = by_cases(tables_of(graph), 2, budget)
    assert alone == pytest.approx(0.5e-6, rel=1e-3)
    assert found == deep == pytest.approx(1e-6) == pytest.approx(least_extra(graph, budget))
    search = BoundSearch(tables_of(graph), topological_order(tables_of(graph)), Effort.FAST)
    assert search.proved(budget).extra_seconds == pytest.approx(1e-6)


def test_what_a_step_reads_itself_is_there() -> None:
    graph = half_a_value_fits()
    assert by_cases(tables_of(graph), 1, 13) == (0.0, 0.0, 0.0)


def check(seeds: range) -> int:
    """Assert that no case is above the optimum of any graph; count those above the cut alone."""
    more = 0
    for seed in seeds:
        random = Random(seed)
        graph = random_graph(random) if seed % 2 else random_chain(random)
        once = [v for v in range(graph.node_count) if random.random() < random.choice((0.0, 0.2))]
        tables = tables_of(graph, once)
        peak = peak_bytes(graph, topological_order(tables))
        for budget in (peak - 1, peak * 7 // 8, peak * 3 // 4):
            best = least_extra(graph, budget, once)
            for node in range(graph.node_count) if best is not None else ():
                alone, found, deep = by_cases(tables, node, budget)
                assert alone <= found <= deep <= best + 1e-12, (seed, budget, node)
                more += found > alone + 1e-12
    return more


def values_of_which_some_fit(count: int) -> MemoryGraph:
    """Values of 4 bytes that small steps read ahead of a large one, and one behind it."""
    large, last = 2 * count, 2 * count + 1
    readers = [[count + v, last] for v in range(count)]
    readers += [[large] for _ in range(count)] + [[last], []]
    own = np.zeros(last + 1, np.int64)
    own[large] = 40
    sizes = np.array([4] * count + [1] * count + [1, 1])
    return graph_of(readers, own, sizes, np.full(last + 1, 1e-6))


def test_many_cases_prove_what_whole_values_take() -> None:
    graph = values_of_which_some_fit(5)
    tables = tables_of(graph)
    budget = 46 + 11  # Beside the large step: two of five values fit, and half of another.
    alone, _, deep = by_cases(tables, 10, budget)
    assert alone < 2.5e-6
    assert deep == pytest.approx(3e-6)


def test_no_case_is_above_the_optimum() -> None:
    assert check(range(200)) > 20


@pytest.mark.slow
def test_soundness_of_many_cases() -> None:
    check(range(200, 10_000))
