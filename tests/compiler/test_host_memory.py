"""The host's memory: an arena of its own, planned like the other, counted apart, checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.native.comparing import compiled, flat, reference

import lowtide
from lowtide import compiler
from lowtide.checking.plan import check_plan
from lowtide.evaluator.in_arena import run_in_arena
from lowtide.ir.buffer import AllocationKind, BufferAssignment
from lowtide.ir.shape import HOST_MEMORY

STRAIGHT = """HloModule m
ENTRY e {
  p = f32[256]{0} parameter(0)
  q = f32[64]{0:S(5)} parameter(1)
  n = f32[256]{0} negate(p)
  h = f32[256]{0:S(5)} copy(n)
  g = f32[256]{0:S(5)} copy(p)
  d = f32[256]{0} copy(h)
  x = f32[256]{0} copy(g)
  c = f32[256]{0} add(d, x)
  o = f32[64]{0:S(5)} copy(q)
  ROOT r = (f32[256]{0}, f32[64]{0:S(5)}) tuple(c, o)
}
"""
LOOP = """HloModule m
cond {
  s = (s32[], f32[8,256]{1,0:S(5)}, f32[256]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(8)
  ROOT c = pred[] compare(i, k), direction=LT
}
body {
  s = (s32[], f32[8,256]{1,0:S(5)}, f32[256]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = f32[8,256]{1,0:S(5)} get-tuple-element(s), index=1
  x = f32[256]{0} get-tuple-element(s), index=2
  z = s32[] constant(0)
  one = s32[] constant(1)
  y = f32[256]{0} cosine(x)
  r = f32[1,256]{1,0} reshape(y)
  rh = f32[1,256]{1,0:S(5)} copy(r)
  v = f32[8,256]{1,0:S(5)} dynamic-update-slice(w, rh, i, z)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8,256]{1,0:S(5)}, f32[256]{0}) tuple(j, v, y)
}
ENTRY e {
  w = f32[8,256]{1,0:S(5)} parameter(0)
  x = f32[256]{0} parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[8,256]{1,0:S(5)}, f32[256]{0}) tuple(z, w, x)
  l = (s32[], f32[8,256]{1,0:S(5)}, f32[256]{0}) while(t), condition=cond, body=body
  a = f32[8,256]{1,0:S(5)} get-tuple-element(l), index=1
  b = f32[8,256]{1,0} copy(a)
  c = f32[8,256]{1,0} copy(w)
  ROOT o = f32[8,256]{1,0} add(b, c)
}
"""
DONATED = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  w = f32[8,256]{1,0:S(5)} parameter(0)
  x = f32[1,256]{1,0:S(5)} parameter(1)
  z = s32[] constant(3)
  ROOT v = f32[8,256]{1,0:S(5)} dynamic-update-slice(w, x, z, z)
}
"""
CONSTANTS = """HloModule m
ENTRY e {
  c = f32[4]{0} constant({1,2,3,4})
  h = f32[4]{0:S(5)} copy(c)
  d = f32[4]{0} copy(h)
  g = f32[4]{0:S(5)} constant({1,2,3,5})
  k = f32[4]{0} copy(g)
  ROOT v = f32[4]{0} add(d, k)
}
"""
LARGE = """HloModule m
ENTRY e {
  p = f32[1024,512]{1,0} parameter(0)
  q = f32[512,1024]{0,1:S(5)} parameter(1)
  h = f32[1024,512]{1,0:S(5)} copy(p)
  s = f32[512,1024]{0,1:S(5)} negate(q)
  d = f32[1024,512]{1,0} copy(h)
  ROOT r = (f32[1024,512]{1,0:S(5)}, f32[512,1024]{0,1:S(5)}, f32[1024,512]{1,0}) tuple(h, s, d)
}
"""
ARGUMENT = """HloModule m
ENTRY e {
  p = f32[128,8]{0,1:S(5)} parameter(0)
  c = f32[128,8]{0,1} copy(p)
  r = f32[16,8,8]{1,0,2} reshape(c)
  ROOT d = f32[16,8,8]{1,2,0} copy(r)
}
"""
TEXTS = {
    "argument": ARGUMENT,
    "straight": STRAIGHT,
    "loop": LOOP,
    "donated": DONATED,
    "constants": CONSTANTS,
    "large": LARGE,
}
CASES = [
    pytest.param(text.replace("HloModule m", f"HloModule m{flag}"), id=f"{name}{flag}")
    for name, text in TEXTS.items()
    for flag in ("", ", is_scheduled=true")
]


def arguments(text: str) -> list[Any]:
    rng = np.random.default_rng(7)
    entry = lowtide.parse_hlo(text).entry
    return [rng.standard_normal(x.shape.dimensions, np.float32) for x in entry.parameters]


@pytest.mark.parametrize("text", CASES)
def test_the_plan_is_right_and_its_arenas_apart(text: str) -> None:
    plan = compiler.plan(lowtide.parse_hlo(text))
    assert check_plan(plan.module, plan.assignment) == ()
    ladder, (space,) = plan.report.ladder, plan.report.spaces
    assert space.space == HOST_MEMORY
    assert plan.assignment.arena_bytes == ladder.arena_bytes
    assert plan.assignment.host_arena_bytes == space.arena_bytes >= space.live_bytes
    result = run_in_arena(plan.module, plan.assignment, arguments(text))
    for a, b in zip(flat(result), flat(reference(text, arguments(text))), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("text", CASES)
def test_native_code_runs_in_both_arenas(text: str) -> None:
    program = compiled(text)
    for _ in range(2):
        found = flat(program(*arguments(text)))
        for a, b in zip(found, flat(reference(text, arguments(text))), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_figures_count_the_host_apart() -> None:
    document = lowtide.explain(lowtide.parse_hlo(STRAIGHT)).to_json()
    (space,) = document["memory_spaces"]
    assert space == {
        "space": HOST_MEMORY,
        "argument_bytes": 256,
        "output_bytes": 256,
        "live_bytes": space["live_bytes"],
        "arena_bytes": space["arena_bytes"],
    }
    assert 1024 + 256 <= space["live_bytes"] <= space["arena_bytes"] <= 2048 + 256
    assert document["argument_bytes"] == document["output_bytes"] == 1024
    assert "in the host's memory" in str(lowtide.explain(lowtide.parse_hlo(STRAIGHT)))


def test_a_module_in_one_memory_says_nothing_of_others() -> None:
    text = STRAIGHT.replace("{0:S(5)}", "{0}")
    assert "memory_spaces" not in lowtide.explain(lowtide.parse_hlo(text)).to_json()


def test_other_memories_are_listed_too() -> None:
    document = lowtide.explain(lowtide.parse_hlo(STRAIGHT.replace("S(5)", "S(1)"))).to_json()
    (space,) = document["memory_spaces"]
    assert space["space"] == 1
    assert space["argument_bytes"] == space["output_bytes"] == 256


def test_a_value_of_the_host_in_the_other_arena_is_found() -> None:
    plan = compiler.plan(lowtide.parse_hlo(STRAIGHT))
    wrong = moved_to_the_device(plan.assignment)
    kinds = {x.kind.value for x in check_plan(plan.module, wrong)}
    assert "memory-space" in kinds or "memory space" in kinds, kinds


def moved_to_the_device(assignment: BufferAssignment) -> BufferAssignment:
    """Return a plan with the slices of the host's arena in that of the device."""
    arenas = {x.colour: x for x in assignment.allocations if x.kind is AllocationKind.ARENA}
    host, device = arenas[HOST_MEMORY].index, arenas[0].index

    def moved(places: Any) -> Any:
        return tuple(
            [
                x if x is None or x.allocation != host else replace(x, allocation=device)
                for x in places
            ]
        )

    sites = [
        replace(site, slices={x: moved(places) for x, places in site.slices.items()})
        for site in assignment.call_sites
    ]
    return replace(assignment, call_sites=tuple(sites), outputs=moved(assignment.outputs))
