"""The simulated step: its times, its bound, and orders within a limit of live bytes."""

from collections.abc import Iterator

import numpy as np
import pytest
from tests.overlap.step_modules import DEVICE, model_of, random_module

from lowtide.analysis.memory_profile import peak_bytes
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Computation
from lowtide.overlap.clock import StepClock, simulated
from lowtide.overlap.list_order import ListRule, list_order
from lowtide.overlap.module_step import module_step
from lowtide.overlap.step_bound import step_bound
from lowtide.overlap.step_graph import CalleeTime, StepGraph, StepModel
from lowtide.overlap.step_order import latest, shortest_order

FREE = 1 << 50


def graph_of(
    seconds: list[float],
    transfer: dict[int, float] | None = None,
    before: dict[int, tuple[int, ...]] | None = None,
    halves: dict[int, int] | None = None,
    holds: dict[int, tuple[int, ...]] | None = None,
    slots: int = 8,
) -> StepGraph:
    """Return a graph with one link; `halves` has the start of each second half."""
    count = len(seconds)
    transfer, before, halves = transfer or {}, before or {}, halves or {}
    held = holds or {}
    return StepGraph(
        tuple(seconds),
        tuple([transfer.get(x, 0.0) for x in range(count)]),
        tuple([0 if x in transfer else -1 for x in range(count)]),
        tuple([halves.get(x, -1) for x in range(count)]),
        tuple([held.get(x, ()) for x in range(count)]),
        tuple([before.get(x, ()) for x in range(count)]),
        ((0.0, 0.0),) * count,
        (slots,),
    )


def orders(graph: StepGraph) -> Iterator[list[int]]:
    """Yield all orders of a small graph."""
    waits = [len(x) for x in graph.before]

    def walk(order: list[int]) -> Iterator[list[int]]:
        if len(order) == graph.node_count:
            yield list(order)
        for node in range(graph.node_count):
            if node in order or waits[node]:
                continue
            order.append(node)
            for x in graph.after[node]:
                waits[x] -= 1
            yield from walk(order)
            for x in graph.after[node]:
                waits[x] += 1
            order.pop()

    return walk([])


PAIR = graph_of([0, 3, 0, 1], {0: 5.0}, {2: (0,), 3: (1, 2)}, {2: 0})
"""A transfer of 5 beside work of 3, and work of 1 behind both."""


def test_a_transfer_runs_beside_what_computes() -> None:
    step = simulated(PAIR, [0, 1, 2, 3])
    assert (step.seconds, step.waiting) == (6.0, 2.0)
    assert (step.begin[0], step.end[0], step.begin[3]) == (0.0, 5.0, 5.0)


def test_nothing_is_hidden_where_the_device_waits_at_once() -> None:
    step = simulated(PAIR, [0, 2, 1, 3])
    assert (step.seconds, step.waiting) == (9.0, 5.0)


def test_a_link_sends_one_transfer_after_the_other() -> None:
    graph = graph_of([0, 0, 0, 0], {0: 2.0, 1: 3.0}, {2: (0,), 3: (1,)}, {2: 0, 3: 1})
    step = simulated(graph, [1, 0, 2, 3])
    assert (step.begin[0], step.end[0], step.seconds) == (3.0, 5.0, 5.0)


def test_one_transfer_more_than_there_are_slots_waits_for_the_oldest() -> None:
    graph = graph_of([0, 0, 1], {0: 2.0, 1: 3.0}, slots=1)
    clock = StepClock(graph)
    for node in (0, 1, 2):
        clock.run(node)
    assert clock.begin[2] == 2.0
    assert clock.result().seconds == 5.0


def test_what_holds_a_link_waits_for_its_transfers() -> None:
    graph = graph_of([0, 4], {0: 3.0}, holds={1: (0,)})
    assert simulated(graph, [0, 1]).seconds == 7.0
    assert step_bound(graph) == 7.0


def test_the_bound_counts_what_has_to_come_before_and_behind() -> None:
    assert step_bound(PAIR) == 6.0
    graph = graph_of(
        [2, 0, 0, 0, 0, 4],
        {1: 3.0, 2: 3.0},
        {1: (0,), 2: (0,), 3: (1,), 4: (2,), 5: (3, 4)},
        {3: 1, 4: 2},
    )
    assert step_bound(graph) == 12.0


@pytest.mark.parametrize("seed", range(40))
def test_no_order_beats_the_bound_and_the_search_is_near_the_best(seed: int) -> None:
    model = model_of(random_module(seed, 5))
    found = model.graphs[-1]
    graph = model.step_graph(found, _no_callees(model))
    bound = step_bound(graph)
    best = min([simulated(graph, x).seconds for x in orders(graph)])
    assert best >= bound * (1 - 1e-9)
    order = shortest_order(graph, found.holding(_peaks(model)), found.order, FREE)
    assert best * (1 - 1e-9) <= order.step.seconds <= best * 1.02
    assert order.bound == bound


@pytest.mark.parametrize("seed", range(40))
def test_orders_stay_within_the_limit(seed: int) -> None:
    model = model_of(random_module(seed, 30))
    found = model.graphs[-1]
    graph = model.step_graph(found, _no_callees(model))
    memory = found.holding(_peaks(model))
    given = np.array(found.order, np.int64)
    least = peak_bytes(memory, given)
    rank = [-float(x) for x in range(graph.node_count)]
    for limit in (least, least * 5 // 4, FREE):
        order = list_order(graph, memory, found.order, ListRule(rank, 4, limit))
        assert sorted(order) == list(range(graph.node_count))
        place = {node: k for k, node in enumerate(order)}
        assert all(place[x] < place[y] for y in place for x in graph.before[y])
        assert peak_bytes(memory, np.array(order, np.int64)) <= limit


@pytest.mark.parametrize("seed", range(20))
def test_beginning_as_late_as_can_be_takes_no_longer(seed: int) -> None:
    model = model_of(random_module(seed, 20))
    found = model.graphs[-1]
    graph = model.step_graph(found, _no_callees(model))
    order = shortest_order(graph, found.holding(_peaks(model)), found.order, FREE)
    late = latest(graph, order)
    assert min(late) >= -1e-12
    for node in range(graph.node_count):
        assert late[node] >= order.step.begin[node] - 1e-9 or graph.link[node] < 0
        took = graph.seconds[node] + graph.transfer[node]
        for x in graph.after[node]:
            if graph.link[node] < 0 or graph.start_of[x] == node:
                assert late[node] + took <= late[x] + 1e-9


LOOP = """HloModule m, is_scheduled=true, num_partitions=16
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}
body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[64] get-tuple-element(s), index=1
  b = f32[64] all-reduce(a), channel_id=1, replica_groups=[2,8]<=[16], GLOBAL
  ROOT t = (s32[], f32[64]) tuple(j, b)
}
condition {
  s.1 = (s32[], f32[64]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  n = s32[] constant(10)
  ROOT c = pred[] compare(i.1, n), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[64] parameter(0)
  init = (s32[], f32[64]) tuple(zero, x)
  w = (s32[], f32[64]) while(init), condition=condition, body=body, TRIPS
  y = f32[64] get-tuple-element(w), index=1
  ROOT z = f32[64] all-reduce(y), channel_id=2, replica_groups=[8,2]<=[2,8]T(1,0), GLOBAL
}
""".replace("GLOBAL", "use_global_device_ids=true, to_apply=sum").replace(
    "TRIPS", 'backend_config={"known_trip_count":{"n":"10"}}'
)


def test_transfers_in_loops_count_as_often_as_they_run_each_on_its_link() -> None:
    model = model_of(parse_hlo(LOOP))
    step = module_step(model)
    near, far = DEVICE.links
    inside = near.seconds(2 * 7 / 8 * 256)
    outside = far.seconds(2 * 1 / 2 * 256)
    assert step.sending == pytest.approx(10 * inside + outside)
    assert step.step.waiting <= step.sending
    assert step.step.seconds >= step.sending
    assert step.bound_seconds <= step.step.seconds


def _no_callees(model: StepModel) -> dict[Computation, CalleeTime]:
    """Collectives take the time of their links, what else is called none."""
    return {x.computation: CalleeTime(0.0, 0.0, 0.0, ()) for x in model.graphs[:-1]}


def _peaks(model: StepModel) -> list[int]:
    return [0] * (len(model.graphs) - 1)
