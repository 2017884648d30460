"""Filling from below never lets buffers overlap, and reaches the bound where that is easy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planning.scale.drawn import buffers, check, problem, problems, random_problem

from lowtide.planning.plans import Packing, arena_packing
from lowtide.planning.problem import ARENA, dense_times, max_live
from lowtide.planning.scale import fill as filling
from lowtide.planning.scale import valleys
from lowtide.planning.scale.fill import MANNERS, fill, manners
from lowtide.planning.scale.orders import only

LIMIT = 2**61


@settings(max_examples=200, deadline=None)
@given(buffers(), st.sampled_from([*manners(2 * len(MANNERS))]))
def test_buffers_that_live_together_never_overlap(items, manner):
    task = dense_times(problem(items))
    check(task, arena_packing(task, fill(task, manner, LIMIT).offsets))


@settings(max_examples=50, deadline=None)
@given(buffers(3))
def test_gaps_are_filled_with_the_buffer(items):
    task = dense_times(problem(items))
    check(task, arena_packing(task, fill(task, MANNERS[0], LIMIT).offsets))


@settings(max_examples=50, deadline=None)
@given(buffers())
def test_what_is_over_the_limit_is_given_up(items):
    task = dense_times(problem(items))
    height = arena_packing(task, fill(task, MANNERS[0], LIMIT).offsets).arena_bytes
    assert fill(task, MANNERS[0], height - 1).offsets is None
    assert arena_packing(task, fill(task, MANNERS[0], height).offsets).arena_bytes == height


@pytest.mark.parametrize("manner", MANNERS[:3])
def test_compiled_code_gives_the_packing_of_python(manner, monkeypatch):
    task = dense_times(random_problem(3, 250, 150, 60))
    offsets = fill(task, manner, LIMIT).offsets
    check(task, arena_packing(task, offsets))
    monkeypatch.setattr(valleys, "fill", valleys.fill.python)
    assert fill(task, manner, LIMIT).offsets.tolist() == offsets.tolist()


def test_blocks_do_not_matter(monkeypatch):
    task = dense_times(random_problem(4, 300, 200, 60))
    offsets = fill(task, MANNERS[1], LIMIT).offsets
    monkeypatch.setattr(filling, "BLOCK", 7)
    assert fill(task, MANNERS[1], LIMIT).offsets.tolist() == offsets.tolist()


def test_nested_ranges_reach_the_most_live():
    task = problem([(64 + 8 * i, 1, [(i, 999 - i)]) for i in range(400)])
    offsets = fill(dense_times(task), MANNERS[0], LIMIT).offsets
    assert arena_packing(task, offsets).arena_bytes == max_live(task)


@pytest.mark.parametrize("longest", [50, 3_000, 10_000])
def test_many_buffers_are_near_the_most_live(longest):
    task = dense_times(random_problem(5, 10_000, 10_000, longest))
    offsets = fill(task, MANNERS[0], LIMIT).offsets
    assert arena_packing(task, offsets).arena_bytes <= 1.06 * max_live(task)


def test_places_do_not_depend_on_when_steps_are():
    task = random_problem(6, 200, 100, 30)
    offsets = fill(dense_times(task), MANNERS[0], LIMIT).offsets
    again = fill(dense_times(dense_times(task)), MANNERS[0], LIMIT).offsets
    assert np.array_equal(offsets, again)


@settings(max_examples=200, deadline=None)
@given(problems())
def test_fixed_buffers_keep_their_places(task):
    task = dense_times(only(task, np.flatnonzero(task.nbytes > 0)))
    offsets = fill(task, MANNERS[0], LIMIT).offsets
    tops = np.where(task.region_of == ARENA, offsets + task.nbytes, 0)
    check(task, Packing(task.region_of, offsets, int(tops.max(initial=0))))


def test_the_floor_is_the_top_of_what_is_fixed():
    draw = np.random.default_rng(0)
    spans = [sorted(draw.integers(0, 40, 2).tolist()) for _ in range(60)]
    items = [
        (int(size), 1, [tuple(span)])
        for size, span in zip(draw.integers(1, 9, 60), spans, strict=True)
    ]
    fixed = {number: int(draw.integers(0, 50)) for number in range(0, 60, 5)}
    floor = filling._floor(problem(items, fixed=fixed))
    for step in range(len(floor)):
        live = [fixed[k] + items[k][0] for k in fixed if spans[k][0] <= step <= spans[k][1]]
        assert floor[step] == max(live, default=0)
