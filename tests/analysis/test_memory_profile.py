"""Bytes of the steps of an order, where results take over operands."""

import random
from itertools import combinations

import numpy as np
from tests.scheduling.small_graphs import SmallGraph

from lowtide.analysis.memory_profile import step_bytes


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
