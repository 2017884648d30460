"""The default strategy: never an overlap, equal offsets each time, low arenas."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.planning.scale.drawn import check, problem, problems, random_problem

from lowtide.planning.offsets import portfolio as module
from lowtide.planning.offsets.best_fit import best_fit, best_fit_in_order
from lowtide.planning.offsets.portfolio import packed_once, portfolio
from lowtide.planning.problem import ARENA, FREE, PackingProblem, max_live
from lowtide.search.effort import Effort, SearchOptions, StopReason

DEFAULT, FAST = SearchOptions(), SearchOptions(Effort.FAST)


@settings(max_examples=50, deadline=None)
@given(problems())
def test_buffers_that_live_together_never_overlap(task):
    quick, packing = portfolio(task, FAST), portfolio(task, DEFAULT)
    check(task, quick)
    check(task, packing)
    assert max_live(task) <= packing.bound <= packing.arena_bytes <= quick.arena_bytes


@pytest.fixture
def large(monkeypatch):
    """Treat all problems as large ones."""
    monkeypatch.setattr(module, "MANY", 0)
    monkeypatch.setattr(module, "_FEW", 0)


@pytest.mark.usefixtures("large")
def test_large_problems_are_packed_without_overlaps():
    @settings(max_examples=50, deadline=None)
    @given(problems())
    def run(task):
        for options in (FAST, DEFAULT):
            packing = portfolio(task, options)
            check(task, packing)
            assert packing.arena_bytes >= max_live(task)

    run()


@pytest.mark.parametrize("count", [300, 2_000])
def test_the_same_problem_gives_the_same_offsets(count):
    task = random_problem(0, count, count // 2, 40)
    one, other = portfolio(task, DEFAULT), portfolio(task, DEFAULT)
    assert np.array_equal(one.offset, other.offset)


@pytest.mark.parametrize(
    ("task", "options"),
    [(random_problem(0, 400, 200, 40), FAST), (random_problem(1, 90, 360, 90), DEFAULT)],
    ids=["many", "few, often"],
)
def test_compiled_code_places_many_buffers_and_few_often(task, options, monkeypatch):
    found = []
    for least in (10**9, 500):
        placed = []
        monkeypatch.setattr(module, "_LOADED", least)
        monkeypatch.setattr(
            module, "best_fit_in_order", lambda *x, to=placed: to.append(x) or best_fit_in_order(*x)
        )
        found.append((portfolio(task, options).offset.tolist(), len(placed)))
    (slow, many), (quick, few) = found
    assert slow == quick
    assert few == 1 < many


@pytest.mark.parametrize("seed", range(3))
def test_it_is_not_above_best_fit(seed):
    task = random_problem(seed, 1_000, 600, 50)
    assert portfolio(task, DEFAULT).arena_bytes <= best_fit(task, DEFAULT).arena_bytes


@pytest.mark.parametrize(("longest", "above"), [(60, 0.03), (600, 0.02), (8_000, 0.02)])
def test_many_random_buffers_are_near_the_most_live(longest, above):
    task = random_problem(1, 8_000, 8_000, longest)
    assert portfolio(task, DEFAULT).arena_bytes <= (1 + above) * max_live(task)


def test_parts_of_time_are_packed_by_themselves():
    """Each copy is packed by another try; as a whole, none packs all."""
    copies = [random_problem(seed, 60, 40, 25) for seed in range(40)]
    shift = [np.int64(100 * number) for number in range(len(copies))]
    count = sum([len(copy) for copy in copies])
    whole = PackingProblem(
        np.concatenate([copy.nbytes for copy in copies]),
        np.ones(count, np.int64),
        np.arange(count),
        np.concatenate([copy.first + by for copy, by in zip(copies, shift, strict=True)]),
        np.concatenate([copy.last + by for copy, by in zip(copies, shift, strict=True)]),
        np.full(count, FREE),
        np.full(count, ARENA),
        np.zeros(0, np.int64),
    )
    packing = portfolio(whole, DEFAULT)
    check_parts = [portfolio(copy, DEFAULT).arena_bytes for copy in copies]
    assert packing.arena_bytes <= max(max_live(whole), *check_parts)
    assert packing.arena_bytes == max_live(whole)


def test_a_chain_that_ends_in_a_fixed_buffer_takes_two_places():
    """Each touches the next; from the front, the last but one would lie in its way."""
    for length in (6, 7):
        task = problem([(64, 64, [(i, i + 1)]) for i in range(length)], fixed={length - 1: 0})
        assert portfolio(task, FAST).arena_bytes == 128


def test_few_buffers_are_packed_as_low_as_can_be():
    """Three lines that meet: no order of best fit finds the packing to the most live."""
    task = problem(
        [
            (4, 4, [(0, 16)]),
            (64, 64, [(0, 3), (12, 16)]),
            (16, 16, [(1, 10)]),
            (64, 64, [(3, 4)]),
            (64, 64, [(4, 16)]),
            (32, 32, [(5, 6)]),
            (36, 4, [(6, 12)]),
        ]
    )
    packing = portfolio(task, DEFAULT)
    check(task, packing)
    assert (packing.stopped, packing.arena_bytes) == (StopReason.DONE, packing.bound)


def test_a_search_goes_on_where_a_quick_one_ended(monkeypatch):
    """It comes to the same packing as one from the start, and tries no order twice."""
    task = random_problem(3, 150, 40, 30)
    whole = portfolio(task, DEFAULT)
    quick = portfolio(task, FAST)
    before = quick.offset.copy()
    begun = []
    monkeypatch.setattr(module, "_begin", lambda *given: begun.append(given))
    after = portfolio(task, DEFAULT)
    assert quick.arena_bytes > quick.bound and not begun
    assert after.arena_bytes == whole.arena_bytes <= quick.arena_bytes
    assert (after.offset == whole.offset).all() and (quick.offset == before).all()


def test_what_was_packed_of_late_is_not_packed_again(monkeypatch):
    """Equal problems are one, whoever made them; of another effort, or size, it is another."""
    calls = []

    def counted(task, options):
        calls.append(len(task))
        return portfolio(task, options)

    monkeypatch.setattr(module, "portfolio", counted)
    monkeypatch.setattr(module, "_KEPT", type(module._KEPT)())
    first, again = random_problem(3, 30, 20, 9), random_problem(3, 30, 20, 9)
    assert packed_once(first, FAST) is packed_once(again, FAST)
    packed_once(first, DEFAULT)
    packed_once(random_problem(4, 30, 20, 9), FAST)
    assert len(calls) == 3
    for seed in range(5, 5 + module._MOST_KEPT):
        packed_once(random_problem(seed, 30, 20, 9), FAST)
    packed_once(first, FAST)
    assert len(calls) == 4 + module._MOST_KEPT
    late = SearchOptions(Effort.FAST, deadline=0.0)
    hard = random_problem(2, 150, 40, 30)
    assert packed_once(hard, late).stopped == StopReason.DEADLINE
    assert packed_once(hard, FAST).stopped != StopReason.DEADLINE


def test_buffers_without_bytes_need_no_place():
    task = problem([(0, 64, [(0, 9)]), (100, 1, [(0, 9)]), (0, 1, [(3, 3)])])
    packing = portfolio(task, DEFAULT)
    assert (packing.arena_bytes, packing.offset.tolist()) == (100, [0, 0, 0])


def test_no_buffers():
    packing = portfolio(problem([]), DEFAULT)
    assert (packing.arena_bytes, packing.stopped) == (0, StopReason.DONE)


def hard():
    """A problem that portfolio does not pack to the most live."""
    return random_problem(7, 400, 60, 40)


def test_a_capacity_is_enough():
    free = portfolio(hard(), FAST)
    asked = portfolio(hard(), SearchOptions(capacity=2 * free.arena_bytes))
    assert free.arena_bytes <= asked.arena_bytes <= 2 * free.arena_bytes
    assert asked.stopped == StopReason.DONE


def test_progress_tells_falling_heights():
    told = []
    options = SearchOptions(progress=lambda height, bound: told.append((height, bound)))
    packing = portfolio(random_problem(2, 900, 500, 60), options)
    assert told[-1] == (packing.arena_bytes, packing.bound)
    assert [height for height, _ in told] == sorted({height for height, _ in told}, reverse=True)


def test_a_deadline_that_is_over_gives_what_there_is():
    task = random_problem(2, 900, 500, 60)
    packing = portfolio(task, SearchOptions(deadline=0.0))
    check(task, packing)
    assert packing.stopped == StopReason.DEADLINE


def test_an_interrupt_gives_what_there_is():
    def interrupt(height, bound):
        raise KeyboardInterrupt

    task = random_problem(2, 900, 500, 60)
    packing = portfolio(task, SearchOptions(progress=interrupt))
    check(task, packing)
    assert packing.stopped == StopReason.INTERRUPT
