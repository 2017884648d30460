"""Compiled searches do what their source does, and can be stopped and gone on with."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.planning.exact.problems import by_size, cut_up, optimum, problems

from lowtide.planning.exact import canonical, moves, parts, search, skyline
from lowtide.planning.exact.instance import instance_of
from lowtide.planning.exact.items import Space, items_of
from lowtide.planning.exact.outcome import Outcome
from lowtide.planning.exact.search import Method, Search, tables_of
from lowtide.planning.problem import max_live, packing_problem
from lowtide.search.kernels import Kernel


def instance(problem):
    items = items_of(problem, Space.of(problem))
    return instance_of(items, np.arange(len(items)))


def interpreted(patch):
    """Let all kernels run as Python, in which an index outside of an array is an error."""
    for module in (moves, parts, skyline, canonical):
        for name, value in list(vars(module).items()):
            if isinstance(value, Kernel):
                patch.setattr(module, name, value.python)
    for method, kernel in list(search._SEARCHES.items()):
        patch.setitem(search._SEARCHES, method, kernel.python)


def trace(given_instance, height, method):
    weight = np.ones(len(given_instance.steps))
    rank = np.arange(len(given_instance))[::-1].copy()
    found = Search(tables_of(given_instance), height, method, rank, weight)
    outcome = found.run(200)
    places = found.addresses.tolist() if outcome is Outcome.FITS else None
    return outcome, found.work, places, weight.tolist()


@settings(max_examples=60, deadline=None)
@given(problems(most=7))
def test_compiled_and_interpreted_searches_agree(problem):
    whole = instance(problem)
    if not len(whole):
        return
    for height in (max_live(problem), by_size(problem).arena_bytes - 1):
        for method in Method:
            compiled = trace(whole, height, method)
            with pytest.MonkeyPatch.context() as patch:
                interpreted(patch)
                assert trace(whole, height, method) == compiled


@settings(max_examples=100, deadline=None)
@given(problems(most=6))
def test_each_search_is_complete(problem):
    whole, best = instance(problem), optimum(problem)
    if not len(whole):
        return
    for method in Method:
        for height, outcome in ((best, Outcome.FITS), (best - 1, Outcome.REFUTED)):
            weight, rank = np.ones(len(whole.steps)), np.arange(len(whole))
            found = Search(tables_of(whole), height, method, rank, weight)
            assert found.run(100_000) is outcome


@pytest.mark.parametrize("method", Method)
def test_small_steps_lead_to_the_same_place(method):
    whole = instance(packing_problem(cut_up(60, 5)))
    rank = np.arange(len(whole))
    ways = []
    for step in (7, 100_000):
        found = Search(tables_of(whole), 1 << 20, method, rank, np.ones(len(whole.steps)))
        for _ in range(3_000_000 // step):
            if found.run(step) is not Outcome.OPEN:
                break
        assert found.outcome is Outcome.FITS
        ways.append((found.nodes, found.addresses.tolist()))
    assert ways[0] == ways[1]
