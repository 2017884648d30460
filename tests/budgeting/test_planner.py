"""Budgets of modules: kept, monotone, right, never below the bound, and honest where none fits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from tests.budgeting.chains import looped_step, training_step

from lowtide import compiler
from lowtide.budgeting.bounds import ModuleBound, ModuleBounds
from lowtide.budgeting.errors import OverMemoryError, refusal
from lowtide.budgeting.pareto import pareto
from lowtide.budgeting.planner import BudgetPlanner
from lowtide.budgeting.points import xla_choice
from lowtide.budgeting.variants import ProgramVariant
from lowtide.checking import check_plan
from lowtide.client.executable.compiling import compile_module
from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.options import Options
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, SearchOptions
from lowtide.testing.check_pass import seeded_arguments

FAST = SearchOptions(Effort.FAST)


def make_plan(module: Module, stage: str) -> compiler.ModulePlan:
    return compiler.plan(module, compiler.PlanOptions(stage, search=FAST))


def planner_of(
    module: Module, variants: tuple[ProgramVariant, ...] = (), deadline: Deadline | None = None
) -> BudgetPlanner:
    return BudgetPlanner(module, make_plan(module, "scheduled"), options_until(deadline), variants)


def options_until(deadline: Deadline | None) -> compiler.PlanOptions:
    return compiler.PlanOptions(search=SearchOptions(Effort.FAST, deadline))


@cache
def chain() -> tuple[Module, BudgetPlanner]:
    module = training_step()
    return module, planner_of(module)


@cache
def loop() -> tuple[Module, BudgetPlanner]:
    module = looped_step()
    return module, planner_of(module)


@pytest.mark.parametrize("case", [chain, loop])
def test_budgets_are_kept_and_monotone(case) -> None:
    _, planner = case()
    least, most = planner.least.arena_bytes, planner.own.plain.arena_bytes
    assert least < 0.75 * most
    fits = [planner.within(int(x)) for x in np.linspace(least, most, 50)]
    for fit in fits:
        assert fit.point is not None and fit.point.arena_bytes <= fit.budget_bytes
        if fit.bound is not None:
            assert fit.bound.extra_seconds <= fit.point.extra_seconds * (1 + 1e-9)
    for smaller, larger in pairwise([fit.point for fit in fits]):
        assert larger.extra_seconds <= smaller.extra_seconds
        assert larger.arena_bytes >= smaller.arena_bytes


@pytest.mark.parametrize("case", [chain, loop])
def test_plans_compute_the_same(case) -> None:
    module, planner = case()
    arguments = seeded_arguments(module, 0)
    expected = value_leaves(evaluate(planner.own.plain.plan.module, arguments))
    for number in range(len(planner.own.choices)):
        plan = planner.own.planned(number).plan
        assert not check_plan(plan.module, plan.assignment)
        found = value_leaves(evaluate(plan.module, arguments))
        assert all(a.tobytes() == b.tobytes() for a, b in zip(expected, found, strict=True))


def test_the_time_of_a_loop_is_that_of_all_its_iterations() -> None:
    extra = []
    for trips in (3, 300):
        planner = planner_of(looped_step(trips))
        extra.append(planner.least.extra_seconds)
    assert extra[1] == pytest.approx(100 * extra[0])


def test_where_the_plain_plan_fits_nothing_is_searched() -> None:
    planner = planner_of(training_step())
    fit = planner.within(planner.own.plain.arena_bytes)
    assert fit.point is planner.own.plain and fit.document()["extra_seconds"] == 0
    assert "choices" not in vars(planner.own)


def test_a_budget_below_every_step_is_proved_infeasible() -> None:
    _, planner = chain()
    fit = planner.within(planner.bounds.least_bytes - 1)
    assert fit.point is None and fit.bound is not None and fit.bound.is_infeasible
    words = refusal(planner.own.plain.plan.report, fit)
    binding = fit.bound.binding
    assert binding is not None and f"the step of {binding.name} takes" in words
    assert f"the smallest budget known to do is {planner.least.arena_bytes:,} bytes" in words
    assert planner.bounds.least_bytes <= planner.least.arena_bytes


def test_a_budget_below_what_is_returned_names_what_could_be_donated() -> None:
    module = parse_hlo(
        "HloModule m\n\nENTRY main {\n  x = f32[100] parameter(0)\n"
        "  ROOT y = f32[100] negate(x)\n}\n"
    )
    planner = planner_of(module)
    words = refusal(planner.own.plain.plan.report, planner.within(100))
    assert "what it returns takes 400 bytes: donating argument 0 (x) would save 400" in words


def test_a_passed_deadline_ends_the_walk_of_xla() -> None:
    graphs = chain()[1].own.graphs
    budget = chain()[1].own.plain.arena_bytes // 2
    assert xla_choice(graphs, budget)[1] > 0
    sequence, extra = xla_choice(graphs, budget, Deadline(0))
    assert extra == 0 and len(set(sequence)) == len(sequence)


def test_a_passed_deadline_leaves_the_plain_plan() -> None:
    planner = planner_of(training_step(), deadline=Deadline(0))
    fit = planner.within(0)
    assert fit.point is None and fit.least is not None
    assert fit.least.arena_bytes <= planner.own.plain.arena_bytes


@pytest.mark.parametrize("make", [training_step, looped_step])
def test_a_first_plan_is_made_whatever_the_deadline(make) -> None:
    module = make()
    planner = planner_of(module, deadline=Deadline(0))
    budget = planner.own.plain.arena_bytes * 8 // 10
    fit = planner.within(budget)
    assert fit.point is not None and fit.was_late
    assert fit.point.arena_bytes <= budget and fit.point.extra_seconds > 0
    assert check_plan(fit.point.plan.module, fit.point.plan.assignment) == ()
    arguments = seeded_arguments(module, 0)
    expected = value_leaves(evaluate(module, arguments))
    found = value_leaves(evaluate(fit.point.plan.module, arguments))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_deadline_that_is_not_reached_changes_nothing() -> None:
    told: list[str] = []
    module, planner = chain()
    budget = planner.own.plain.arena_bytes * 7 // 10
    plain, options = planner.own.plain.plan, options_until(Deadline(1000))
    timed = BudgetPlanner(module, plain, options, (), told.append)
    found, expected = timed.within(budget), planner.within(budget)
    assert found.point is not None and expected.point is not None and not found.was_late
    assert str(found.point.plan.module) == str(expected.point.plan.module)
    assert "more time" in told[1]


def test_a_refusal_says_that_the_deadline_came_first() -> None:
    planner = planner_of(training_step(), deadline=Deadline(0))
    fit = replace(planner.within(0), bound=None, was_late=True)
    report = replace(planner.own.plain.plan.report, output_bytes=0)
    assert "by the deadline" in refusal(report, fit)
    assert "by the deadline" not in refusal(report, replace(fit, was_late=False))


def test_ctrl_c_leaves_what_was_found(monkeypatch) -> None:
    deadline = Deadline()

    def interrupted(*_args: object, **_kwargs: object) -> None:
        deadline.interrupt()

    monkeypatch.setattr("lowtide.remat.frontier.LevelSearch", interrupted)
    planner = planner_of(training_step(), deadline=deadline)
    assert planner.least is planner.own.plain and deadline.was_interrupted


def test_ctrl_c_that_nobody_handles_goes_on(monkeypatch) -> None:
    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    planner = planner_of(training_step(), deadline=Deadline(1000))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("lowtide.remat.frontier.LevelSearch", interrupted)
        planner.within(0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("lowtide.budgeting.families.with_sequences", interrupted)
        planner.within(0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("lowtide.budgeting.bounds.ModuleBounds.at", interrupted)
        planner.within(0)


@pytest.mark.parametrize("plans", range(6))
def test_ctrl_c_while_plans_are_made_leaves_those_that_were(plans, monkeypatch) -> None:
    made: list[compiler.ModulePlan] = []
    variant = ProgramVariant("split-large-instructions{parts=4}")
    deadline = Deadline()

    def interrupted(module: Module, options: compiler.PlanOptions) -> compiler.ModulePlan:
        if len(made) > plans:
            deadline.interrupt()
        made.append(make_plan(module, options.stage))
        return made[-1]

    for room in ("families", "planner"):
        monkeypatch.setattr(f"lowtide.budgeting.{room}.plan_module", interrupted)
    module = training_step(rows=4096)
    plain = interrupted(module, compiler.DEFAULT_PLAN)
    planner = BudgetPlanner(module, plain, options_until(deadline), (variant,))
    fit = planner.within(plain.report.ladder.arena_bytes * 7 // 10)
    found = fit.point or fit.least
    assert found is not None and found.plan in made
    assert (fit.point is None) == (found.arena_bytes > fit.budget_bytes)
    assert deadline.was_interrupted or fit.point is not None


def test_from_the_deadline_on_one_more_plan_is_made(monkeypatch) -> None:
    made: list[Module] = []
    deadline = Deadline()
    module = training_step(rows=4096)
    plain = make_plan(module, "scheduled")

    def counted(changed: Module, options: compiler.PlanOptions) -> compiler.ModulePlan:
        made.append(changed)
        return make_plan(changed, options.stage)

    monkeypatch.setattr("lowtide.budgeting.families.plan_module", counted)
    options = compiler.PlanOptions(search=SearchOptions(deadline=deadline))
    planner = BudgetPlanner(module, plain, options)
    assert len(planner.own.choices) > 2
    with pytest.raises(KeyboardInterrupt):
        deadline.interrupt()
    fit = planner.within(plain.report.ladder.arena_bytes * 7 // 10)
    assert fit.point is not None and len(made) == 1
    assert fit.bound is not None and fit.bound.extra_seconds <= fit.point.extra_seconds


def test_ctrl_c_while_bounds_are_proved_leaves_what_is_proved(monkeypatch) -> None:
    deadline = Deadline()
    whole = ModuleBounds.at

    def interrupted(bounds: ModuleBounds, budget: int) -> ModuleBound:
        deadline.interrupt()
        return whole(bounds, budget)

    planner = planner_of(training_step(), deadline=deadline)
    least = planner.least.arena_bytes
    monkeypatch.setattr("lowtide.budgeting.bounds.ModuleBounds.at", interrupted)
    fit = planner.within(least)
    assert deadline.was_interrupted and fit.point is not None and fit.bound is not None
    assert 0 <= fit.bound.extra_seconds <= fit.point.extra_seconds


def test_a_variant_is_taken_where_it_costs_less() -> None:
    """Run in parts, the step needs less memory than by recomputation, and less time."""
    variant = ProgramVariant("split-large-instructions{parts=4}")
    planner = planner_of(training_step(rows=4096), (variant,))
    alone = planner_of(training_step(rows=4096))
    budget = alone.least.arena_bytes
    fit, before = planner.within(budget), alone.within(budget)
    assert fit.point is not None and before.point is not None
    assert fit.point.extra_seconds <= before.point.extra_seconds
    assert planner.least.variant == variant.name
    assert planner.within(planner.least.arena_bytes).document()["extra_seconds_bound"] is None


def test_the_frontier_has_its_lower_curve() -> None:
    _, planner = chain()
    curve = pareto(planner)
    assert curve.points[0].extra_seconds == 0
    for point, bound in zip(curve.points, curve.bound, strict=True):
        assert bound.extra_seconds <= point.extra_seconds * (1 + 1e-9)
    for first, second in pairwise(curve.points):
        assert first.nbytes > second.nbytes and first.extra_seconds < second.extra_seconds
    assert curve.infeasible_below_bytes <= curve.points[-1].nbytes


def test_equal_modules_get_equal_plans() -> None:
    first, second = [planner_of(training_step()) for _ in range(2)]
    assert str(first.least.plan.module) == str(second.least.plan.module)


def test_xla_is_a_baseline() -> None:
    _, planner = chain()
    budget = planner.own.plain.arena_bytes * 3 // 4
    theirs, ours = planner.by_xla(budget), planner.within(budget)
    assert theirs.point is not None and ours.point is not None
    assert theirs.point.extra_seconds >= ours.point.extra_seconds


SQUARES = """HloModule squares
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  x = f32[64,32] parameter(0)
  w = f32[32,32] parameter(1)
  h = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,32] tanh(h)
  i = f32[64,32] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  u = f32[64,32] tanh(i)
  j = f32[64,32] dot(u, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  m = f32[64,32] multiply(j, t)
  n = f32[64,32] multiply(m, u)
  z = f32[] constant(0)
  ROOT s = f32[] reduce(n, z), dimensions={0,1}, to_apply=add
}
"""


def test_a_refusal_at_the_deadline_says_that_something_was_left_untried() -> None:
    with pytest.raises(OverMemoryError, match=r"not all tried by the deadline .a later one"):
        compile_module(parse_hlo(SQUARES), Options(memory=8192, deadline=0, cache=False))


def test_what_a_variant_fits_is_not_proved_to_be_infeasible() -> None:
    found = compile_module(parse_hlo(SQUARES), Options(memory=8192, cache=False)).memory["budget"]
    assert found["variant"] and found["feasible"] and not found["infeasible_proved"]


def step_that_reads(layers: int, source: str) -> Module:
    """A training step whose first operation, `source`, makes x0 and must not run again."""
    lines = [source]
    for i in range(layers):
        lines.append(f"d{i} = f32[64,64] dot(x{i}, x{i}), {_CONTRACTED}{{0}}")
        lines.append(f"x{i + 1} = f32[64,64] tanh(d{i})")
    last = f"x{layers}"
    for i in reversed(range(layers)):
        lines.append(f"g{i} = f32[64,64] dot({last}, x{i}), {_CONTRACTED}{{1}}")
        last = f"g{i}"
    lines.append(f"ROOT r = f32[64,64] negate({last})")
    return parse_hlo("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}")


_CONTRACTED = "lhs_contracting_dims={1}, rhs_contracting_dims="


@pytest.mark.parametrize(
    "source",
    [
        "k = token[] after-all()\n f = (f32[64,64], token[]) infeed(k)\n"
        " x0 = f32[64,64] get-tuple-element(f), index=0",
        "p = f32[64,64] parameter(0)\n x0 = f32[64,64] custom-call(p),"
        ' custom_call_target="t", custom_call_has_side_effect=true',
    ],
)
def test_what_runs_once_ahead_of_all_makes_no_bound_wrong(source: str) -> None:
    for layers in (4, 7, 9):
        planner = planner_of(step_that_reads(layers, source))
        curve = pareto(planner)
        for point, proved in zip(curve.points, curve.bound, strict=True):
            assert (proved.extra_seconds or 0.0) <= (point.extra_seconds or 0.0) + 1e-12
            planner.within(point.nbytes).check()
            assert planner.bounds.least_bytes <= point.nbytes


def test_a_bound_above_a_plan_is_told() -> None:
    _, planner = chain()
    fit = planner.within(planner.own.plain.arena_bytes * 7 // 10)
    assert fit.point is not None and fit.bound is not None
    fit.check()
    wrong = replace(fit.bound, extra_seconds=2 * fit.point.extra_seconds)
    with pytest.raises(AssertionError, match="the plan stands, the bound is wrong"):
        replace(fit, bound=wrong).check()


def test_the_bytes_that_are_said_to_be_needed_are_what_is_needed() -> None:
    """One byte fewer is refused for the same step and the same bytes."""
    planner = planner_of(step_that_reads(7, "x0 = f32[64,64] parameter(0)"))
    least = planner.bounds.least_bytes
    for budget in (least - 1, least // 2, 1):
        bound = planner.bounds.at(budget)
        assert bound.is_infeasible and bound.binding_bytes == least
    assert not planner.bounds.at(least).is_infeasible


class _Clock:
    """A clock in place of that of deadlines, which moves by itself only where it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_no_plan_is_begun_that_ends_behind_the_deadline(monkeypatch) -> None:
    clock, begun = _Clock(), list[float]()
    monkeypatch.setattr("lowtide.search.deadline.process_time", clock)
    deadline = Deadline.of_cpu_seconds(100)

    def slow(module: Module, options: compiler.PlanOptions) -> compiler.ModulePlan:
        begun.append(clock.now)
        clock.now += 8
        return make_plan(module, options.stage)

    monkeypatch.setattr("lowtide.budgeting.families.plan_module", slow)
    planner = planner_of(training_step(layers=8, rows=4096), deadline=deadline)
    arena, clock.now = planner.own.plain.arena_bytes, 70.0
    shares = (90, 80, 70, 60, 50)
    fits = [planner.within(arena * share // 100) for share in shares]
    assert fits[0].point is not None and fits[-1].was_late
    assert "a deadline ended" in planner.with_remarks(planner.own.plain.plan).report.caveats[0]
    assert len(begun) > 1 and clock.now <= 100


@pytest.mark.parametrize("seconds", [3.0, 8.0, 12.0])
def test_budgets_of_one_deadline_have_a_plan_each(seconds: float, monkeypatch) -> None:
    clock = _Clock()
    monkeypatch.setattr("lowtide.search.deadline.process_time", clock)
    deadline = Deadline.of_cpu_seconds(100)

    def slow(module: Module, options: compiler.PlanOptions) -> compiler.ModulePlan:
        clock.now += seconds
        return make_plan(module, options.stage)

    monkeypatch.setattr("lowtide.budgeting.families.plan_module", slow)
    planner = planner_of(training_step(layers=8, rows=4096), deadline=deadline)
    arena, clock.now = planner.own.plain.arena_bytes, 50.0
    budgets = [arena * share // 100 for share in (90, 1, 80, 70, 100)]
    fits = list(planner.each_within(budgets))
    assert [fit.point is not None for fit in fits] == [True, False, True, True, True]
    assert [fit.budget_bytes for fit in fits] == budgets
    assert clock.now <= 100


def test_the_frontier_is_there_by_the_deadline(monkeypatch) -> None:
    clock, made = _Clock(), list[float]()
    monkeypatch.setattr("lowtide.search.deadline.process_time", clock)
    deadline = Deadline.of_cpu_seconds(100)

    def slow(module: Module, options: compiler.PlanOptions) -> compiler.ModulePlan:
        made.append(clock.now)
        clock.now += 5
        return make_plan(module, options.stage)

    monkeypatch.setattr("lowtide.budgeting.families.plan_module", slow)
    planner = planner_of(training_step(layers=8, rows=4096), deadline=deadline)
    clock.now = 70.0
    found = pareto(planner)
    assert 1 < len(made) < len(planner.own.choices) and clock.now <= 100
    assert len(found.points) > 1 and len(found.bound) == len(found.points)


def test_no_first_plan_is_made_for_a_budget_known_to_be_too_small(monkeypatch) -> None:
    asked: list[int] = []
    planner = planner_of(training_step(), deadline=Deadline(1000))
    least = planner.bounds.least_bytes
    monkeypatch.setattr(planner.own, "quick", asked.append)
    planner.within(least - 1)
    assert asked == [] and planner.bounds.known_bytes == least


def test_a_smaller_plan_made_for_another_budget_is_the_least_known() -> None:
    deadline = Deadline.of_cpu_seconds(1000)
    planner = planner_of(training_step(), deadline=deadline)
    found = planner.within(planner.own.plain.arena_bytes * 7 // 10).point
    deadline._was_interrupted = True
    assert found is not None and planner.own.least().arena_bytes <= found.arena_bytes
