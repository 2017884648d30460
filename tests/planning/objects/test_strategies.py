import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.planning import TensorUsageRecord, assign_objects, object_strategies
from lowtide.planning.objects import min_cost_flow
from lowtide.planning.objects.task_profile import (
    clique_bound,
    lower_bound_offsets,
    positional_maximums,
    task_profiles,
)
from lowtide.planning.objects.usage_graph import reallocation_graph
from lowtide.planning.registry import ObjectOptions

from .instances import check_plan, overlap, proved, random_tensors, tensors

QUICK = ["naive", "equality", "equality_scan", "greedy_in_order", "greedy_by_breadth"]
QUICK += ["greedy_by_size", "greedy_best", "mincostflow"]


def test_all_strategies_are_listed():
    assert list(object_strategies())[: len(QUICK) + 1] == [*QUICK, "exact"]


@given(tensors())
@settings(max_examples=200, deadline=None)
def test_plans_are_valid_and_not_below_the_bound(records):
    for name in QUICK:
        plan = assign_objects(records, name)
        check_plan(records, plan)
        assert proved(records, plan.evidence) == plan.lower_bound <= plan.total_size


@given(tensors(), st.randoms())
@settings(max_examples=100, deadline=None)
def test_any_order(records, draw):
    draw.shuffle(records)
    for strategy in object_strategies().values():
        if strategy.any_order and strategy.name != "exact":
            check_plan(records, assign_objects(records, strategy.name))


@pytest.mark.slow
def test_plans_of_5000_instances_are_valid():
    for seed in range(5000):
        records = random_tensors(seed, random.Random(seed).randrange(1, 60), tasks=30)
        for name in QUICK:
            check_plan(records, assign_objects(records, name))


@given(tensors())
@settings(max_examples=200, deadline=None)
def test_positional_maximums_are_those_of_the_profiles(records):
    profiles = [[records[x].size for x in profile] for profile in task_profiles(records)]
    longest = max(map(len, profiles), default=0)
    expected = [max(p[k] for p in profiles if k < len(p)) for k in range(longest)]
    assert positional_maximums(records) == expected
    assert lower_bound_offsets(records) == max(map(sum, profiles), default=0)
    assert proved(records, clique_bound(records)) == sum(expected)


@given(tensors())
@settings(max_examples=50, deadline=None)
def test_native_flow_equals_python(records):
    options = ObjectOptions()
    expected = min_cost_flow.min_cost_flow(records, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(min_cost_flow, "_NATIVE_FROM", 0)
        assert min_cost_flow.min_cost_flow(records, options) == expected


def test_flow_costs_do_not_wrap_at_4_gib():
    big = 2**40
    records = [TensorUsageRecord(big, 0, 0), TensorUsageRecord(big + 1, 1, 1)]
    assert assign_objects(records, "mincostflow").object_sizes == (big + 1,)


def test_equality_takes_what_was_freed_last_and_its_scan_the_oldest():
    records = [TensorUsageRecord(4, first, last) for first, last in ((0, 1), (0, 2), (3, 3))]
    assert assign_objects(records, "equality").object_ids == (0, 1, 1)
    assert assign_objects(records, "equality_scan").object_ids == (0, 1, 0)
    square = [TensorUsageRecord((2, 2), *record[1:]) for record in records]
    assert assign_objects(square, "equality").object_ids == (0, 1, 0)


def test_images_share_objects_that_cover_them():
    draw = random.Random(3)
    for _ in range(100):
        firsts = sorted([draw.randrange(10) for _ in range(12)])
        records = [
            TensorUsageRecord(
                (draw.randrange(1, 5), draw.randrange(1, 5)), x, x + draw.randrange(3)
            )
            for x in firsts
        ]
        plan = assign_objects(records, "greedy_in_order")
        placed = list(zip(records, plan.object_ids, strict=True))
        for (a, there), (b, here) in combinations(placed, 2):
            assert there != here or not overlap(a, b)
        for record, target in placed:
            assert all(x <= y for x, y in zip(record.size, plan.object_sizes[target], strict=True))


def test_the_reallocation_graph_is_heeded():
    records = [TensorUsageRecord(8, first, first) for first in range(6)]
    related = [[2, 4], [3], [0], [1], [0], []]
    plan = assign_objects(records, "greedy_in_order", reallocation_graph=related)
    assert plan.object_ids == (0, 1, 0, 1, 2, 3)
    assert assign_objects(records, "greedy_in_order").object_ids == (0,) * 6


@pytest.mark.parametrize(
    ("records", "strategy", "graph", "message"),
    [
        ([(4, 1, 1), (4, 0, 0)], "equality", None, "record 1 begins at 0"),
        ([(4, 1, 1), (4, 0, 0)], "mincostflow", None, "in order of first task"),
        ([(4, 0, 1)], "greedy_by_sice", None, "did you mean 'greedy_by_size'"),
        ([((2, 2), 0, 1)], "greedy_by_size", None, r"takes sizes with \[1\] extents"),
        ([(4, 0, 1)], "naive", [[]], "knows no reallocation graph"),
        ([(4, 0, 1)], "greedy_in_order", [[], []], "of 2 tensors, expected 1"),
        ([((2, 2), 0, 1)], "greedy_in_order", [[]], "not for extents"),
        ([(2**62, 0, 1)], "exact", None, "have to be smaller"),
    ],
)
def test_what_is_refused(records, strategy, graph, message):
    rows = [TensorUsageRecord(*row) for row in records]
    with pytest.raises(ValueError, match=message):
        assign_objects(rows, strategy, reallocation_graph=graph)


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_partners_are_live_at_different_times_in_any_order(seed, count):
    """All that is computed from a tensor leads to its partner: found by walking paths."""
    draw = random.Random(seed)
    usage = [[y for y in range(x + 1, count) if draw.random() < 0.4] for x in range(count)]
    expected = [set() for _ in usage]
    for x, children in enumerate(usage):
        for v in range(count):
            if children and all(v in _descendants(usage, child) for child in children):
                expected[x].add(v)
                expected[v].add(x)
    assert reallocation_graph(usage) == [sorted(found) for found in expected]


def _descendants(usage, tensor):
    found = set(usage[tensor])
    for child in usage[tensor]:
        found |= _descendants(usage, child)
    return found


def test_cycles_and_unknown_tensors_are_refused():
    with pytest.raises(ValueError, match="tensor 0 is computed from itself"):
        reallocation_graph([[1], [0]])
    with pytest.raises(ValueError, match="tensor 1: 7"):
        reallocation_graph([[], [7]])
