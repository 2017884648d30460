"""A variant's choices: each takes the time of the variant beside its own, in every figure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.budgeting.test_planner import chain, loop, options_until

from lowtide.budgeting.families import Family


@pytest.mark.parametrize("case", [chain, loop])
@pytest.mark.parametrize("seconds", [0.0, 0.25])
def test_the_time_of_a_choice_is_that_of_its_plan(case, seconds: float) -> None:
    _, planner = case()
    plain = replace(planner.own.plain, extra_seconds=seconds, variant="other")
    family = Family(plain, options_until(None), planner.own._progress)
    assert family.choices
    for number, choice in enumerate(family.choices):
        assert family.extra_seconds(number) == seconds + choice.extra_seconds
        if number % 3 == 0:
            planned = family.planned(number)
            assert planned.extra_seconds == family.extra_seconds(number)
            assert planned.arena_bytes == family.arena_bytes(number)
            assert planned.variant == "other"
