"""Frontiers and budgets: never more than the budget, monotone, the same each time."""

import csv
import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from tests.remat.replay import replay
from tests.remat.small_graphs import least_extra, random_graph, with_last
from tests.support import SHARED, needs_shared

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.frontend.graph_json import read_graph_json
from lowtide.remat import levels
from lowtide.remat.bound import BoundSearch, topological_order
from lowtide.remat.budget import Budgets
from lowtide.remat.frontier import Frontier, frontier
from lowtide.remat.recompute import quick_sequence
from lowtide.remat.slide import settled
from lowtide.remat.tables import tables_of
from lowtide.remat.xla import xla_sequence
from lowtide.scheduling.module_scheduler import SCHEDULERS
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort

GRAPHS = SHARED / "benchmarks" / "memory_graphs"


def training_step(layers: int, inputs: int = 1) -> MemoryGraph:
    """A chain of layers and its gradient: layer k is read again by gradient k, in reverse."""
    count = 2 * layers
    consumers = [[k + 1] if k == layers - 1 else [k + 1, count - 1 - k] for k in range(layers)]
    consumers += [[k + 1] for k in range(layers, count - 1)] + [[]]
    producers = list(range(count))
    ones = np.ones(count)
    return MemoryGraph(
        operands=lists([[v for v in range(count) if x in consumers[v]] for x in range(count)]),
        control=lists([[] for _ in range(count)]),
        scratch_bytes=np.zeros(count, np.int64),
        inner_bytes=np.zeros(count, np.int64),
        name_rank=np.arange(count, dtype=np.int32),
        is_scalar=np.zeros(count, bool),
        is_leaf=np.zeros(count, bool),
        urgency=np.zeros(count, np.int32),
        root=count - 1,
        buffer_bytes=(ones * 100).astype(np.int64),
        producer=np.array(producers, np.int32),
        consumers=lists(consumers),
        live_out=np.arange(count) == count - 1,
        alias_set=np.full(count, -1, np.int32),
        colour=np.zeros(count, np.int32),
        bin=np.full(count, -1, np.int32),
        shares=np.zeros((0, 3), np.int32),
        seconds=ones,
    )


@cache
def chain_frontier(layers: int, effort: Effort) -> Frontier:
    graph = training_step(layers)
    return frontier(graph, [np.arange(graph.node_count)], effort)


def test_a_chain_of_layers_is_checkpointed() -> None:
    """With two runs of each layer, memory falls to the square root of the depth or so."""
    found = chain_frontier(36, Effort.FAST)
    layers, each = 36, 100
    assert found.points[0].peak_bytes >= layers * each
    twice = min(x.peak_bytes for x in found.points if x.extra_seconds <= layers)
    assert twice <= (2 * math.sqrt(layers) + 4) * each


def test_frontiers_fall_and_rise() -> None:
    for first, second in pairwise(chain_frontier(36, Effort.FAST).points):
        assert first.peak_bytes > second.peak_bytes
        assert first.extra_seconds < second.extra_seconds


def test_fifty_budgets_are_kept_and_monotone() -> None:
    graph = training_step(36)
    budgets = Budgets(graph, [np.arange(graph.node_count)], Effort.FAST)
    least, most = budgets.frontier.least.peak_bytes, budgets.frontier.points[0].peak_bytes
    plans = [budgets.plan(int(x)) for x in np.linspace(least, most, 50)]
    for plan in plans:
        assert plan.point is not None
        checked = replay(graph, plan.point.sequence)
        assert checked.peak_bytes <= plan.budget_bytes
        assert checked.extra_seconds == pytest.approx(plan.point.extra_seconds)
        assert plan.bound.extra_seconds <= plan.point.extra_seconds + 1e-9
    extra = [plan.point.extra_seconds for plan in plans if plan.point]
    peaks = [plan.point.peak_bytes for plan in plans if plan.point]
    assert extra == sorted(extra, reverse=True)
    assert peaks == sorted(peaks)


def test_a_budget_that_nothing_fits_names_what_is_in_its_way() -> None:
    graph = training_step(8)
    budgets = Budgets(graph, [np.arange(graph.node_count)], Effort.FAST)
    plan = budgets.plan(150)
    document = plan.document([f"n{x}" for x in range(graph.node_count)])
    assert not plan.is_feasible
    assert document["infeasible_proved"] and document["extra_seconds_bound"] is None
    assert document["binding_name"] == f"n{document['binding_node']}"
    assert document["binding_bytes"] == 300
    assert document["smallest_feasible_bytes"] == budgets.frontier.least.peak_bytes > 150
    open_question = budgets.plan(budgets.frontier.least.peak_bytes - 1).document()
    assert not open_question["feasible"]


def overwritten() -> MemoryGraph:
    """Four nodes: the second could overwrite what it reads, which the last one reads again."""
    return replace(
        training_step(2),
        operands=lists([[], [0], [1], [0, 2]]),
        buffer_bytes=np.array([100, 100, 1, 1], np.int64),
        consumers=lists([[1, 3], [2], [3], []]),
        shares=np.array([[1, 0, 1]], np.int32),
    )


def test_what_is_overwritten_is_made_again() -> None:
    graph = overwritten()
    found = quick_sequence(graph, np.arange(4), 120)
    assert found is not None
    assert found.tolist() == [0, 1, 2, 0, 3]
    assert replay(graph, found.tolist()).peak_bytes == 102


def test_most_budgets_that_something_fits_are_met() -> None:
    """Of drawn graphs, beside all sequences; there is no clock in it."""
    feasible = missed = 0
    for seed in range(400):
        graph = with_last(random_graph(Random(seed), 6))
        orders = [np.array(order(graph), np.int64) for order in SCHEDULERS.values()]
        peak = min(peak_bytes(graph, order) for order in orders)
        least = BoundSearch(tables_of(graph), orders[0], Effort.FAST).least_bytes
        budgets = [x for x in {least, (least + peak) // 2} if x < peak and least_extra(graph, x)]
        found = frontier(graph, orders, Effort.FAST) if budgets else None
        feasible += len(budgets)
        missed += sum([found is not None and found.within(x) is None for x in budgets])
    assert feasible >= 20
    assert 6 * missed <= feasible


def test_a_budget_below_the_results_has_no_binding_node() -> None:
    graph = training_step(2)
    graph.live_out[:] = True
    bound = BoundSearch(tables_of(graph), np.arange(4), Effort.FAST).at(399)
    assert bound.is_infeasible
    assert (bound.node, bound.fixed_bytes) == (None, 400)


def test_pareto_has_the_proven_curve_beside_the_points() -> None:
    graph = training_step(12)
    document = Budgets(graph, [np.arange(graph.node_count)], Effort.FAST).pareto()
    bound = [x["extra_seconds"] for x in document["bound"]]
    assert bound == sorted(bound)
    for point, lower in zip(document["points"], document["bound"], strict=True):
        assert point["bytes"] == lower["bytes"]
        assert lower["extra_seconds"] <= point["extra_seconds"] + 1e-9


def test_equal_input_gives_equal_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    small = levels._Settings(levels=10, work=20_000, improved=2)
    monkeypatch.setitem(levels._SETTINGS, Effort.DEFAULT, small)
    graph = training_step(20)
    first, second = [frontier(graph, [np.arange(graph.node_count)]) for _ in range(2)]
    assert first == second


@pytest.mark.parametrize("effort", Effort)
def test_a_deadline_that_is_over_leaves_the_order(effort: Effort) -> None:
    graph = training_step(20)
    found = frontier(graph, [np.arange(graph.node_count)], effort, Deadline(0.0))
    assert found.points[0].sequence == tuple(range(graph.node_count))


def test_ctrl_c_keeps_what_is_found() -> None:
    graph = training_step(20)
    told: list[int] = []

    def interrupt(peak: int, seconds: float) -> None:
        told.append(peak)
        if len(told) == 3:
            raise KeyboardInterrupt

    found = frontier(graph, [np.arange(graph.node_count)], Effort.FAST, progress=interrupt)
    assert 1 < len(found.points) <= 3


def test_nodes_that_run_once_are_not_run_again() -> None:
    graph = training_step(20)
    once = range(0, 20, 2)
    orders = [np.arange(graph.node_count)]
    sequences = [point.sequence for point in frontier(graph, orders, Effort.FAST, once=once).points]
    sequences.append(tuple(xla_sequence(graph, orders[0], 1200, once=once).tolist()))
    assert any(len(sequence) > graph.node_count for sequence in sequences)
    for sequence in sequences:
        assert all(sequence.count(node) == 1 for node in once)


def test_a_graph_without_times_is_refused() -> None:
    graph = training_step(2)
    untimed = MemoryGraph(
        **{x: getattr(graph, x) for x in graph.__slots__ if x != "seconds"}, seconds=np.zeros(0)
    )
    with pytest.raises(ValueError, match="0 times for 4 nodes"):
        frontier(untimed, [np.arange(4)])
    with pytest.raises(ValueError, match="needs an order"):
        frontier(graph, [])


@pytest.mark.parametrize("seed", range(60))
def test_xla_makes_valid_sequences(seed: int) -> None:
    graph = random_graph(Random(seed), 14)
    order = topological_order(tables_of(graph))
    peak = peak_bytes(graph, order)
    assert xla_sequence(graph, order, 2 * peak).tolist() == order.tolist()
    replay(graph, xla_sequence(graph, order, peak * 2 // 3).tolist())


def test_xla_keeps_a_budget_on_a_chain_at_a_higher_cost() -> None:
    graph = training_step(36)
    order = np.arange(graph.node_count)
    budgets = Budgets(graph, [order], Effort.FAST)
    theirs = budgets.plan(2500, "xla")
    ours = budgets.plan(2500)
    assert theirs.point is not None and ours.point is not None
    assert theirs.point.peak_bytes <= 2500
    assert theirs.point.extra_seconds >= ours.point.extra_seconds
    with pytest.raises(ValueError, match="no method 'best'"):
        budgets.plan(2500, "best")


@pytest.mark.parametrize("seed", range(40))
def test_settled_orders_are_valid_and_hold_no_more_in_all(seed: int) -> None:
    graph = random_graph(Random(seed), 16)
    tables = tables_of(graph)
    order = topological_order(tables)
    near = settled(tables, order, np.ones(len(order), np.int64), 10)
    replay(graph, near.tolist())


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit.train", "resnet50.train", "gpt_j_6b.train"])
def test_bounds_of_training_steps_reach_those_on_file(name: str) -> None:
    from lzma import decompress

    graph = read_graph_json(decompress((GRAPHS / f"{name}.json.xz").read_bytes())).graph
    orders = [scheduler(graph) for scheduler in SCHEDULERS.values()]
    search = BoundSearch(
        tables_of(graph), min(orders, key=lambda x: peak_bytes(graph, x)), Effort.DEFAULT
    )
    with (GRAPHS / "results.csv").open() as file:
        rows = [x for x in csv.DictReader(file) if x["graph"] == name and x["budget"]]
    base = graph.seconds.sum()
    for row in rows:
        bound = search.at(int(row["budget"]))
        assert bound.extra_seconds / base >= float(row["extra_bound"]) - 1e-5
