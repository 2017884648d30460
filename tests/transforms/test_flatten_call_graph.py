"""After flattening, control flow runs each computation from one place, and nothing else changed."""

import numpy as np
import pytest
from tests.random_modules import SeededChoices, random_module, random_schedule

from lowtide import evaluate, verify
from lowtide.analysis.call_graph import call_sites
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.clone import clone_module
from lowtide.transforms.flatten_call_graph import flatten_call_graph

SHARED = """HloModule m, is_scheduled=true
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
leaf { x.l = f32[4] parameter(0)
  z.l = f32[] constant(0)
  r.l = f32[] reduce(x.l, z.l), dimensions={0}, to_apply=sum
  o.l = f32[4] broadcast(r.l), dimensions={}
  ROOT n.l = f32[4] add(x.l, o.l) }
layer { x.y = f32[4] parameter(0)
  c.y = f32[4] call(x.y), to_apply=leaf
  ROOT d.y = f32[4] call(c.y), to_apply=leaf }
ENTRY e { p = f32[4] parameter(0)
  k = pred[] constant(true)
  c = f32[4] call(p), to_apply=layer
  d = f32[4] conditional(k, c, c), true_computation=layer, false_computation=leaf
  ROOT f = f32[4] conditional(k, d, p), true_computation=leaf, false_computation=leaf }
"""


def callees(module):
    """What control flow runs, once per place, without what runs within kernels."""
    return [callee for c in module.computations.values() for _, _, callee in call_sites(c)]


def test_a_computation_with_several_callers_gets_a_copy_for_each():
    module = parse_hlo(SHARED)
    assert flatten_call_graph(module)
    found = callees(module)
    assert len(found) == len(set(found))
    stems = [x.name.split(".")[0] for x in found]
    assert sorted(stems) == ["layer"] * 2 + ["leaf"] * 7
    verify(module)


def test_what_is_applied_per_element_stays_shared():
    module = parse_hlo(SHARED)
    flatten_call_graph(module)
    reducers = [
        x.called_computations[0].name
        for c in module.computations.values()
        for x in c.instructions.values()
        if x.opcode == "reduce"
    ]
    assert reducers == ["sum"] * 7


def test_copies_are_scheduled_as_the_originals_are():
    module = parse_hlo(SHARED)
    flatten_call_graph(module)
    assert parse_hlo(str(module)).is_scheduled
    for computation, order in module.schedule.sequences.items():
        assert set(order) == set(computation.instructions.values())
    orders = [
        [x.opcode for x in order]
        for c, order in module.schedule.sequences.items()
        if c.name.startswith("leaf")
    ]
    assert len(orders) == 7
    assert orders == [orders[0]] * 7


def test_callees_stand_before_callers():
    module = parse_hlo(SHARED)
    flatten_call_graph(module)
    place = {computation: i for i, computation in enumerate(module.computations.values())}
    for computation in module.computations.values():
        for _, _, callee in call_sites(computation):
            assert place[callee] < place[computation]


def test_a_flat_module_does_not_change():
    module = parse_hlo(SHARED)
    flatten_call_graph(module)
    text = str(module)
    assert not flatten_call_graph(module)
    assert str(module) == text


ASYNC = """HloModule m
f { x = f32[4] parameter(0)
  ROOT y = f32[4] negate(x) }
twice { p = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) async-start(p), calls=f
  u = ((f32[4]), f32[4], u32[]) async-update(s)
  ROOT d = f32[4] async-done(u) }
ENTRY e { p.e = f32[4] parameter(0)
  c = f32[4] call(p.e), to_apply=twice
  ROOT r = f32[4] call(c), to_apply=twice }
"""


def test_one_chain_of_async_operations_shares_one_copy():
    module = parse_hlo(ASYNC)
    assert flatten_call_graph(module)
    verify(module)
    wrapped = []
    for call in list(module.entry.instructions.values())[1:]:
        chain = list(call.called_computations[0].instructions.values())[1:]
        (computation,) = {x.called_computations[0] for x in chain}
        wrapped.append(computation.name)
    assert sorted(wrapped) == ["f", "f.clone"]


def test_what_runs_in_a_kernel_too_is_copied_for_control_flow():
    text = """HloModule m
f { x = f32[4] parameter(0)
  ROOT y = f32[4] negate(x) }
ENTRY e { p = f32[4] parameter(0)
  c = f32[4] call(p), to_apply=f
  ROOT k = f32[4] fusion(c), kind=kLoop, calls=f }"""
    module = parse_hlo(text)
    assert flatten_call_graph(module)
    call, fusion = list(module.entry.instructions.values())[1:]
    assert call.called_computations[0].name == "f.clone"
    assert fusion.called_computations[0].name == "f"


@pytest.mark.parametrize("text", [SHARED, ASYNC])
def test_results_stay_the_same(text):
    module = parse_hlo(text)
    argument = np.array([1, 2, 3, 4], np.float32)
    before = evaluate(module, [argument])
    flatten_call_graph(module)
    np.testing.assert_array_equal(before, evaluate(module, [argument]))


@pytest.mark.parametrize("seed", range(40))
def test_random_modules_stay_valid_and_scheduled(seed):
    module = random_module(seed)
    module.schedule = random_schedule(module, SeededChoices(seed))
    original = clone_module(module)
    changed = flatten_call_graph(module)
    verify(module)
    assert changed == (len(callees(original)) > len(set(callees(original))))
    assert len(callees(module)) == len(set(callees(module)))
    assert set(module.schedule.sequences) >= {module.entry, *callees(module)}
