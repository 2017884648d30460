"""Collectives in two halves in the order of the shortest step: right, and within the cap."""

from typing import Any

import numpy as np
import pytest
from tests.overlap.step_modules import DEVICE, random_module, split

import lowtide
from lowtide import compiler
from lowtide.analysis.memory_profile import lifetimes
from lowtide.analysis.module_graphs import module_graphs
from lowtide.checking.communication import check_communication
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import value_leaves
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.overlap.hiding import HiddenStep, hide_communication
from lowtide.overlap.pairs import started
from lowtide.verifier import verify


def hidden(seed: int, memory_bytes: int | None = None) -> HiddenStep:
    return hide_communication(compiler.plan(random_module(seed, 20)), memory_bytes, DEVICE)


def given(seed: int) -> list[list[Any]]:
    random = np.random.default_rng(seed)
    shape = (64, 64)
    return [[random.integers(-1, 2, shape).astype(np.float32) for _ in "xy"] for _ in range(2)]


def leaves(results: list[Any]) -> list[Any]:
    return [np.asarray(x) for one in results for x in value_leaves(one)]


def check_equal(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * max(1.0, float(np.abs(b).max())))


def check_program(module: Module) -> None:
    """What is written is read back as it was, and all devices get through its collectives."""
    verify(module)
    again = parse_hlo(str(module))
    verify(again)
    assert str(again) == str(module)
    assert not check_communication([module]).faults


@pytest.mark.parametrize("seed", range(12))
def test_programs_compute_the_same_in_their_new_order(seed: int) -> None:
    found = hidden(seed)
    check_program(found.plan.module)
    expected = evaluate_on_devices(random_module(seed, 20), given(seed))
    check_equal(evaluate_on_devices(found.plan.module, given(seed)), expected)
    check_equal(evaluate_on_devices(parse_hlo(str(found.plan.module)), given(seed)), expected)


@pytest.mark.parametrize("seed", range(4))
def test_native_programs_compute_the_same(seed: int) -> None:
    module = hidden(seed).plan.module
    expected = evaluate_on_devices(random_module(seed, 20), given(seed))
    run = lowtide.compile(module)
    check_equal(lowtide.run_on_devices(run, given(seed)), expected)


@pytest.mark.parametrize("seed", range(12))
def test_the_arena_is_never_above_the_cap(seed: int) -> None:
    usual = hidden(seed)
    assert usual.arena_bytes <= usual.cap_bytes
    least = usual.arena_bytes if usual.is_given else hidden(seed, 1).arena_bytes
    fixed = usual.needed_bytes - usual.arena_bytes
    for more in (0, 1 << 14, 1 << 20):
        found = hidden(seed, fixed + least + more)
        assert found.fits
        assert found.arena_bytes <= found.cap_bytes == least + more
        assert found.step.step.seconds <= found.given.step.seconds
        assert found.step.step.seconds >= found.step.bound_seconds * (1 - 1e-9)


def test_a_cap_below_the_least_keeps_the_order_and_says_so() -> None:
    found = hidden(0, 1)
    assert found.is_given
    assert not found.fits
    assert found.step is found.given


def test_more_memory_hides_more() -> None:
    steps = [hidden(seed) for seed in range(12)]
    assert sum([x.step.step.seconds for x in steps]) < 0.9 * sum(
        [x.given.step.seconds for x in steps]
    )


@pytest.mark.parametrize("seed", range(6))
def test_what_is_sent_lives_until_the_second_half(seed: int) -> None:
    module = split(random_module(seed, 20)).module
    found = module_graphs(module)[-1]
    flow = found.flow
    position, _, last = lifetimes(found.graph, np.array(found.order, np.int64))
    for x in module.entry.instructions.values():
        if started(x) is None:
            continue
        (done,) = x.users
        for value in flow.leaves_of(x.operands[0]):
            assert last[value] >= position[flow.number[done]]


def test_equal_programs_get_equal_orders() -> None:
    assert str(hidden(3).plan.module) == str(hidden(3).plan.module)


def test_the_start_of_an_all_reduce_that_is_wrapped_is_read_as_one() -> None:
    (text,) = [
        x for x in str(split(random_module(2, 20)).module).splitlines() if "all-reduce-start(" in x
    ][:1]
    assert "((f32[64,64]" in text
    module = parse_hlo(str(split(random_module(2, 20)).module))
    opcodes = {x.opcode for x in module.entry.instructions.values()}
    assert Opcode.ASYNC_START in opcodes
    assert Opcode.ALL_REDUCE_START not in opcodes


STATE = "(s32[], f32[64,64], f32[512,512], f32[4096,1024])"

LOOP = """HloModule m, is_scheduled=true, num_partitions=2
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}
body {
  s = STATE parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[64,64] get-tuple-element(s), index=1
  b = f32[64,64] all-reduce(a), replica_groups={{0,1}}, channel_id=1, GLOBAL
  c = f32[512,512] get-tuple-element(s), index=2
  d = f32[512,512] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[4096,1024] get-tuple-element(s), index=3
  k = f32[512,512] slice(v), slice={[0:512], [0:512]}
  f = f32[512,512] add(d, k)
  ROOT t = STATE tuple(j, b, f, v)
}
condition {
  s.1 = STATE parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  n = s32[] constant(10)
  ROOT l = pred[] compare(i.1, n), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[64,64] parameter(0)
  y = f32[512,512] parameter(1)
  z = f32[4096,1024] parameter(2)
  init = STATE tuple(zero, x, y, z)
  w = STATE while(init), condition=condition, body=body
  ROOT r = f32[64,64] get-tuple-element(w), index=1
}
""".replace("GLOBAL", "use_global_device_ids=true, to_apply=sum").replace("STATE", STATE)


def test_the_state_of_a_loop_is_not_in_the_way_of_hiding_inside() -> None:
    """Its bytes count in the graph of the body, and in none of the caller."""
    found = hide_communication(compiler.plan(parse_hlo(LOOP)), None, DEVICE)
    assert not found.is_given
    assert found.step.hidden > 0.2
    assert found.fits


def test_nothing_is_proved_of_orders_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its plans the peaks are read, and no bound: cuts and searches for it would be in vain."""
    planned = compiler.plan(parse_hlo(LOOP))
    proved: list[object] = []

    def cuts(*given: Any) -> Any:
        proved.append(given)
        return given[3]

    monkeypatch.setattr("lowtide.scheduling.module_search._highest_cuts", cuts)
    assert not hide_communication(planned, None, DEVICE).is_given
    assert not proved
    compiler.plan(planned.module)
    assert proved
