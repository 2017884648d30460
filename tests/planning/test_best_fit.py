"""Offsets never overlap in time and place; easy problems are solved exactly."""

import math
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.planning.best_fit import (
    ARENA,
    FREE,
    PackingProblem,
    best_fit,
    least_arena_bytes,
    thorough_fit,
)


def problem(items, regions=(), fixed_in_arena=MappingProxyType({})):
    """A problem from (bytes, [(first, last), ..]) per item; the first items fill the regions."""
    rows = [(i, first, last) for i, (_, ranges) in enumerate(items) for first, last in ranges]
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    count = len(regions)
    region_of = [i if i < count else ARENA for i in range(len(items))]
    fixed = [0 if i < count else fixed_in_arena.get(i, FREE) for i in range(len(items))]
    return PackingProblem(
        np.array([size for size, _ in items], np.int64),
        *columns,
        np.array(region_of, np.int64),
        np.array(fixed, np.int64),
        np.array(regions, np.int64),
    )


def check(items, regions=(), fixed_in_arena=MappingProxyType({})):
    """Place items, check every pair the slow way, return the packing."""
    task = problem(items, regions, fixed_in_arena)
    packing = best_fit(task)
    better = thorough_fit(task)
    assert least_arena_bytes(task) <= better.arena_bytes <= packing.arena_bytes
    check_packing(better, items, regions)
    check_packing(packing, items, regions)
    return packing


def check_packing(packing, items, regions):
    place = list(zip(packing.region.tolist(), packing.offset.tolist(), strict=True))
    for i, (region, offset) in enumerate(place):
        size = items[i][0]
        assert offset % math.gcd(size, 64) == 0
        assert offset + size <= (regions[region] if region != ARENA else packing.arena_bytes)
        if i < len(regions):
            assert (region, offset) == (i, 0)
    for i in range(len(items)):
        for j in range(i):
            together = any(a <= d and c <= b for a, b in items[i][1] for c, d in items[j][1])
            if together and place[i][0] == place[j][0]:
                (_, x), (_, y) = place[i], place[j]
                assert x + items[i][0] <= y or y + items[j][0] <= x


ranges = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=3)


def disjoint(pairs):
    """Ranges as (first, last), the overlapping ones joined."""
    joined = []
    for first, length in sorted(pairs):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], first + length))
        else:
            joined.append((first, first + length))
    return joined


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 500), ranges), min_size=1, max_size=25), st.integers(0, 4))
def test_items_that_live_together_never_overlap(drawn, region_count):
    items = [(size, disjoint(pairs)) for size, pairs in drawn]
    regions = [size for size, _ in items[:region_count]]
    packing = check(items, regions)
    arena = [i for i in range(len(items)) if packing.region[i] == ARENA]
    assert packing.arena_bytes == max([packing.offset[i] + items[i][0] for i in arena], default=0)


def test_nested_ranges_reach_the_live_maximum():
    items = [(64 * (8 - i), [(i, 15 - i)]) for i in range(8)]
    assert check(items).arena_bytes == 64 * sum(range(1, 9))


def test_an_item_with_two_ranges_leaves_room_between_them():
    items = [(640, [(0, 2), (7, 9)]), (640, [(3, 6)])]
    assert check(items).arena_bytes == 640


def test_an_item_uses_a_region_while_it_is_free():
    items = [(640, [(5, 9)]), (600, [(0, 4)])]
    assert check(items, [640]).arena_bytes == 0


def test_an_item_never_spans_two_regions():
    items = [(64, [(5, 9)]), (64, [(5, 9)]), (128, [(0, 4)])]
    assert check(items, [64, 64]).arena_bytes == 128


def test_an_item_lies_across_fixed_items_that_come_later():
    items = [(64, [(5, 9)]), (64, [(6, 9)]), (192, [(0, 4)]), (64, [(6, 9)])]
    packing = check(items, fixed_in_arena={0: 0, 1: 64})
    assert packing.offset.tolist() == [0, 64, 0, 128]
    assert packing.arena_bytes == 192


def test_the_same_problem_gives_the_same_offsets():
    items = [(64 + 32 * (i % 7), [(i % 11, i % 11 + i % 5)]) for i in range(60)]
    a, b = check(items), check(items)
    assert a.offset.tolist() == b.offset.tolist()


@pytest.mark.parametrize("count", [0, 1])
def test_few_items(count):
    assert check([(100, [(0, 0)])] * count).arena_bytes == 100 * count


def test_a_chain_that_ends_in_a_fixed_item_takes_two_places():
    """Each item touches the next; from the front, the last but one would lie in its way."""
    for length in (6, 7):
        items = [(64, [(i, i + 1)]) for i in range(length)]
        packing = check(items, fixed_in_arena={length - 1: 0})
        assert packing.arena_bytes == 128
