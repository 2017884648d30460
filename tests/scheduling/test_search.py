"""Bounds and orders of `search_order`, held against all orders of small graphs."""

import random

import numpy as np
import pytest
from tests.scheduling.small_graphs import Oracle, SmallGraph, small_graph

from lowtide.analysis.graph_tables import tables_of
from lowtide.analysis.memory_profile import peak_bytes, step_bytes
from lowtide.scheduling.proof import CYCLE, SPLIT, CutBound, KeptBytes, OrderRefutation, plain_bound
from lowtide.scheduling.search import SearchResult, search_order
from lowtide.scheduling.solver import LIMITS, Solver
from lowtide.scheduling.stretches import WAYS, Stretches
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, StopReason


def check_soundness(seed: int, count: int, most: int) -> tuple[int, int]:
    """How many of so many random graphs get an order of least peak, and how many a tight bound."""
    rnd = random.Random(seed)
    optimal = tight = 0
    for _ in range(count):
        graph = small_graph(rnd, 2, most)
        oracle, arrays = Oracle(graph), graph.memory_graph()
        least = oracle.least_peak()
        found = search_order(arrays)
        assert oracle.peak(found.order.tolist()) == found.peak_bytes
        assert found.bound_bytes <= least <= found.peak_bytes
        for other in found.others:
            assert oracle.peak(other.tolist()) == found.peak_bytes
        optimal += found.peak_bytes == least
        tight += found.bound_bytes == least
    return optimal, tight


def test_small_graphs_are_solved() -> None:
    optimal, tight = check_soundness(seed=20, count=150, most=9)
    assert optimal == tight == 150


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_small_graphs_are_solved(seed: int) -> None:
    optimal, tight = check_soundness(seed=1000 + seed, count=500, most=14)
    assert optimal >= 0.995 * 500
    assert tight >= 0.995 * 500


@pytest.mark.parametrize("effort", [Effort.FAST, Effort.DEFAULT])
def test_bounds_are_sound_with_little_effort(effort: Effort) -> None:
    rnd = random.Random(5)
    for _ in range(60):
        graph = small_graph(rnd, 4, 9)
        found = search_order(graph.memory_graph(), effort)
        assert found.bound_bytes <= Oracle(graph).least_peak() <= found.peak_bytes


def test_the_plain_bound_is_sound_and_often_tight() -> None:
    rnd = random.Random(8)
    tight = 0
    for _ in range(200):
        graph = small_graph(rnd, 2, 8)
        least = Oracle(graph).least_peak()
        assert plain_bound(graph.memory_graph()) <= least
        tight += plain_bound(graph.memory_graph()) == least
    assert tight > 20


def test_steps_are_those_of_the_definition() -> None:
    rnd = random.Random(6)
    for _ in range(200):
        graph = small_graph(rnd)
        arrays, oracle = graph.memory_graph(), Oracle(graph)
        tables = tables_of(arrays)
        given, _ = Stretches(tables).arranged(topological(arrays), 0)
        for way in range(WAYS):
            order, steps = Stretches(tables).arranged(given, way)
            state, expected = 0, []
            for node in order.tolist():
                expected.append(oracle.step(state, node))
                state |= 1 << node
            assert step_bytes(arrays, order).tolist() == expected
            assert Stretches(tables).profile(order).tolist() == expected
            assert steps.tolist() == expected


def topological(arrays) -> np.ndarray:
    """Any order of a graph."""
    tables = tables_of(arrays)
    start, before = tables.before.starts, tables.before.items
    order: list[int] = []
    while len(order) < tables.nodes:
        order += [
            v
            for v in range(tables.nodes)
            if v not in order and set(before[start[v] : start[v + 1]].tolist()) <= set(order)
        ][:1]
    return np.array(order, np.int64)


def ladder(length: int, width: int) -> SmallGraph:
    """A chain of diamonds: nodes with a large result, a reader each that shrinks it, a join."""
    graph = SmallGraph()
    joined = -1
    for _ in range(length):
        first = len(graph.scratch)
        graph.scratch += [0] * (2 * width + 1)
        graph.control += [[joined] if joined >= 0 else [] for _ in range(width)]
        graph.control += [[] for _ in range(width + 1)]
        for k in range(width):
            graph.buffers.append(buffer(100 - k, first + k, [first + width + k]))
            graph.buffers.append(buffer(1 + k, first + width + k, [first + 2 * width]))
        joined = first + 2 * width
    graph.buffers.append(buffer(5, joined, [], live_out=True))
    return graph


def buffer(
    nbytes: int, producer: int, consumers: list[int], live_out: bool = False
) -> dict[str, object]:
    return {
        "bytes": nbytes,
        "producer": producer,
        "consumers": consumers,
        "live_out": live_out,
        "may_reuse": [],
    }


def test_a_chain_needs_what_its_parts_need() -> None:
    one = search_order(ladder(1, 5).memory_graph())
    many = search_order(ladder(200, 5).memory_graph())
    assert one.is_optimal
    assert many.is_optimal
    assert many.peak_bytes == one.peak_bytes
    assert sorted(many.order.tolist()) == list(range(200 * 11))


def test_parts_are_solved_as_the_whole_is() -> None:
    from lowtide.scheduling.series import parts

    rnd = random.Random(9)
    split = 0
    for _ in range(300):
        graph = small_graph(rnd, 4, 12)
        arrays = graph.memory_graph()
        tables = tables_of(arrays)
        pieces = parts(tables, topological(arrays), smallest=1)
        split += len(pieces) > 1
        profile = np.zeros(0, np.int64)
        order = np.zeros(0, np.int64)
        for piece in pieces:
            inner, _ = Stretches(piece.tables).arranged(inner_order(piece.tables), 2)
            profile = np.append(profile, Stretches(piece.tables).profile(inner) + piece.carried)
            order = np.append(order, piece.nodes[inner])
        assert profile.tolist() == step_bytes(arrays, order).tolist()
    assert split > 50


def inner_order(tables) -> np.ndarray:
    from lowtide.scheduling.settling import settled

    order = settled(tables, np.arange(tables.nodes))
    assert order is not None
    return order


def test_starts_of_a_search_keep_the_steps_of_their_orders() -> None:
    rnd = random.Random(12)
    for _ in range(40):
        tables = tables_of(small_graph(rnd, 6, 14).memory_graph())
        solver = Solver(tables, LIMITS[Effort.DEFAULT], lambda: False, lambda: None)
        solver.begin()
        solver.run(0)
        assert len(solver.starts) == WAYS + 1
        for start in solver.starts:
            assert start.profile.tolist() == Stretches(tables).profile(start.order).tolist()
            assert start.peak == max(start.profile.tolist())


def test_equal_input_gives_equal_results() -> None:
    rnd = random.Random(12)
    graphs = [small_graph(rnd, 10, 14) for _ in range(20)]
    runs = [[summary(search_order(x.memory_graph())) for x in graphs] for _ in range(2)]
    assert runs[0] == runs[1]


def summary(found: SearchResult) -> tuple[object, ...]:
    orders = [order.tolist() for order in (found.order, *found.others)]
    return found.peak_bytes, found.bound_bytes, orders, repr(found.proof)


def test_a_deadline_that_has_passed_leaves_a_true_bound() -> None:
    rnd = random.Random(13)
    for _ in range(20):
        graph = small_graph(rnd, 8, 10)
        found = search_order(graph.memory_graph(), Effort.PROOF, Deadline(0))
        assert found.stopped is StopReason.DEADLINE
        assert found.bound_bytes <= Oracle(graph).least_peak() <= found.peak_bytes


def test_an_interrupt_leaves_the_best_so_far() -> None:
    graph = ladder(4, 6).memory_graph()

    def interrupt(peak: int, bound: int) -> None:
        raise KeyboardInterrupt

    found = search_order(graph, progress=interrupt)
    assert found.stopped is StopReason.INTERRUPT
    assert peak_bytes(graph, found.order) == found.peak_bytes


def test_progress_ends_at_the_result() -> None:
    told: list[tuple[int, int]] = []
    found = search_order(ladder(4, 6).memory_graph(), progress=lambda *pair: told.append(pair))
    assert told[-1] == (found.peak_bytes, found.bound_bytes)
    assert [peak for peak, _ in told] == sorted([peak for peak, _ in told], reverse=True)
    assert [bound for _, bound in told] == sorted([bound for _, bound in told])


def test_a_refutation_splits_into_cases_that_are_closed() -> None:
    rnd = random.Random(14)
    seen = 0
    while seen < 15:
        found = search_order(small_graph(rnd, 8, 12).memory_graph())
        if not isinstance(found.proof, OrderRefutation):
            assert isinstance(found.proof, CutBound | KeptBytes)
            assert found.proof.bytes == found.bound_bytes
            continue
        seen += 1
        assert found.proof.bytes == found.bound_bytes
        children = [case.parent for case in found.proof.cases]
        for number, case in enumerate(found.proof.cases):
            assert (case.closed_at == SPLIT) == (children.count(number) == 2)
            assert case.closed_at >= CYCLE or case.closed_at == SPLIT
