"""Bytes of the steps of an order, where results take over operands."""

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from tests.remat.replay import replay
from tests.scheduling.small_graphs import SmallGraph, small_graph

from lowtide.analysis import memory_profile
from lowtide.analysis.memory_profile import peak_bytes, step_bytes


def one_step(operands: int, results: int, pairs: list[tuple[int, int]]) -> int:
    """Bytes of a step that reads and makes buffers of 1 byte, of which `pairs` may share."""
    buffers = [
        {"bytes": 1, "producer": 0, "consumers": [1], "live_out": False, "may_reuse": []}
        for _ in range(operands)
    ]
    for made in range(results):
        reuse = [a for a, b in pairs if b == made]
        buffers.append(
            {"bytes": 1, "producer": 1, "consumers": [], "live_out": True, "may_reuse": reuse}
        )
    graph = SmallGraph([0, 0], [[], []], buffers).memory_graph()
    return int(step_bytes(graph, np.arange(2))[1])


def largest_matching(pairs: list[tuple[int, int]]) -> int:
    for count in range(len(pairs), 0, -1):
        for chosen in combinations(pairs, count):
            if len({a for a, _ in chosen}) == len({b for _, b in chosen}) == count:
                return count
    return 0


def test_the_first_candidate_may_be_needed_by_another_result() -> None:
    assert one_step(2, 2, [(0, 0), (1, 0), (0, 1)]) == 2


def test_results_take_over_as_much_as_can_be() -> None:
    rnd = random.Random(3)
    for _ in range(300):
        operands, results = rnd.randint(1, 4), rnd.randint(1, 4)
        every = [(a, b) for a in range(operands) for b in range(results)]
        pairs = sorted(rnd.sample(every, rnd.randint(0, min(7, len(every)))))
        expected = operands + results - largest_matching(pairs)
        assert one_step(operands, results, pairs) == expected


def test_what_lives_to_the_end_is_never_taken_over() -> None:
    """Graphs of modules have pairs of such operands too: another order may need a copy there."""
    counted = 0
    for seed in range(200):
        rnd = random.Random(seed)
        graph = small_graph(rnd, 2, 6).memory_graph()
        kept = np.array([rnd.random() < 0.5 for _ in graph.live_out], np.bool_)
        graph = replace(graph, live_out=kept, seconds=np.ones(graph.node_count))
        order = _any_order(graph)
        assert peak_bytes(graph, order) == replay(graph, order.tolist()).peak_bytes, seed
        counted += bool(len(graph.shares) and kept[graph.shares[:, 1]].any())
    assert counted > 40


def _any_order(graph) -> np.ndarray:
    before = [{*a, *b} for a, b in zip(graph.operands.rows(), graph.control.rows(), strict=True)]
    order: list[int] = []
    while len(order) < graph.node_count:
        order += [v for v in range(graph.node_count) if v not in order and before[v] <= {*order}][
            :1
        ]
    return np.array(order, np.int64)


def test_few_and_many_nodes_are_reckoned_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = 0
    for seed in range(200):
        rnd = random.Random(seed)
        graph = small_graph(rnd, 1, 9).memory_graph()
        held = np.array([rnd.randrange(9) for _ in range(graph.node_count)], np.int64)
        kept = np.array([rnd.random() < 0.3 for _ in graph.live_out], np.bool_)
        graph = replace(graph, live_out=kept, scratch_bytes=held)
        order = _any_order(graph)
        found = step_bytes(graph, order)
        monkeypatch.setattr(memory_profile, "_FEW", -1)
        assert step_bytes(graph, order).tolist() == found.tolist(), seed
        monkeypatch.undo()
        shared += len(graph.shares)
    assert shared > 100
