"""How long instructions are thought to run, and which of them may run again."""

from __future__ import annotations

import numpy as np
import pytest

from lowtide.analysis.dataflow import dataflow
from lowtide.budgeting.once import runs_once
from lowtide.cost.kernels import move_seconds
from lowtide.cost.machine import X86_SERVER
from lowtide.cost.module_times import module_times, run_counts
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module

LOOP = """HloModule m

body {
  s = (s32[], f32[1024]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(k, one)
  u = f32[1024] get-tuple-element(s), index=1
  v = f32[1024] exponential(u)
  ROOT t = (s32[], f32[1024]) tuple(next, v)
}

condition {
  s = (s32[], f32[1024]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  most = s32[] constant(7)
  ROOT less = pred[] compare(k, most), direction=LT
}

ENTRY main {
  x = f32[1024] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[1024]) tuple(zero, x)
  loop = (s32[], f32[1024]) while(start), condition=condition, body=body
  ROOT y = f32[1024] get-tuple-element(loop), index=1
}
"""

ONE_OF_EACH = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

noise {
  from = f32[] parameter(0)
  to = f32[] parameter(1)
  ROOT r = f32[8] rng(from, to), distribution=rng_uniform
}

ENTRY main {
  x = f32[8] parameter(0)
  low = f32[] constant(0)
  high = f32[] constant(1)
  first = token[] after-all()
  outfeed = token[] outfeed(x, first)
  sum = f32[8] all-reduce(x), to_apply=add
  called = f32[8] call(low, high), to_apply=noise
  random = f32[8] rng(low, high), distribution=rng_uniform
  effect = f32[8] custom-call(x), custom_call_target="f", custom_call_has_side_effect=true
  pure = f32[8] custom-call(x), custom_call_target="g"
  total = f32[] reduce(x, low), dimensions={0}, to_apply=add
  ROOT y = f32[8] negate(x)
}
"""


def seconds_of(module: Module) -> dict[str, float]:
    """The seconds of each instruction of the entry, with what it runs."""
    flows = dataflow(module.entry)
    times = module_times(flows, X86_SERVER)
    totals = {}
    for computation, found in times.items():
        seconds = found.with_callees(totals)
        totals[computation] = float(seconds.sum())
    names = [x.name for x in flows[module.entry].nodes]
    return dict(zip(names, seconds.tolist(), strict=True))


def test_a_product_takes_its_flops_and_bytes() -> None:
    module = parse_hlo(
        "HloModule m\n\nENTRY main {\n  x = f32[512,256] parameter(0)\n"
        "  w = f32[256,1024] parameter(1)\n  ROOT y = f32[512,1024] dot(x, w), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
    )
    flops, moved = 2 * 512 * 256 * 1024, 4 * (512 * 256 + 256 * 1024 + 512 * 1024)
    expected = (
        X86_SERVER.launch_seconds
        + move_seconds(moved, X86_SERVER)
        + flops * X86_SERVER.flop_seconds
    )
    assert seconds_of(module)["y"] == pytest.approx(expected)


def test_a_loop_takes_the_time_of_its_iterations() -> None:
    module = parse_hlo(LOOP)
    seconds = seconds_of(module)
    once = (
        X86_SERVER.launch_seconds
        + move_seconds(2 * 4096, X86_SERVER)
        + 1024 * X86_SERVER.transcendental_seconds
    )
    assert seconds["loop"] == pytest.approx(7 * once, rel=1.5)
    assert seconds["loop"] >= 7 * once
    assert seconds["start"] == seconds["x"] == seconds["y"] == 0
    flows = dataflow(module.entry)
    counts = {x.name: n for x, n in run_counts(flows, module_times(flows, X86_SERVER)).items()}
    assert counts == {"condition": 8, "body": 7, "main": 1}


def test_a_conditional_takes_the_time_of_its_longest_branch() -> None:
    text = (
        "HloModule m\n\nshort {\n  ROOT a = f32[4096] parameter(0)\n}\n\n"
        "long {\n  a = f32[4096] parameter(0)\n  ROOT b = f32[4096] exponential(a)\n}\n\n"
        "ENTRY main {\n  p = pred[] parameter(0)\n  x = f32[4096] parameter(1)\n"
        "  e = f32[4096] exponential(x)\n  ROOT c = f32[4096] conditional(p, e, e), "
        "true_computation=short, false_computation=long\n}\n"
    )
    seconds = seconds_of(parse_hlo(text))
    assert seconds["c"] == pytest.approx(seconds["e"])


def test_what_has_an_effect_or_partners_runs_once() -> None:
    module = parse_hlo(ONE_OF_EACH)
    once = {x.name for x in module.entry.instructions.values() if runs_once(x, {})}
    assert once == {*("x", "low", "high", "first", "outfeed", "sum", "called", "random", "effect")}


def test_times_are_the_same_each_time() -> None:
    module = parse_hlo(LOOP)
    flows = dataflow(module.entry)
    first, second = [module_times(flows, X86_SERVER)[module.entry].own for _ in range(2)]
    np.testing.assert_array_equal(first, second)
