"""Budgets hold for the arena, and costs are those of the module, whatever is estimated of both."""

from dataclasses import replace

import pytest
from tests.budgeting.chains import looped_step, training_step
from tests.budgeting.test_planner import FAST, planner_of

from lowtide import compiler
from lowtide.budgeting import families
from lowtide.budgeting.bounds import ModuleBounds
from lowtide.budgeting.families import Family
from lowtide.budgeting.fits import PlannedPoint
from lowtide.budgeting.graphs import budget_graphs
from lowtide.budgeting.points import plain_seconds
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.search.effort import Effort

STEPS = {"chain": training_step, "loop": looped_step}


def estimated(name, factor, least=0):
    """A planner whose choices are said to need other bytes than they do."""
    planner = planner_of(STEPS[name]())
    rows = [replace(x, nbytes=max(least, int(x.nbytes * factor))) for x in planner.own.choices]
    vars(planner.own)["choices"] = tuple(rows)
    return planner


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("factor", [0.2, 0.9])
def test_a_budget_is_for_the_arena(name, factor) -> None:
    """However little the graphs say that a plan needs."""
    planner = estimated(name, factor)
    most, least = planner.own.plain.arena_bytes, planner.least.arena_bytes
    for budget in range(least, most, (most - least) // 20):
        point = planner.within(budget).point
        assert point is not None and point.arena_bytes <= budget
        cheaper = [x for x in planner.own.choices if x.extra_seconds < point.extra_seconds]
        for number in range(len(cheaper)):
            assert planner.own.arena_bytes(number) > budget


def test_graphs_of_a_loop_may_say_too_much() -> None:
    """Its plans are looked at all the same."""
    planner = estimated("loop", 3)
    least = min([planner.own.arena_bytes(x) for x in range(len(planner.own.choices))])
    assert planner.within(least).point is not None


def test_the_least_plan_may_be_the_only_one_that_fits() -> None:
    alone = planner_of(training_step())
    budget = alone.least.arena_bytes
    planner = estimated("chain", 1, alone.own.plain.arena_bytes)
    fit = planner.within(budget)
    assert fit.point is not None and fit.point.arena_bytes == budget and fit.least is None


def test_plans_of_a_variant_cost_what_the_variant_does_too() -> None:
    planner = planner_of(training_step())
    variant = PlannedPoint(planner.own.plain.plan, 3.0, "other")
    family = Family(variant, compiler.PlanOptions(search=FAST), lambda text: None)
    for number, choice in enumerate(family.choices[:2]):
        assert family.planned(number).extra_seconds == 3.0 + choice.extra_seconds
        assert family.planned(number).variant == "other"


def test_plans_are_the_same_however_few_are_kept(monkeypatch) -> None:
    planner = planner_of(training_step(layers=6))
    count = len(planner.own.choices)
    expected = [str(planner.own.planned(x).plan.module) for x in range(count)]
    monkeypatch.setattr(families, "_KEPT_INSTRUCTIONS", 0)
    few = planner_of(training_step(layers=6))
    assert count > 2  # more than are kept at least
    assert [str(few.own.planned(x).plan.module) for x in range(count)] == expected


@pytest.mark.parametrize("name", STEPS)
def test_what_a_plan_costs_is_what_its_module_takes(name) -> None:
    planner = planner_of(STEPS[name]())
    for number in range(len(planner.own.choices)):
        point = planner.own.planned(number)
        seconds = plain_seconds(budget_graphs(point.plan.module))
        assert seconds - planner.base_seconds == pytest.approx(point.extra_seconds, rel=1e-6)


# -- bounds ----------------------------------------------------------------------------------------

CALL = """HloModule m
layer {
  p = f32[64] parameter(0)
  z = f32[] constant(0)
  w = f32[512] pad(p, z), padding=0_448
  ROOT s = f32[64] slice(w), slice={[8:72]}
}
ENTRY main {
  x = f32[64] parameter(0)
  a = f32[64] negate(x)
  b = f32[64] call(a), to_apply=layer
  ROOT c = f32[64] reverse(b), dimensions={0}
}
"""


def test_of_modules_with_calls_only_results_are_proved() -> None:
    module = compiler.scheduled(parse_hlo(CALL), compiler.PlanOptions("input"))
    bounds = ModuleBounds(budget_graphs(module), Effort.FAST)
    assert bounds.least_bytes == 256
    assert bounds.at(256).extra_seconds == 0
