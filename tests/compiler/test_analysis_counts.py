"""How often analyses are run in full during a compilation: counts, which no clock changes."""

import pytest
from tests.support import EXAMPLES

import lowtide
from lowtide import compiler
from lowtide.analysis import module_graphs
from lowtide.analysis.dataflow import dataflow
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.order_memory import OrderMemory
from lowtide.ir.kept import counted
from lowtide.scheduling.module_model import model_graphs

MOST = {"mlp": (2, 1), "mnist_cnn": (6, 3)}
"""By example the dataflows and the orders of computations that a compilation may find in full."""


@pytest.mark.parametrize("name", MOST)
def test_a_compilation_runs_few_analyses_in_full(name: str) -> None:
    module = lowtide.read(EXAMPLES / f"{name}.hlo.xz")
    with counted() as counts:
        compiler.plan(module)
    assert 0 < counts["ComputationDataflow"] <= MOST[name][0]
    assert 0 < counts["OrderMemory"] <= MOST[name][1]


def test_equal_modules_run_equally_many_analyses() -> None:
    found = []
    for _ in range(2):
        with counted() as counts:
            compiler.explain(lowtide.read(EXAMPLES / "mlp.hlo.xz"))
        found.append(counts)
    assert found[0] == found[1]


LOOP = """HloModule m

body {
  p = (f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
  b = f32[4] get-tuple-element(p), index=1
  c = f32[4] add(a, b)
  ROOT t = (f32[4], f32[4]) tuple(c, b)
}

condition {
  p = (f32[4], f32[4]) parameter(0)
  ROOT yes = pred[] constant(true)
}

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  t = (f32[4], f32[4]) tuple(x, y)
  ROOT w = (f32[4], f32[4]) while(t), condition=condition, body=body
}
"""


def test_dataflow_is_found_anew_where_something_changes() -> None:
    module = parse_hlo(LOOP)
    before = dataflow(module.entry)
    body = module.computations["body"]
    with counted() as counts:
        again = dataflow(module.entry, with_host=True)
    assert not counts and all(again[x] is before[x] for x in before)
    assert before[body].changed_state == (0,)
    root, c = body.root, body.instructions["c"]
    root.set_operands((c, c))
    with counted() as counts:
        after = dataflow(module.entry)
    assert counts["ComputationDataflow"] == 2
    assert after[body].changed_state == (0, 1)
    leaves = [x[module.entry].leaves_of(module.entry.root) for x in (before, after)]
    assert leaves[0] != leaves[1]


def test_dataflow_with_the_host_counts_its_bytes() -> None:
    module = parse_hlo(LOOP.replace("y = f32[4] parameter", "y = f32[4]{0:S(5)} parameter"))
    device = dataflow(module.entry)[module.entry]
    host = dataflow(module.entry, with_host=True)[module.entry]
    assert sum(device.value_bytes) < sum(host.value_bytes)
    assert dataflow(module.entry)[module.entry] is device


def test_blocks_of_counts_do_not_mix() -> None:
    with counted() as outer:
        with counted() as inner:
            dataflow(parse_hlo(LOOP).entry)
        assert inner["ComputationDataflow"] == 3
    assert not outer["ComputationDataflow"]


def test_nothing_is_kept_with_a_plan_that_only_its_making_asks_for() -> None:
    made = compiler.plan(lowtide.read(EXAMPLES / "mlp.hlo.xz"))
    kept = [key for x in made.module.computations.values() for key in x.kept]
    assert not [key for key in kept if isinstance(key, tuple) and key[0] is OrderMemory]


def test_order_and_bounds_share_the_graphs_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plain = module_graphs.memory_graph

    def graph(flow, *rest):
        made.append(flow.computation)
        return plain(flow, *rest)

    monkeypatch.setattr(module_graphs, "memory_graph", graph)
    plan = compiler.plan(parse_hlo(LOOP))
    assert plan.bounds and len(made) == len(set(made))
    modelled = model_graphs(plan.module)
    assert [x.model.order for x in plan.bounds.values()] == [x.order for x in modelled]
