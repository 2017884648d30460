"""Certificates of modules within budgets: accepted, never above the truth, and hard to forge."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest
from tests.analysis.random_modules import RandomModule
from tests.budgeting.chains import looped_step, training_step
from tests.budgeting.test_planner import make_plan, planner_of
from tests.certificate.cases import answer, compact, copied, signed
from tests.certificate.test_corruption import damaged
from tests.certificate.test_module_certificates import places_of_numbers
from tests.random_modules import MEMORY, random_module
from tests.remat.small_graphs import least_extra

from lowtide import compiler
from lowtide.budgeting.bounds import ModuleBounds
from lowtide.budgeting.certificates import certificate_within, differences_within
from lowtide.budgeting.graphs import budget_graphs
from lowtide.budgeting.planner import planner_of as default_planner_of
from lowtide.certificate import NOT_CERTIFIED, OPTIMAL, REJECTED, check
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.remat.measure import step_bytes
from lowtide.remat.tables import tables_of
from lowtide.search.effort import Effort

NONE = 1 << 99
TICK = 1e-13


@cache
def chain():
    return planner_of(training_step(layers=5))


@cache
def loop():
    return planner_of(looped_step(layers=4))


def made_for(planner, budget):
    point = next(planner.own.points(budget), None)
    return None if point is None else point.plan


def certified(planner, budget):
    made = made_for(planner, budget)
    return certificate_within(planner.own.graphs, planner.bounds, budget, made), made


@pytest.mark.parametrize("case", [chain, loop])
def test_they_say_what_is_planned_and_proved(case) -> None:
    planner = case()
    least, most = planner.bounds.least_bytes, planner.own.plain.arena_bytes
    proved = 0
    for budget in {int(x) for x in np.linspace(least - 1, most - 1, 12)}:
        document, made = certified(planner, budget)
        verdict, bound = answer(document), planner.bounds.at(budget)
        assert differences_within(document, planner.own.graphs, made) == []
        if bound.is_infeasible:
            assert (verdict.answer, verdict.bound) == (OPTIMAL, NONE)
            continue
        assert verdict.answer in (OPTIMAL, NOT_CERTIFIED), verdict
        assert verdict.bound * TICK <= bound.extra_seconds * (1 + 1e-6) + 1e-12  # At one node each.
        proved += verdict.bound * TICK > 0.3 * bound.extra_seconds > 0
        if made is None:
            assert verdict.size == NONE
        else:
            extra = next(planner.own.points(budget)).extra_seconds
            assert verdict.size * TICK == pytest.approx(extra, abs=1e-12)
    assert proved > 5


def test_equal_modules_get_equal_certificates() -> None:
    planners = [default_planner_of(training_step(layers=3)) for _ in range(2)]
    budget = planners[0].own.plain.arena_bytes * 3 // 4
    first, second = [compact(certified(x, budget)[0]) for x in planners]
    assert first == second and check(first).bound > 0


def test_what_the_body_of_a_loop_costs_counts_as_often_as_it_runs() -> None:
    bounds = []
    for trips in (3, 300):
        planner = planner_of(looped_step(trips, layers=4))
        budget = planner.own.plain.arena_bytes * 4 // 5
        bounds.append(answer(certified(planner, budget)[0]).bound)
    assert bounds[1] == 100 * bounds[0] > 0


BESIDE_AN_ARGUMENT = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (1, {}) }

body {
  state = (s32[], f32[64,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[64,64] get-tuple-element(state), index=1
  y = f32[64,64] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  xx = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  yy = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (s32[], f32[64,64], f32[64,64]) tuple(next, xx, yy)
}

condition {
  state = (s32[], f32[64,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  most = s32[] constant(4)
  ROOT less = pred[] compare(i, most), direction=LT
}

ENTRY main {
  a = f32[64,64] parameter(0)
  q = f32[512,64] parameter(1)
  zero = s32[] constant(0)
  b = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,64] dot(b, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  begin = (s32[], f32[64,64], f32[64,64]) tuple(zero, b, c)
  loop = (s32[], f32[64,64], f32[64,64]) while(begin), condition=condition, body=body
  r = f32[64,64] get-tuple-element(loop), index=1
  s = f32[64,64] get-tuple-element(loop), index=2
  rs = f32[1,64] slice(r), slice={[0:1], [0:64]}
  ss = f32[1,64] slice(s), slice={[0:1], [0:64]}
  t = f32[1,64] add(rs, ss)
  u = f32[512,64] dynamic-update-slice(q, t, zero, zero)
  ROOT v = (f32[512,64]) tuple(u)

}
"""
"""The body makes a value beside its state, while the caller holds `q` for later: 3 of 16 KiB."""


def test_what_a_body_holds_counts_beside_what_its_caller_holds() -> None:
    """No step of the caller reads `q` and runs the loop: both together are seen by cuts only."""
    planner = default_planner_of(parse_hlo(BESIDE_AN_ARGUMENT))
    least = 3 * 16384 + 4
    assert planner.bounds.least_bytes == least
    assert not planner.bounds.at(least).is_infeasible
    fit = planner.within(least - 1)
    assert fit.point is None and fit.bound is not None and fit.bound.is_infeasible
    assert fit.bound.binding is not None and fit.bound.binding.name == "loop"
    assert fit.document()["infeasible_proved"]
    for budget, bound in ((least - 1, NONE), (least, 0)):
        document, made = certified(planner, budget)
        verdict = answer(document)
        assert (verdict.answer != REJECTED, verdict.bound) == (True, bound)
        assert differences_within(document, planner.own.graphs, made) == []


def test_random_modules_with_loops_calls_and_conditionals() -> None:
    """Of calls only the results are certified; no plan fits exactly where the bound says so."""
    kinds = set()
    for seed in range(30):
        module = random_module(seed, MEMORY)
        planner = planner_of(module)
        most = planner.own.plain.arena_bytes
        for budget in {most - 1, most * 2 // 3, planner.bounds.least_bytes - 1} - {0, -1}:
            document, made = certified(planner, budget)
            verdict, bound = answer(document), planner.bounds.at(budget)
            assert verdict.answer != REJECTED, (seed, budget, verdict)
            assert differences_within(document, planner.own.graphs, made) == []
            assert (verdict.bound == NONE) == bound.is_infeasible, (seed, budget)
            kinds.add((planner.own.graphs.has_calls, bound.is_infeasible, made is None))
    assert {(True, True, True), (False, True, True), (False, False, True)} <= kinds


# -- the truth -------------------------------------------------------------------------------------


def true_least(graphs, budget, unit):
    """The least extra seconds of a module with one loop or none, by trying all sequences of all.

    A body may need any multiple of `unit` bytes; all its runs take what is cheapest for that.
    """
    entry, totals = graphs.entry, {}
    cap = budget + entry.state_bytes
    if len(graphs.graphs) == 1:
        return no_less(least_extra(entry.holding([], {}), cap, entry.once))
    condition, body, _ = graphs.graphs
    for graph in (condition, body):
        totals[graph.computation] = float(graph.holding([0], totals).seconds.sum())
    memory = body.holding([0], totals)
    found, plain = [], int(step_bytes(tables_of(memory), body.order).max())
    for room in range(0, plain + unit, unit):
        inside = no_less(least_extra(memory, room, body.once))
        if inside == math.inf:
            continue
        longer = {**totals, body.computation: totals[body.computation] + inside}
        whole = entry.holding([0, room], longer)
        found.append(no_less(least_extra(whole, cap, entry.once)) + body.count * inside)
    return min(found)


def no_less(seconds):
    return math.inf if seconds is None else seconds


def held_against_the_truth(module, unit, budgets):
    """Check the certificates of some budgets; return how many bounds are positive, and tight."""
    graphs = budget_graphs(module)
    bounds = ModuleBounds(graphs, Effort.DEFAULT)
    positive = tight = 0
    for budget in budgets:
        document = certificate_within(graphs, bounds, budget, None)
        verdict, truth = answer(document), true_least(graphs, budget, unit)
        assert verdict.answer != REJECTED, verdict
        assert differences_within(document, graphs, None) == []
        assert (verdict.bound if verdict.bound == NONE else verdict.bound * TICK) <= truth + 1e-12
        positive += verdict.bound > 0
        tight += verdict.bound * TICK > truth - 1e-11 > 0 or truth == math.inf != verdict.bound
    return positive, tight


def test_no_bound_is_above_the_least_of_all_sequences() -> None:
    positive = 0
    for seed in range(60):
        text = RandomModule(seed, 4, control=(), depth=1).text()
        module = compiler.scheduled(parse_hlo(text), compiler.PlanOptions("input"))
        if len(budget_graphs(module).entry.found.flow.nodes) > 10:
            continue
        most = make_plan(module, "input").report.ladder.arena_bytes
        budgets = [x for x in (most - 4, most * 3 // 4, most // 2) if x > 0]
        positive += held_against_the_truth(module, 64, budgets)[0]
    assert positive > 10


BULKY_LOOP = """HloModule bulky
body {
  state = (f32[16]) parameter(0)
  x = f32[16] get-tuple-element(state), index=0
  zero = f32[] constant(0)
  a = f32[96] pad(x, zero), padding=0_80
  s = f32[16] slice(a), slice={[8:24]}
  t = f32[128] pad(s, zero), padding=0_112
  u = f32[16] slice(t), slice={[8:24]}
  v = f32[16] slice(a), slice={[4:20]}
  r = f32[16] add(u, v)
  ROOT out = (f32[16]) tuple(r)
}
condition {
  state = (f32[16]) parameter(0)
  ROOT more = pred[] constant(false)
}
ENTRY main {
  p = f32[16] parameter(0)
  zero = f32[] constant(0)
  w = f32[64] pad(p, zero), padding=0_48
  b = f32[16] slice(w), slice={[8:24]}
  begin = (f32[16]) tuple(b)
  loop = (f32[16]) while(begin), condition=condition, body=body, CONFIG
  y = f32[16] get-tuple-element(loop), index=0
  c = f32[16] slice(w), slice={[4:20]}
  ROOT z = f32[16] add(y, c)
}
"""


def bulky_loop(trips):
    config = f'backend_config={{"known_trip_count":{{"n":"{trips}"}}}}'
    return BULKY_LOOP.replace("CONFIG", config)


@pytest.mark.parametrize("trips", [1, 7])
def test_no_bound_of_a_loop_is_above_the_least_of_all_sequences(trips) -> None:
    """What runs again in the entry, in the body, or in both: the sum is never too high."""
    module = compiler.scheduled(parse_hlo(bulky_loop(trips)), compiler.PlanOptions("input"))
    most = make_plan(module, "input").report.ladder.arena_bytes
    positive, tight = held_against_the_truth(module, 64, range(most - 640, most, 64))
    assert positive >= 5 and tight >= 2


# -- damage ----------------------------------------------------------------------------------------


@cache
def damageable():
    """Planners, certificates and plans: a chain, a loop, and a budget that is too small."""
    rows = []
    for planner, share in ((chain(), 0.75), (loop(), 0.9), (loop(), 0.3)):
        budget = int(planner.own.plain.arena_bytes * share)
        rows.append((planner, *certified(planner, budget)))
    assert all(answer(document).bound for _, document, _ in rows)
    return rows


def test_a_thousand_damaged_files_are_rejected() -> None:
    draw = random.Random(3)
    rejected = 0
    while rejected < 1_000:
        _, document, _ = draw.choice(damageable())
        data = compact(document)
        broken = damaged(draw, data)
        if broken not in (data, data + b"\n"):
            assert check(broken).answer == REJECTED
            rejected += 1


def test_a_thousand_numbers_changed_and_signed_anew_show() -> None:
    """They are rejected, or not those of the module; else they say the same as before."""
    draw, shown = random.Random(4), 0
    for planner, document, made in damageable():
        before = answer(document)
        paths = [*places_of_numbers(document)]
        for path in draw.choices(paths, k=450):
            broken = copied(document)
            section = broken
            for name in path[:-1]:
                section = section[name]
            section[path[-1]] = max(0, section[path[-1]] + draw.choice((-1, 1, 7, -64)))
            if broken == document:
                continue
            verdict = answer(signed(broken))
            if verdict.answer == REJECTED or differences_within(broken, planner.own.graphs, made):
                shown += 1
            else:
                assert (verdict.size, verdict.bound) == (before.size, before.bound), path
                assert {*path} & {"evidence", "places", "takes", "steps", "budget"}, path
    assert shown >= 1_000
