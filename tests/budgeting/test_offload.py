"""Values stored in the host's memory: right, cheap as the best of all choices, above the bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.budgeting.chains import training_step
from tests.budgeting.link_judge import Found, Node, best_of_all, seconds_of
from tests.budgeting.test_rewriting import FLAT, same_bits
from tests.random_modules import MEMORY, Recipe, random_module

from lowtide import compiler
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.budgeting.bounds import ModuleBounds
from lowtide.budgeting.graphs import BudgetGraphs, budget_graphs
from lowtide.budgeting.offload import may_move, offloaded
from lowtide.budgeting.planner import BudgetPlanner
from lowtide.budgeting.rewriting import with_sequences
from lowtide.checking import check_plan
from lowtide.cost.machine import HostLink
from lowtide.evaluator import value_leaves
from lowtide.evaluator.in_arena import run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.target_record import CPU_TARGET, GPU_TARGET
from lowtide.ir import Module, Opcode
from lowtide.ir.buffer import AllocationKind
from lowtide.remat.transfers import Step, Transfer
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, SearchOptions
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify

SLACK = 256
"""Bytes for what tells copies apart, which judges of values do not count."""


def options_with(link: HostLink | None) -> compiler.PlanOptions:
    target = replace(GPU_TARGET, host_link=link)
    return compiler.PlanOptions(search=SearchOptions(Effort.FAST), target=target)


def planner_with(module: Module, link: HostLink | None) -> BudgetPlanner:
    options = options_with(link)
    return BudgetPlanner(module, compiler.plan(module, options), options, variants=())


def chain(layers: int, width: int = 64) -> Module:
    """Products of products, each read again on the way back; as it is to run."""
    large, square = f"f32[256,{width}]", f"f32[{width},{width}]"
    lines = [f"p = {large} parameter(0)", f"w = {square} parameter(1)"]
    names = ["p"]
    for i in range(layers):
        lines.append(
            f"h{i} = {large} dot({names[-1]}, w), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}"
        )
        names.append(f"h{i}")
    back = names.pop()
    for i in reversed(range(layers - 1)):
        lines.append(
            f"m{i} = {square} dot(h{i}, {back}), lhs_contracting_dims={{0}}, "
            "rhs_contracting_dims={0}"
        )
        lines.append(
            f"b{i} = {large} dot({back}, m{i}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}"
        )
        back = f"b{i}"
    lines[-1] = "ROOT " + lines[-1]
    return parse_hlo("HloModule m, is_scheduled=true\nENTRY e {\n" + "\n".join(lines) + "\n}\n")


def times_of(graphs: BudgetGraphs) -> dict[str, float]:
    return dict(
        zip([x.name for x in graphs.entry.found.flow.nodes], graphs.entry.times.own, strict=True)
    )


def nodes_of(graphs: BudgetGraphs) -> list[Node]:
    times = times_of(graphs)
    run = [x for x in graphs.entry.found.flow.nodes if x.opcode is not Opcode.PARAMETER]
    names = {x.name for x in run}
    return [
        Node(
            x.name,
            tuple([y.name for y in x.operands if y.name in names]),
            x.shape.nbytes,
            float(times[x.name]),
        )
        for x in run
    ]


@pytest.mark.parametrize(("layers", "rate"), [(4, 1e9), (4, 2e10), (4, 1e11), (5, 2e9), (5, 3e10)])
def test_no_choice_of_values_is_better(layers: int, rate: float) -> None:
    """Kept, made again or copied: as cheap as the best of all programs within each budget."""
    link = HostLink(rate, 1e-7)
    planner = planner_with(chain(layers), link)
    graphs = planner.own.graphs
    best = best_of_all(nodes_of(graphs), link)
    base = best[0].seconds
    assert base == pytest.approx(planner.base_seconds)
    assert len(best) > 1
    for nbytes, seconds in best:
        fit = planner.within(nbytes + SLACK)
        assert fit.point is not None
        assert fit.point.extra_seconds <= (seconds - base) * 1.001 + 1e-12, (nbytes, best)
        bound = ModuleBounds(graphs, Effort.DEFAULT, link=link).at(nbytes)
        assert bound.extra_seconds <= seconds - base + 1e-12


def test_the_judge_finds_what_each_link_is_good_for() -> None:
    """The slower the link, the longer the best program of few bytes takes."""
    graphs = planner_with(chain(4), None).own.graphs
    nodes = nodes_of(graphs)
    links = [HostLink(rate, 1e-7) for rate in (1e11, 2e10, 1e9)]
    curves = [best_of_all(nodes, link) for link in links]
    assert all(curve[0].seconds == curves[0][0].seconds for curve in curves)
    assert [within(x, 400_000) for x in curves] == sorted([within(x, 400_000) for x in curves])


def within(curve: list[Found], nbytes: int) -> float:
    return min([x.seconds for x in curve if x.nbytes <= nbytes])


@cache
def stored() -> BudgetPlanner:
    return planner_with(training_step(6, 2048, 256), HostLink(4e11, 1e-7))


def test_plans_are_right_and_take_the_time_that_is_said() -> None:
    planner = stored()
    graphs, link = planner.own.graphs, planner.link
    assert link is not None
    times = times_of(graphs)
    moved = [x for x in planner.own.link_curve() if x.has_transfers]
    assert moved
    arguments: list[Any] = seeded_arguments(graphs.module, 3)
    for point in moved:
        plan = point.plan
        verify(plan.module)
        assert parse_hlo(str(plan.module)).instruction_count == plan.module.instruction_count
        assert check_plan(plan.module, plan.assignment) == ()
        assert same_bits(graphs.module, plan.module)
        assert plan.assignment.host_arena_bytes > 0
        seconds = seconds_of(plan.module, link, times)
        assert seconds - planner.base_seconds == pytest.approx(point.extra_seconds, abs=1e-12)
        assert planner.bound(point.arena_bytes).extra_seconds <= point.extra_seconds + 1e-12
    last = moved[-1].plan
    found = value_leaves(run_in_arena(last.module, last.assignment, arguments))
    plain = planner.own.plain.plan
    expected = value_leaves(run_in_arena(plain.module, plain.assignment, arguments))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_more_time_for_less_memory_than_by_recomputation_alone() -> None:
    alone = planner_with(training_step(6, 2048, 256), None)
    for share in (0.9, 0.7, 0.5):
        budget = int(alone.own.plain.arena_bytes * share)
        before, fit = alone.within(budget), stored().within(budget)
        assert fit.point is not None
        assert before.point is None or fit.point.extra_seconds <= before.point.extra_seconds


@pytest.mark.parametrize("left, first", [(1000.0, "beside_link"), (30.0, "points")])
def test_with_little_time_recomputation_alone_comes_first(
    left: float, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("lowtide.search.deadline.process_time", lambda: now[0])
    asked: list[str] = []
    deadline = Deadline.of_cpu_seconds(2000)
    options = replace(
        options_with(HostLink(64e9, 1e-7)), search=SearchOptions(Effort.FAST, deadline)
    )
    module = training_step(6, 2048, 256)
    planner = BudgetPlanner(module, compiler.plan(module, options), options, variants=())
    family = planner.own
    for name in ("beside_link", "points"):
        monkeypatch.setattr(family, name, _noted(asked, name, getattr(family, name)))
    budget = family.plain.arena_bytes * 7 // 10
    assert family.quick(budget) is not None
    family._first_tries.seconds, now[0] = 20.0, 2000 - left
    found = planner._own_fit(budget)
    assert asked[0] == first and found is not None and found.arena_bytes <= budget


def _noted(asked: list[str], name: str, whole: Callable[[int], Any]) -> Callable[[int], Any]:
    """A function that notes its name whenever it is asked."""

    def noting(budget: int) -> Any:
        asked.append(name)
        return whole(budget)

    return noting


def test_no_plan_found_is_smaller_than_the_smallest() -> None:
    planner = planner_with(training_step(8, 256, 64), HostLink(64e9, 1e-7))
    least = planner.least
    for part in (0.99, 0.97, 0.94, 0.9):
        assert planner.own.beside_link(int(least.arena_bytes * part)) is None


ONCE = """HloModule m, is_scheduled=true
less {
  u = f32[] parameter(0)
  v = f32[] parameter(1)
  ROOT l = pred[] compare(u, v), direction=LT
}
ENTRY e {
  p = f32[4096] parameter(0)
  low = f32[] constant(0)
  high = f32[] constant(1)
  g = f32[4096] rng(low, high), distribution=rng_uniform
  c = f32[4096] cosine(g)
  d = f32[4096] add(c, p)
  x = f32[8192] concatenate(c, d), dimensions={0}
  y = f32[8192] sort(x), dimensions={0}, to_apply=less
  z = f32[4096] slice(y), slice={[0:4096]}
  ROOT r = f32[4096] add(z, g)
}
"""
"""What a generator makes is read early and late."""


def test_what_cannot_run_again_can_leave() -> None:
    """A budget that no recomputation keeps to: a second run would give other numbers."""
    module = parse_hlo(ONCE)
    without = planner_with(module, None)
    fit = planner_with(module, HostLink(64e9, 1e-7)).within(without.least.arena_bytes - 1024)
    assert fit.point is not None
    assert fit.point.has_transfers
    starts = [
        x
        for x in fit.point.plan.module.entry.instructions.values()
        if x.opcode is Opcode.COPY_START
    ]
    assert [x.operands[0].name for x in starts][:1] == ["g"]


def test_equal_input_gives_equal_plans() -> None:
    budget = int(stored().own.plain.arena_bytes * 0.5)
    again = planner_with(training_step(6, 2048, 256), HostLink(4e11, 1e-7))
    first, second = [x.within(budget).point for x in (stored(), again)]
    assert first is not None
    assert second is not None
    assert str(first.plan.module) == str(second.plan.module)
    assert first.extra_seconds == second.extra_seconds


def test_without_a_link_nothing_is_stored() -> None:
    assert CPU_TARGET.host_link is None
    options = compiler.PlanOptions(search=SearchOptions(Effort.FAST))
    module = training_step()
    planner = BudgetPlanner(module, compiler.plan(module, options), options, variants=())
    assert planner.own.choices
    assert not list(planner.own.link_curve())
    fit = planner.within(planner.own.plain.arena_bytes * 7 // 10)
    assert "host_bytes" not in fit.document()


def test_documents_tell_host_bytes_apart() -> None:
    fit = stored().within(int(stored().own.plain.arena_bytes * 0.5))
    assert fit.point is not None
    plan = fit.point.plan
    assert fit.document()["host_bytes"] == plan.assignment.host_arena_bytes
    (space,) = plan.report.to_json()["memory_spaces"]
    assert space["arena_bytes"] == plan.assignment.host_arena_bytes
    assert plan.report.ladder.arena_bytes == plan.assignment.arena_bytes <= fit.budget_bytes


@pytest.mark.parametrize("rate", [0, -1.0, float("inf"), float("nan")])
def test_a_link_carries_bytes(rate: float) -> None:
    with pytest.raises(ValueError, match="a positive number of bytes per second"):
        HostLink(rate, 0.0)


@pytest.mark.parametrize("start", [-1e-9, float("nan"), float("inf")])
def test_a_copy_does_not_start_before_its_time(start: float) -> None:
    with pytest.raises(ValueError, match="0 seconds or more"):
        HostLink(1e9, start)


def random_transfers(graphs: BudgetGraphs, random: Random) -> tuple[Step, ...]:
    """The order of the schedule with some values copied out and back, one after the other."""
    graph = graphs.entry
    order: list[Step] = list(graph.program(graph.found.order))
    flow = graph.found.flow
    values = [v for v in range(len(flow.value_node)) if may_move(graph, v)]
    values = [v for v in values if flow.nodes[flow.value_node[v]].opcode is not Opcode.PARAMETER]
    for value in random.sample(values, min(3, len(values))):
        made = order.index(flow.value_node[value])
        cuts = sorted(random.choices(range(made + 1, len(order) + 1), k=6))
        parts = [(False, False), (False, True), (True, False), (True, True)]
        parts += [(True, False), (True, True)]
        for cut, (is_back, is_end) in reversed(list(zip(cuts, parts, strict=True))):
            order.insert(cut, Transfer(value, is_back, is_end))
    return tuple(order)


@pytest.mark.parametrize("recipe", [MEMORY, FLAT])
def test_random_modules_with_random_copies(recipe: Recipe) -> None:
    """Results are equal, plans are right: also in the bytes of both arenas."""
    copies = 0
    for seed in range(40):
        module = random_module(seed, recipe)
        scheduled = compiler.scheduled(module, compiler.PlanOptions("input"))
        graphs = budget_graphs(scheduled)
        steps = random_transfers(graphs, Random(seed))
        changed = with_sequences(scheduled, graphs.flows, {graphs.entry.computation: steps})
        verify(changed)
        plan = compiler.plan(changed, compiler.PlanOptions(search=SearchOptions(Effort.FAST)))
        assert not check_plan(plan.module, plan.assignment)
        assert same_bits(module, plan.module), seed
        copies += sum([isinstance(x, Transfer) for x in steps])
    assert copies > 200


def test_no_sequence_is_below_the_bound() -> None:
    checked = 0
    modules = [random_module(seed, FLAT) for seed in range(10)] + [chain(n) for n in (3, 4, 5)]
    for seed, module in enumerate(modules):
        scheduled = compiler.scheduled(module, compiler.PlanOptions("input"))
        graphs = budget_graphs(scheduled, machine=GPU_TARGET.machine)
        link = HostLink(Random(seed).choice([1e9, 1e10, 1e11]), 0.0)
        bounds = ModuleBounds(graphs, Effort.FAST, link=link)
        entry = graphs.entry
        memory = entry.holding([], {})
        peak = peak_bytes(memory, entry.order)
        for part in range(2, 8):
            for made in offloaded(entry, memory, peak * part // 8, link, Deadline()):
                bound = bounds.at(made.peak_bytes - entry.state_bytes)
                assert bound.extra_seconds <= made.extra_seconds + 1e-12
                checked += 1
    assert checked > 20


def test_memory_taken_while_a_copy_reads_it_is_found() -> None:
    """The checker of plans, and the evaluator in the bytes of a plan, see copies that run."""
    text = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[256] parameter(0)
  n = f32[256] negate(p)
  s = (f32[256]{0:S(5)}, f32[256]{0}, u32[]) copy-start(n)
  m = f32[256] exponential(p)
  h = f32[256]{0:S(5)} copy-done(s)
  k = f32[256] cosine(m)
  l = (f32[256]{0}, f32[256]{0:S(5)}, u32[]) copy-start(h)
  n2 = f32[256] copy-done(l)
  ROOT c = f32[256] add(k, n2)
}
"""
    plan = compiler.plan(parse_hlo(text))
    assert check_plan(plan.module, plan.assignment) == ()
    named = {x.name: x for x in plan.module.entry.instructions.values()}
    (arena,) = [
        x.index
        for x in plan.assignment.allocations
        if x.kind is AllocationKind.ARENA and not x.colour
    ]
    sites = []
    for site in plan.assignment.call_sites:
        slices = dict(site.slices)
        (place,) = slices[named["n"]]
        assert place is not None
        assert place.allocation == arena
        slices[named["m"]] = (place,)
        sites.append(replace(site, slices=slices))
    wrong = replace(plan.assignment, call_sites=tuple(sites))
    assert check_plan(plan.module, wrong)
