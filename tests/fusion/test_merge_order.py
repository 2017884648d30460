"""The order of kernels, and what they reach."""

import random

from lowtide.fusion import merge_order
from lowtide.fusion.merge_order import MergeOrder


def random_order(seed: int, count: int = 24) -> tuple[MergeOrder, list[set[int]]]:
    """Return an order of random edges, and what each node reaches by them."""
    draw = random.Random(seed)
    order = MergeOrder(range(count))
    reached: list[set[int]] = [set() for _ in range(count)]
    edges = [(a, b) for b in range(count) for a in range(b) if draw.random() < 0.1]
    for a, b in edges:
        order.connect(a, b)
    for a, b in sorted(edges, key=lambda x: -x[0]):
        reached[a] |= reached[b] | {b}
    return order, reached


def test_what_is_reached_by_a_third_is_what_no_merge_could_be() -> None:
    seen = set()
    for seed in range(20):
        order, reached = random_order(seed)
        found = order.reached()
        assert found is not None
        for a in range(24):
            for b in range(a + 1, 24):
                by_third = any(b in reached[x] for x in reached[a])
                assert found.by_third(a, b) == by_third
                assert (order.between(a, b) is None) == by_third
                seen.add(by_third)
    assert seen == {False, True}


def test_a_graph_that_is_too_large_is_not_noted(monkeypatch) -> None:
    monkeypatch.setattr(merge_order, "_MOST_NODES", 23)
    assert random_order(0)[0].reached() is None
