"""Estimates of divisions: bytes as if operations were fused, each donated array once."""

import pytest

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.memory_graph import memory_graph
from lowtide.cost.devices import DEVICES
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.sharding_search.estimate import Estimator
from lowtide.sharding_search.evaluation import DivisionPlanner
from lowtide.sharding_search.fused_bytes import fused_graph, fused_live_bytes
from lowtide.sharding_search.mesh import mesh_of_text
from lowtide.sharding_search.program import shardable_program

DEVICE = next(iter(DEVICES.values()))
CHAIN = """HloModule chain
ENTRY e {
  x = f32[256] parameter(0)
  y = f32[256] parameter(1)
  w = f32[256,4] parameter(2)
  a = f32[256] exponential(x)
  m = f32[256] multiply(a, y)
  s = f32[256] add(m, x)
  d = f32[4] dot(s, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT t = (f32[4], f32[256]) tuple(d, s)
}
"""
UPDATED = """HloModule updated, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY e {
  w = f32[1024,64] parameter(0)
  g = f32[1024,64] parameter(1)
  n = f32[1024,64] negate(g)
  ROOT v = f32[1024,64] add(w, n)
}
"""


def test_what_products_and_results_read_takes_bytes_and_the_rest_none():
    entry = parse_hlo(CHAIN).entry
    flow = dataflow(entry)[entry]
    graph = fused_graph(flow, memory_graph(flow, (), {}))
    stored = {
        flow.nodes[graph.producer[value]].name
        for value, nbytes in enumerate(graph.buffer_bytes)
        if nbytes
    }
    assert stored == {"d", "s"}
    (x,) = flow.leaves_of(entry.parameters[0])
    readers = {flow.nodes[n].name for n in graph.consumers.rows()[x]}
    assert {"a", "s"} <= readers
    assert fused_live_bytes(parse_hlo(CHAIN)) == 4 * (256 + 4)


def test_a_value_written_over_by_a_kernel_counts_once():
    text = CHAIN.replace("exponential(x)", "exponential(b)").replace(
        "  a =", "  p = f32[4] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "  q = f32[256] dot(w, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  b = f32[256] negate(q)\n  a =",
    )  # fmt: skip
    assert fused_live_bytes(parse_hlo(text)) == 4 * (256 + 4)


def test_a_donated_argument_counts_once():
    program = shardable_program(parse_hlo(UPDATED), mesh_of_text("4"))
    whole = program.whole
    guess = Estimator(program, DEVICE).estimate(whole)
    assert guess.peak_bytes == 2 * 4 * 1024 * 64
    assert DivisionPlanner(program, DEVICE).plan(whole, None).peak_bytes == guess.peak_bytes


@pytest.mark.parametrize("mesh", ["2", "4", "2x2"])
def test_estimates_of_equal_divisions_are_equal_in_any_order(mesh):
    program = shardable_program(parse_hlo(CHAIN), mesh_of_text(mesh))
    rows = program.whole.given(program.mesh, program.sizes, (0, 0), 0)
    first, second = Estimator(program, DEVICE), Estimator(program, DEVICE)
    before = [first.estimate(x) for x in (program.whole, rows)]
    after = [second.estimate(x) for x in (rows, program.whole)]
    assert before == after[::-1]
