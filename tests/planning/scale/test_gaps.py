"""Best fit in compiled code equals best fit in Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planning.scale.drawn import check, problems, random_problem

from lowtide.planning.offsets.best_fit import best_fit_in_order
from lowtide.planning.problem import FREE
from lowtide.planning.scale import gaps


def equal(one, other):
    return (
        one.offset.tolist() == other.offset.tolist()
        and one.region.tolist() == other.region.tolist()
        and one.arena_bytes == other.arena_bytes
    )


def shuffled(task, seed):
    sized = (task.fixed_offset == FREE) & (task.nbytes > 0)
    return np.random.default_rng(seed).permutation(np.flatnonzero(sized))


@settings(max_examples=200, deadline=None)
@given(problems(), st.integers(0, 99), st.booleans())
def test_compiled_code_gives_the_packing_of_python(task, seed, ranked):
    order = shuffled(task, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaps, "MANY_LIVE", 0.0 if ranked else 1.1)
        packing = gaps.best_fit_in_order(task, order)
    assert equal(packing, best_fit_in_order(task, order))


@pytest.mark.parametrize("many_live", [0.0, 1.1])
def test_with_many_neighbours(monkeypatch, many_live):
    monkeypatch.setattr(gaps, "MANY_LIVE", many_live)
    task = random_problem(0, 400, 300, 200)
    order = shuffled(task, 0)
    packing = gaps.best_fit_in_order(task, order)
    check(task, packing)
    assert equal(packing, best_fit_in_order(task, order))
    monkeypatch.setattr(gaps, "place_all", gaps.place_all.python)
    assert equal(packing, gaps.best_fit_in_order(task, order))


def test_the_work_can_be_ended():
    def enough():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        gaps.best_fit_in_order(random_problem(0, 10, 5, 5), np.arange(10), enough)
