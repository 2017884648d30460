"""The bound holds in every order, and counts what stays live throughout."""

import random

import pytest

from lowtide.analysis.call_graph import executed_computations
from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.donation import aliases
from lowtide.compiler import PlanOptions, explain, plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Schedule

from .footprint_bounds import FootprintBounds
from .memory_machine import MemoryMachine
from .random_modules import RandomModule


def any_order(computation, draw):
    """An order of the instructions of a computation, operands first, else by chance."""
    order, ready = [], []
    waiting = {x: len(set(x.operands)) for x in computation.instructions.values()}
    ready = [x for x, count in waiting.items() if not count]
    while ready:
        order.append(ready.pop(draw.randrange(len(ready))))
        for user in order[-1].users:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return tuple(order)


@pytest.mark.parametrize("seed", range(60))
def test_any_order_needs_the_bound_and_has_a_plan_that_holds(seed):
    module = parse_hlo(RandomModule(seed, 6 + seed % 6).text())
    footprint = FootprintBounds(dataflow(module.entry))
    least = footprint.of(module.entry, aliases(module), owns_results=True)
    draw = random.Random(seed)
    for _ in range(4):
        computations = executed_computations(module.entry)
        module.schedule = Schedule({x: any_order(x, draw) for x in computations})
        report = explain(module, PlanOptions("input"))
        for ladder in (report.ladder, *[x.ladder for x in report.computations]):
            assert ladder.bound_bytes <= ladder.live_bytes <= ladder.arena_bytes
        assert report.ladder.bound_bytes >= least
        MemoryMachine(plan(module, PlanOptions("input"))).run()


def test_an_argument_returned_as_it_is_takes_nothing_from_the_bound():
    """`reverse` needs 400 bytes while `p` is read, however large the donated `q` beside it is."""
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY main {
  p = f32[100] parameter(0)
  q = f32[9000] parameter(1)
  n = f32[100] reverse(p), dimensions={0}
  ROOT t = (f32[100], f32[9000]) tuple(n, q)
}
"""
    ladder = explain(parse_hlo(text), PlanOptions("input")).ladder
    assert (ladder.bound_bytes, ladder.live_bytes) == (400, 400)


def test_the_invariant_state_of_a_loop_takes_nothing_from_its_bound():
    text = """HloModule m
condition {
  p = (f32[100], f32[9000]) parameter(0)
  ROOT stop = pred[] constant(false)
}
body {
  p = (f32[100], f32[9000]) parameter(0)
  x = f32[100] get-tuple-element(p), index=0
  w = f32[9000] get-tuple-element(p), index=1
  y = f32[100] reverse(x), dimensions={0}
  ROOT r = (f32[100], f32[9000]) tuple(y, w)
}
ENTRY main {
  x = f32[100] parameter(0)
  w = f32[9000] parameter(1)
  s = (f32[100], f32[9000]) tuple(x, w)
  l = (f32[100], f32[9000]) while(s), condition=condition, body=body
  ROOT y = f32[100] get-tuple-element(l), index=0
}
"""
    report = explain(parse_hlo(text), PlanOptions("input"))
    (body,) = report.computations
    assert (body.ladder.bound_bytes, body.ladder.live_bytes) == (400, 400)
    assert (report.ladder.bound_bytes, report.ladder.live_bytes) == (800, 800)
