"""What is left out of a search finds room afterwards; bounds never exceed what is possible."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planning.exact.problems import by_size, check, first_fit, lives, optimum, problems

from lowtide.planning.exact.bounds import live_bound, resting_bound
from lowtide.planning.exact.instance import instance_of
from lowtide.planning.exact.items import Space, items_of
from lowtide.planning.exact.outcome import Outcome
from lowtide.planning.exact.reduce import ReducedLayout, reduced
from lowtide.planning.exact.refute import RefutationTree
from lowtide.planning.plans import arena_packing
from lowtide.planning.problem import FREE, TensorUsageRecord, max_live, packing_problem


@settings(max_examples=200, deadline=None)
@given(problems())
def test_bounds_never_exceed_the_optimum(problem):
    items = items_of(problem, Space.of(problem))
    best = optimum(problem)
    assert max_live(problem) <= live_bound(items) <= best
    assert resting_bound(instance_of(items, np.arange(len(items)))) <= best
    assert best % items.granule == 0


@settings(max_examples=200, deadline=None)
@given(problems(most=12), st.randoms(use_true_random=False), st.integers(0, 20))
def test_easy_items_fit_beside_any_core(problem, random, more):
    """However the core lies, what is easy finds room below the height."""
    height = max_live(problem) + more
    items = items_of(problem, Space.of(problem))
    order = list(range(len(problem)))
    random.shuffle(order)
    start = np.array(first_fit(problem, order), np.int64)
    parts = reduced(items, start[items.numbers], height)
    random.shuffle(order)
    other = np.array(first_fit(problem, order), np.int64)
    core = items.numbers[parts.core]
    if (other + problem.nbytes)[core].max(initial=0) > height:
        return
    layout = ReducedLayout(items, start[items.numbers])
    layout.addresses[parts.core] = other[core]
    layout.settle(parts.core, parts.easy, height)
    offsets = start.copy()
    offsets[items.numbers] = layout.addresses
    packing = arena_packing(problem, offsets)
    check(problem, packing)
    fixed = problem.fixed_offset != FREE
    held = (problem.fixed_offset + problem.nbytes)[fixed]
    assert packing.arena_bytes <= max(height, int(held.max(initial=0)))


def test_what_is_small_or_alone_is_left_out():
    records = [TensorUsageRecord(*row) for row in [(50, 0, 1), (60, 1, 2), (1, 0, 2), (90, 5, 6)]]
    problem = packing_problem(records)
    items = items_of(problem, Space.of(problem))
    parts = reduced(items, np.array([0, 60, 120, 30]), 115)
    assert parts.easy.tolist() == [3, 2]
    assert parts.core.tolist() == [0, 1]
    assert not len(reduced(items, np.array([0, 50, 110, 0]), 115).core)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_search_tree_knows_the_optimum(problem):
    items = items_of(problem, Space.of(problem))
    rows, best = lives(problem), optimum(problem)
    instance = instance_of(items, np.arange(len(items)))
    life = [tuple(rows[i]) for i in items.numbers]
    tree = RefutationTree(instance, life, best, 10_000)
    assert tree.search() is Outcome.FITS
    offsets = np.where(problem.fixed_offset == FREE, 0, problem.fixed_offset)
    offsets[items.numbers] = tree.addresses
    packing = arena_packing(problem, offsets)
    check(problem, packing)
    assert packing.arena_bytes == best
    if not len(items):
        return
    below = RefutationTree(instance, life, best - 1, 10_000)
    assert below.search() is Outcome.REFUTED


def test_a_search_tree_stops_at_its_limit():
    problem = packing_problem([TensorUsageRecord(3, 0, 1), TensorUsageRecord(2, 1, 2)] * 3)
    items = items_of(problem, Space.of(problem))
    instance = instance_of(items, np.arange(len(items)))
    tree = RefutationTree(instance, range(len(items)), by_size(problem).arena_bytes, 2)
    assert tree.search() is Outcome.OPEN


def test_an_easy_item_has_room_wherever_the_others_lie():
    """All places of two others, at the least height at which one is taken for easy, and above."""
    tight = 0
    for sizes in product(range(1, 5), repeat=3):
        records = [TensorUsageRecord(size, 0, 1) for size in sizes]
        items = items_of(packing_problem(records), Space.of(packing_problem(records)))
        for height in range(max(sizes), 2 * sum(sizes)):
            easy = reduced(items, np.full(3, height, np.int64), height).easy.tolist()
            if not easy:
                continue
            last = easy[-1]
            others = [x for x in range(3) if x != last]
            rows = [range(height - sizes[x] + 1) for x in others]
            is_free = all(
                any(
                    all(
                        at + sizes[last] <= place or place + sizes[x] <= at
                        for x, place in zip(others, places, strict=True)
                    )
                    for at in range(height - sizes[last] + 1)
                )
                for places in product(*rows)
            )
            assert is_free, (sizes, height, easy)
            tight += height < sum(sizes) + 2 * sizes[last]
    assert tight > 10
