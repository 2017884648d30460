"""Orders are valid, ties are broken as described, and the peak is what a slow count says."""

import random

import numpy as np
import pytest

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.memory_graph import memory_graph
from lowtide.analysis.memory_profile import peak_bytes, step_bytes
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.scheduling.depth_first import depth_first_order, post_order
from lowtide.scheduling.list_scheduler import list_order
from lowtide.scheduling.module_scheduler import SCHEDULERS, best_of, schedule_module, searched
from lowtide.scheduling.module_search import Searches

BYTES = 4


def graph_of(text, name=None):
    module = parse_hlo(text)
    computation = module.computations[name] if name else module.entry
    flow = dataflow(module.entry)[computation]
    return memory_graph(flow, (), {}), [x.name for x in flow.nodes]


def names_of(text, scheduler):
    graph, names = graph_of(text)
    return [names[node] for node in scheduler(graph).tolist()]


def random_graph(seed, count=40):
    """A module of unary and binary steps on vectors, some of them with control dependencies."""
    draw = random.Random(seed)
    lines = ["HloModule g", "ENTRY main {", "  p = f32[8] parameter(0)"]
    names = ["p"]
    for i in range(count):
        a, b = draw.choice(names[-12:]), draw.choice(names)
        kind = draw.choice(("add", "reverse", "reverse"))
        text = f"add({a}, {b})" if kind == "add" else f"reverse({a}), dimensions={{0}}"
        if draw.random() < 0.2:
            text += f", control-predecessors={{{draw.choice(names)}}}"
        lines.append(f"  v{i} = f32[8] {text}")
        names.append(f"v{i}")
    lines += [f"  ROOT r = (f32[8], f32[8]) tuple({names[-1]}, {draw.choice(names)})", "}"]
    return "\n".join(lines)


def slow_steps(graph, order):
    """Bytes per step by counting the readers left of each buffer."""
    size = graph.buffer_bytes.tolist()
    consumers = graph.consumers.rows()
    left = [len(c) + out for c, out in zip(consumers, graph.live_out.tolist(), strict=True)]
    producer = graph.producer.tolist()
    live = {b for b in range(len(size)) if producer[b] < 0}
    steps = []
    for node in order.tolist():
        live |= {b for b in range(len(size)) if producer[b] == node}
        dying = {b for b in live if node in consumers[b] and left[b] == 1}
        taken, used = 0, set()
        for where, read, made in graph.shares.tolist():
            if where == node and read in dying and read not in used and made not in used:
                used |= {read, made}
                taken += size[made]
        scratch = int(graph.scratch_bytes[node] + graph.inner_bytes[node])
        steps.append(sum([size[b] for b in live]) + scratch - taken)
        for b in range(len(size)):
            left[b] -= node in consumers[b]
        live = {b for b in live if left[b] > 0 or (producer[b] < 0 and left[b])}
    return steps


@pytest.mark.parametrize("scheduler", [*SCHEDULERS.values(), best_of])
@pytest.mark.parametrize("seed", range(25))
def test_orders_are_valid_and_their_cost_is_counted_right(scheduler, seed):
    graph, _ = graph_of(random_graph(seed))
    order = scheduler(graph)
    assert sorted(order.tolist()) == list(range(graph.node_count))
    place = np.argsort(order)
    for rows in (graph.operands.rows(), graph.control.rows()):
        for node, before in enumerate(rows):
            assert all(place[x] < place[node] for x in before)
    assert step_bytes(graph, order).tolist() == slow_steps(graph, order)
    assert scheduler(graph).tolist() == order.tolist()


def test_the_best_order_wins_and_the_first_among_equals():
    graph, _ = graph_of(random_graph(3))
    peaks = {name: peak_bytes(graph, scheduler(graph)) for name, scheduler in SCHEDULERS.items()}
    assert peak_bytes(graph, best_of(graph)) == min(peaks.values())
    best = next(name for name, peak in peaks.items() if peak == min(peaks.values()))
    assert best_of(graph).tolist() == SCHEDULERS[best](graph).tolist()
    assert list(SCHEDULERS) == ["list", "dfs", "post_order"]


CHOICE = """HloModule choice
ENTRY main {
  p = f32[64] parameter(0)
  big = f32[64] reverse(p), dimensions={0}
  wide = f32[128] concatenate(p, p), dimensions={0}
  small = f32[8] slice(big), slice={[0:8]}
  tiny = f32[8] slice(wide), slice={[0:8]}
  ROOT out = f32[8] add(small, tiny)
}
"""


def test_list_takes_what_frees_most():
    """`big` makes less than `wide`; then `small` frees more than it makes, before `wide` starts."""
    order = names_of(CHOICE, list_order)
    assert order == ["p", "big", "small", "wide", "tiny", "out"]


def test_list_runs_scalars_first():
    text = """HloModule s
ENTRY main {
  p = f32[64] parameter(0)
  a = f32[64] reverse(p), dimensions={0}
  q = f32[] parameter(1)
  s = f32[] sine(q)
  ROOT r = (f32[64], f32[]) tuple(a, s)
}
"""
    order = names_of(text, list_order)
    assert order.index("s") < order.index("a")


def test_list_takes_the_latest_of_equals():
    """b and c are alike; c becomes ready last, so it goes first, then what it made ready."""
    text = """HloModule s
ENTRY main {
  p = f32[64] parameter(0)
  b = f32[64] reverse(p), dimensions={0}
  c = f32[64] reverse(p), dimensions={0}
  ROOT r = (f32[64], f32[64]) tuple(b, c)
}
"""
    assert names_of(text, list_order) == ["p", "c", "b", "r"]


def test_depth_first_visits_heavy_operands_first():
    text = """HloModule s
ENTRY main {
  p = f32[64] parameter(0)
  light = f32[64] reverse(p), dimensions={0}
  a = f32[64] reverse(p), dimensions={0}
  heavy = f32[64] reverse(a), dimensions={0}
  ROOT r = f32[64] add(light, heavy)
}
"""
    assert names_of(text, depth_first_order) == ["p", "a", "heavy", "light", "r"]
    assert names_of(text, post_order) == ["p", "light", "a", "heavy", "r"]


LOOP = """HloModule loop
body {
  q = (f32[64]) parameter(0)
  x = f32[64] get-tuple-element(q), index=0
  w = f32[128] concatenate(x, x), dimensions={0}
  y = f32[64] slice(w), slice={[0:64]}
  ROOT r = (f32[64]) tuple(y)
}
condition {
  q = (f32[64]) parameter(0)
  ROOT c = pred[] constant(false)
}
ENTRY main {
  p = f32[64] parameter(0)
  a = f32[64] sine(p)
  t = (f32[64]) tuple(a)
  l = (f32[64]) while(t), condition=condition, body=body
  ROOT o = f32[64] get-tuple-element(l), index=0
}
"""


def test_a_module_is_scheduled_callees_first_and_a_given_order_stays():
    module = parse_hlo(LOOP)
    schedule = schedule_module(module)
    assert [c.name for c in schedule.sequences] == ["condition", "body", "main"]
    module.schedule = schedule
    assert schedule_module(module).sequences == schedule.sequences


@pytest.mark.slow
def test_a_long_program_with_a_hub_takes_seconds():
    lines = ["HloModule hub", "ENTRY main {", "  p = f32[8] parameter(0)", "  v0 = f32[8] sine(p)"]
    for i in range(1, 30_000):
        lines.append(f"  u{i} = f32[8] add(p, v{i - 1})")
        lines.append(f"  v{i} = f32[8] multiply(v0, u{i})")
    lines += ["  ROOT r = f32[8] negate(v29999)", "}"]
    graph, _ = graph_of("\n".join(lines))
    assert peak_bytes(graph, best_of(graph)) == 2 * 8 * BYTES


def test_one_order_is_enough_where_all_lives_at_once():
    graph, _ = graph_of(
        "HloModule g\nENTRY main {\n  p = f32[8] parameter(0)\n  a = f32[8] sine(p)\n"
        "  b = f32[4] slice(p), slice={[0:4]}\n  ROOT t = (f32[8], f32[4]) tuple(a, b)\n}\n"
    )
    (order,) = searched(graph, Searches())
    assert peak_bytes(graph, order) == (8 + 4) * BYTES
