"""Few buffers are packed exactly, beside the slow way."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.planning.exact.problems import check, optimum, problems

from lowtide.planning.exact import few
from lowtide.planning.exact.few import lowest
from lowtide.planning.plans import arena_packing
from lowtide.planning.problem import max_live, packing_problem
from lowtide.search.effort import Effort

MUCH = 10**9


@settings(max_examples=150, deadline=None)
@given(problems(most=6, alignments=(1, 2, 3, 4, 6, 8)))
def test_it_is_as_low_as_can_be(task):
    found = lowest(task, MUCH, max_live(task), Effort.DEFAULT)
    assert found.ended
    assert found.offsets is not None
    packing = arena_packing(task, found.offsets)
    check(task, packing)
    assert packing.arena_bytes == optimum(task)
    under = lowest(task, packing.arena_bytes, max_live(task), Effort.DEFAULT)
    assert (under.offsets, under.ended) == (None, True)


def crowd(count):
    """Buffers of uneven sizes that meet in many ways."""
    random = np.random.default_rng(count)
    begin = random.integers(0, 2 * count, count)
    length = random.integers(1, count, count)
    size = random.choice([4, 12, 36, 64, 100, 144, 2400], count)
    records = zip(size.tolist(), begin.tolist(), (begin + length).tolist(), strict=True)
    return packing_problem(list(records), np.gcd(size, 64).tolist())


def test_what_it_gives_up_is_not_called_the_end(monkeypatch):
    monkeypatch.setattr(few, "_WORK", dict.fromkeys(Effort, 40))
    task = crowd(24)
    found = lowest(task, MUCH, max_live(task), Effort.DEFAULT)
    assert not found.ended


@pytest.mark.parametrize("count", [12, 16, 20])
def test_equal_problems_get_equal_offsets(count):
    one, other = (lowest(crowd(count), MUCH, 0, Effort.DEFAULT) for _ in range(2))
    assert one.ended == other.ended
    assert np.array_equal(one.offsets, other.offsets)


def test_steps_at_which_less_lives_than_at_another_are_left_out():
    task = packing_problem([(8, 0, 9), (8, 1, 3), (8, 2, 5), (8, 4, 6)], [8] * 4)
    assert few._steps(task) == [(0, 1), (0,), (0, 1), (1,)]
