"""Offsets never overlap in time and place; easy problems are solved exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.planning.scale.drawn import check, problem, problems, random_problem

from lowtide.planning.offsets import best_fit as module
from lowtide.planning.offsets.best_fit import best_fit
from lowtide.planning.problem import FREE
from lowtide.search.effort import SearchOptions

ANY = SearchOptions()


def placed(items, regions=(), fixed=None):
    task = problem([(size, 1, ranges) for size, ranges in items], regions, fixed)
    packing = best_fit(task, ANY)
    check(task, packing)
    return packing


@settings(max_examples=200, deadline=None)
@given(problems())
def test_buffers_that_live_together_never_overlap(task):
    check(task, best_fit(task, ANY))


def test_the_smallest_gap_is_taken():
    items = [(50, [(0, 9)]), (90, [(0, 1)]), (40, [(0, 9)]), (60, [(0, 1)]), (30, [(0, 9)])]
    fixed = {0: 0, 2: 140, 4: 240}
    assert placed([*items, (55, [(5, 6)])], fixed=fixed).offset[5] == 180


def test_a_buffer_with_two_ranges_leaves_room_between_them():
    assert placed([(640, [(0, 2), (7, 9)]), (640, [(3, 6)])]).arena_bytes == 640


def test_a_buffer_uses_a_region_while_it_is_free():
    assert placed([(640, [(5, 9)]), (600, [(0, 4)])], [640]).arena_bytes == 0


def test_a_buffer_never_spans_two_regions():
    items = [(64, [(5, 9)]), (64, [(5, 9)]), (128, [(0, 4)])]
    assert placed(items, [64, 64]).arena_bytes == 128


def test_offsets_are_aligned_from_where_a_region_begins():
    items = [(100, 1, [(5, 9)]), (100, 1, [(5, 9)]), (10, 64, [(0, 4)]), (90, 64, [(0, 4)])]
    packing = best_fit(problem(items, [100, 100]), ANY)
    assert packing.offset.tolist() == [0, 0, 0, 0]
    assert packing.region.tolist() == [0, 1, 1, 0]


def test_a_buffer_lies_across_fixed_ones_that_come_later():
    items = [(64, [(5, 9)]), (64, [(6, 9)]), (192, [(0, 4)]), (64, [(6, 9)])]
    packing = placed(items, fixed={0: 0, 1: 64})
    assert packing.offset.tolist() == [0, 64, 0, 128]
    assert packing.arena_bytes == 192


@pytest.mark.parametrize("count", [0, 1])
def test_few_buffers(count):
    assert placed([(100, [(0, 0)])] * count).arena_bytes == 100 * count


def test_compiled_code_takes_over_without_a_difference(monkeypatch):
    task = random_problem(1, 300, 200, 60)
    few = best_fit(task, ANY)
    monkeypatch.setattr(module, "MANY", 0)
    assert np.array_equal(best_fit(task, ANY).offset, few.offset)
    assert (task.fixed_offset == FREE).all()
