"""Which sequence is planned next, by what arenas took before, and what that saves."""

from __future__ import annotations

import pytest
from tests.budgeting.chains import training_step
from tests.budgeting.test_targets import planner_until

from lowtide.budgeting.arena_guess import ArenaGuess
from lowtide.budgeting.points import SequenceChoice


def guess_of(*parts: float) -> ArenaGuess:
    """What is known where arenas took so many times the bytes of their graphs."""
    guess = ArenaGuess()
    for number, part in enumerate(parts):
        guess.saw(SequenceChoice(1_000_000 + number, 1.0, {}), round(1_000_000 * part))
    return guess


def test_what_needs_less_fits_more_likely() -> None:
    guess = guess_of(1.02, 1.03, 1.04)
    chances = [guess.chance(nbytes, 1_000_000) for nbytes in (940_000, 970_874, 1_000_000)]
    assert chances[0] > 0.98 and chances[2] < 0.02
    assert chances[1] == pytest.approx(0.5, abs=0.02)


def test_arenas_that_differ_more_make_less_certain() -> None:
    alike, apart = guess_of(1.03, 1.03, 1.03), guess_of(1.0, 1.03, 1.06)
    assert alike.chance(960_000, 1_000_000) > apart.chance(960_000, 1_000_000) > 0.5
    assert alike.chance(985_000, 1_000_000) < apart.chance(985_000, 1_000_000) < 0.5


def test_small_gaps_have_more_room_up_to_the_budget() -> None:
    guess = guess_of(1.01, 1.02, 1.03)
    rooms = [guess.room(1_000_000, spreads) for spreads in (-0.5, 0.0, 1.0, 9.0)]
    assert rooms == sorted(rooms) and rooms[0] < rooms[2] < rooms[3] == 1_000_000
    assert rooms[1] == pytest.approx(1_000_000 / 1.02, rel=1e-3)
    assert guess_of().room(1_000_000, 0.0) == 1_000_000


def test_what_saves_most_by_its_chance_comes_first_and_once() -> None:
    guess = guess_of(1.02, 1.03, 1.04)
    quick, likely = SequenceChoice(999_000, 0.1, {}), SequenceChoice(950_000, 0.6, {})
    between, dear = SequenceChoice(972_000, 0.3, {}), SequenceChoice(900_000, 1.2, {})
    choices = [quick, likely, between, dear]
    found = guess.most_promising(choices, 1_000_000, 1.0)
    assert found is likely
    guess.saw(found, 970_000)
    assert guess.most_promising(choices, 1_000_000, 0.6) is between
    assert guess.most_promising([quick, dear], 1_000_000, 1.0) is None


def test_a_plan_is_followed_by_quicker_ones_that_fit() -> None:
    planner = planner_until(training_step(), 1000)
    quicker = 0
    for part in (75, 65, 55):
        budget = planner.own.plain.arena_bytes * part // 100
        first = planner.own.quick(budget)
        assert first is not None
        found = planner.own.closer(budget, first, 0.0)
        assert found.arena_bytes <= budget
        assert found.extra_seconds <= first.extra_seconds
        quicker += found.extra_seconds < first.extra_seconds
        assert planner.own.closer(budget, found, found.extra_seconds) is found
    assert quicker > 0
