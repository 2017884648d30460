"""Our searches beside OR-Tools on the same problems: it proves nothing above what we find."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.remat.judge import least_extra, least_peak
from tests.remat.small_graphs import least_extra as least_extra_by_trying
from tests.remat.small_graphs import random_graph
from tests.remat.test_frontier import GRAPHS, training_step

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.frontend.compressed import read_bytes
from lowtide.frontend.graph_json import read_graph_json
from lowtide.remat.budget import Budgets
from lowtide.scheduling.module_scheduler import best_of
from lowtide.scheduling.search import search_order
from lowtide.search.effort import Effort

NONE_TAKE_OVER = np.zeros((0, 3), np.int32)


def drawn(seed: int, most: int) -> MemoryGraph:
    return replace(random_graph(Random(seed), most), shares=NONE_TAKE_OVER)


def compare_orders(graph: MemoryGraph, work: float) -> bool:
    """Compare our order with the judge's; return whether the judge proved its own."""
    ours = search_order(graph, Effort.DEFAULT)
    verdict = least_peak(graph, work, ours.order.tolist())
    assert verdict.proved <= ours.peak_bytes
    if verdict.found is not None:
        assert ours.proof.bytes <= verdict.found
        assert ours.peak_bytes <= verdict.found
    return verdict.found == verdict.proved


@pytest.mark.parametrize("seed", range(12))
def test_orders_of_small_graphs_are_the_best(seed: int) -> None:
    assert compare_orders(drawn(seed, 10), 20.0)


@pytest.mark.parametrize("seed", range(12))
def test_the_judge_knows_what_trying_all_finds(seed: int) -> None:
    """With three runs of a node, what a graph of a few nodes takes within a budget."""
    graph = drawn(seed, 5)
    peak = search_order(graph, Effort.DEFAULT).peak_bytes
    for budget in (peak, peak - 1, 3 * peak // 4):
        expected, verdict = (
            least_extra_by_trying(graph, budget),
            least_extra(graph, budget, 20.0, 3),
        )
        if expected is None:
            assert verdict.found is None
        else:
            assert verdict.found == pytest.approx(expected, abs=1e-9)


def layers(seed: int, count: int) -> MemoryGraph:
    """A training step of layers of unequal sizes and times."""
    graph, random = training_step(count), np.random.default_rng(seed)
    size = random.integers(50, 150, 2 * count)
    return replace(graph, buffer_bytes=size, seconds=random.integers(1, 9, 2 * count) * 1e-6)


def compare_budgets(graph: MemoryGraph, shares: tuple[float, ...], work: float) -> list[float]:
    """Return by what factors ours take more extra time than the judge found, where it found any."""
    budgets = Budgets(graph, [best_of(graph)])
    peak = budgets.frontier.points[0].peak_bytes
    factors = []
    for share in shares:
        plan = budgets.plan(int(share * peak))
        verdict = least_extra(graph, int(share * peak), work)
        if verdict.found is not None:
            assert plan.point is not None
            assert plan.bound.extra_seconds <= verdict.found + 1e-9
            factors.append(plan.point.extra_seconds / max(verdict.found, 1e-9))
    return factors


@pytest.mark.slow
def test_recomputation_beside_the_judge() -> None:
    factors = [
        x for seed in range(3) for x in compare_budgets(layers(seed, 8), (0.8, 0.6, 0.5), 20)
    ]
    assert len(factors) >= 5
    assert np.exp(np.mean(np.log(factors))) <= 1.05


def corpus_graphs(most: int) -> list[MemoryGraph]:
    found = []
    for path in sorted(GRAPHS.glob("*.json.xz")):
        with path.open("rb") as stream:
            graph = read_graph_json(read_bytes(stream, path.name), path.name).graph
        if graph.node_count <= most:
            found.append(replace(graph, shares=NONE_TAKE_OVER))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not GRAPHS.exists(), reason="the shared memory graphs are not there")
def test_orders_of_programs_beside_the_judge() -> None:
    """Graphs of up to 200 nodes; where the judge's time is over, it has nothing better."""
    for graph in corpus_graphs(200):
        compare_orders(graph, 5.0)
