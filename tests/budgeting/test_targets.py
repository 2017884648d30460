"""Plans for one budget: bodies in the room that callers leave, and variants up to the deadline."""

from __future__ import annotations

from functools import cache

import pytest
from tests.budgeting.chains import looped_step, training_step

from lowtide import compiler
from lowtide.budgeting.fits import less_room
from lowtide.budgeting.planner import BudgetPlanner
from lowtide.budgeting.targets import TargetSearch, quick_choice
from lowtide.budgeting.variants import ProgramVariant, variant_of
from lowtide.checking import check_plan
from lowtide.compiler.planned_passes import TooLateError
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, SearchOptions

SPLIT = ProgramVariant("split-large-instructions{parts=4}")


def planner_until(module, seconds: float | None, variants=()) -> BudgetPlanner:
    deadline = None if seconds is None else Deadline(seconds)
    options = compiler.PlanOptions(search=SearchOptions(Effort.FAST, deadline))
    return BudgetPlanner(module, compiler.plan(module, options), options, variants)


@cache
def looped() -> BudgetPlanner:
    return planner_until(looped_step(), None)


def test_a_body_keeps_to_the_room_that_its_caller_leaves() -> None:
    graphs, peak = looped().own.graphs, looped().own.plain.arena_bytes
    search = TargetSearch(graphs, Effort.FAST, Deadline(), lambda text: None)
    for part in (96, 88, 80):
        budget = peak * part // 100
        found = search.best(budget, Deadline())
        assert found is not None and found.nbytes <= budget
        again = search.best(budget, Deadline())
        assert again is not None and again.extra_seconds <= found.extra_seconds


def test_a_body_is_not_brought_to_less_than_a_budget_asks() -> None:
    """No more runs again inside of a loop than for the smallest share that is enough."""
    planner, graphs = looped(), looped().own.graphs
    search = TargetSearch(graphs, Effort.FAST, Deadline(), lambda text: None)
    less = 0
    for part in range(70, 100, 3):
        budget = planner.own.plain.arena_bytes * part // 100
        found = search.best(budget, Deadline())
        shared = [x for x in planner.own.choices if x.nbytes <= budget]
        if found is None or not shared:
            continue
        least = min([x.extra_seconds for x in shared])
        less += found.extra_seconds < least * (1 - 1e-9)
    assert less > 0


@pytest.mark.parametrize("make", [training_step, looped_step])
def test_with_a_deadline_plans_are_right_and_not_dearer(make) -> None:
    module = make()
    timed, untimed = planner_until(module, 1000), planner_until(module, None)
    for part in (90, 75):
        budget = untimed.own.plain.arena_bytes * part // 100
        found, expected = timed.within(budget).point, untimed.within(budget).point
        assert found is not None and found.arena_bytes <= budget
        assert check_plan(found.plan.module, found.plan.assignment) == ()
        assert expected is None or found.extra_seconds <= expected.extra_seconds * (1 + 1e-9)


def test_a_first_choice_is_found_where_only_a_body_can_shrink() -> None:
    planner = looped()
    budget = planner.own.plain.arena_bytes * 9 // 10
    found = quick_choice(planner.own.graphs, budget)
    assert found is not None and found.nbytes <= budget


def test_a_pass_that_plans_stops_where_no_time_is_left() -> None:
    module = training_step(rows=4096)
    with pytest.raises(TooLateError):
        variant_of(module, SPLIT, "scheduled", None, Deadline(0))
    bases = {}
    assert variant_of(module, SPLIT, "scheduled", bases) is not None
    base = bases[SPLIT.stage]
    assert variant_of(module, SPLIT, "scheduled", bases) is not None
    assert bases[SPLIT.stage] is base


def test_variants_are_left_out_where_they_would_come_too_late() -> None:
    planner = planner_until(training_step(rows=4096), 1000, (SPLIT,))
    planner._plain_seconds = 2000.0
    assert list(planner.variants) == []


def test_what_is_asked_for_next_fits_with_somewhat_more_gaps() -> None:
    budget, nbytes, arena = 1_000_000, 1_000_000, 1_015_000
    asked = less_room(budget, nbytes, arena, budget)
    assert 0.99 * budget < asked * (arena / nbytes + 0.003) <= budget


def test_what_is_asked_for_next_is_little_less_where_gaps_are_small() -> None:
    budget, nbytes, arena = 1_000_000, 999_990, 1_000_500
    asked = [less_room(budget, nbytes, arena, budget, failed) for failed in (1, 2, 3)]
    assert budget * 0.9985 < asked[1] < asked[0] < budget * nbytes / arena
    assert asked[2] < budget * 0.997
