"""Values that are handed on between instructions and computations of different layouts."""

from __future__ import annotations

import random
import re
from typing import Final

import numpy as np
import pytest
from tests.native.comparing import compiled
from tests.ways_to_run import run_native

from lowtide.checking.tolerances import assert_values_close
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify

FORMS: Final = {
    "conditional": """
one { a = f32[3,4]@ parameter(0)
  ROOT n = f32[3,4]@ negate(a) }
two { b = f32[3,4]@ parameter(0)
  ROOT t = f32[3,4]@ add(b, b) }
ENTRY e { p = pred[] parameter(0)
  x = f32[3,4]@ parameter(1)
  y = f32[3,4]@ parameter(2)
  ROOT c = f32[3,4]@ conditional(p, x, y), true_computation=one, false_computation=two }""",
    "conditional of tuples": """
one { a = (f32[3,4]@, f32[2]) parameter(0)
  a0 = f32[3,4]@ get-tuple-element(a), index=0
  a1 = f32[2] get-tuple-element(a), index=1
  ROOT n = (f32[2], f32[3,4]@) tuple(a1, a0) }
two { b = f32[3,4]@ parameter(0)
  k = f32[2] constant({1, 2})
  ROOT t = (f32[2], f32[3,4]@) tuple(k, b) }
ENTRY e { p = s32[] parameter(0)
  x = f32[3,4]@ parameter(1)
  z = f32[2] parameter(2)
  t = (f32[3,4]@, f32[2]) tuple(x, z)
  c = (f32[2], f32[3,4]@) conditional(p, t, x), branch_computations={one, two}
  ROOT g = f32[3,4]@ get-tuple-element(c), index=1 }""",
    "call": """
one { a = f32[3,4]@ parameter(0)
  b = f32[4,3]@ parameter(1)
  t = f32[3,4]@ transpose(b), dimensions={1,0}
  ROOT n = f32[3,4]@ subtract(a, t) }
ENTRY e { x = f32[3,4]@ parameter(0)
  y = f32[4,3]@ parameter(1)
  c = f32[3,4]@ call(x, y), to_apply=one
  d = f32[3,4]@ call(c, y), to_apply=one
  ROOT r = (f32[3,4]@, f32[3,4]@) tuple(c, d) }""",
    "call that returns its argument": """
one { ROOT a = f32[3,4]@ parameter(0) }
ENTRY e { x = f32[3,4]@ parameter(0)
  ROOT c = f32[3,4]@ call(x), to_apply=one }""",
    "while": """
cond { s = (s32[], f32[3,4]@) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(i, k), direction=LT }
body { b = (s32[], f32[3,4]@) parameter(0)
  j = s32[] get-tuple-element(b), index=0
  o = s32[] constant(1)
  j1 = s32[] add(j, o)
  v = f32[3,4]@ get-tuple-element(b), index=1
  q = f32[3,4] constant({{1,2,3,4},{5,6,7,8},{9,10,11,12}})
  w = f32[3,4]@ add(v, q)
  ROOT r = (s32[], f32[3,4]@) tuple(j1, w) }
ENTRY e { x = f32[3,4]@ parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[3,4]@) tuple(z, x)
  f = (s32[], f32[3,4]@) while(t), condition=cond, body=body
  ROOT g = f32[3,4]@ get-tuple-element(f), index=1 }""",
    "tuples in tuples": """
ENTRY e { x = f32[3,4]@ parameter(0)
  y = (f32[3,4]@, (s32[2,3]@, f32[2])) parameter(1)
  t = ((f32[3,4]@, (s32[2,3]@, f32[2])), f32[3,4]@) tuple(y, x)
  u = ((f32[3,4]@, (s32[2,3]@, f32[2])), f32[3,4]@) opt-barrier(t)
  g = (f32[3,4]@, (s32[2,3]@, f32[2])) get-tuple-element(u), index=0
  h = (s32[2,3]@, f32[2]) get-tuple-element(g), index=1
  k = s32[2,3]@ get-tuple-element(h), index=0
  ROOT r = (s32[2,3]@, f32[3,4]@, (s32[2,3]@, f32[2])) tuple(k, x, h) }""",
    "fusion of other layouts": """
fused { a = f32[3,4]@ parameter(0)
  b = f32[4,5]@ parameter(1)
  n = f32[3,4]@ negate(a)
  d = f32[3,5]@ dot(n, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[3,5]@, f32[3,5]@) tuple(d, d) }
ENTRY e { x = f32[3,4]@ parameter(0)
  y = f32[4,5]@ parameter(1)
  f = (f32[3,5]@, f32[3,5]@) fusion(x, y), kind=kOutput, calls=fused
  ROOT g = f32[3,5]@ get-tuple-element(f), index=1 }""",
    "fusion of bitcasts": """
fused { a = f32[3,4]@ parameter(0)
  b = f32[4,3]@ bitcast(a)
  ROOT n = f32[4,3]@ negate(b) }
ENTRY e { x = f32[3,4]@ parameter(0)
  ROOT f = f32[4,3]@ fusion(x), kind=kLoop, calls=fused }""",
    "update in a loop": """
cond { s = (s32[], f32[3,4]@) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(i, k), direction=LT }
fused { p = f32[3,4]@ parameter(0)
  m = s32[] parameter(1)
  z = s32[] constant(0)
  one = f32[] constant(1)
  u = f32[1,4]@ broadcast(one), dimensions={}
  ROOT d = f32[3,4]@ dynamic-update-slice(p, u, m, z) }
body { b = (s32[], f32[3,4]@) parameter(0)
  j = s32[] get-tuple-element(b), index=0
  o = s32[] constant(2)
  j1 = s32[] add(j, o)
  v = f32[3,4]@ get-tuple-element(b), index=1
  w = f32[3,4]@ fusion(v, j), kind=kLoop, calls=fused
  ROOT r = (s32[], f32[3,4]@) tuple(j1, w) }
ENTRY e { x = f32[3,4]@ parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[3,4]@) tuple(z, x)
  f = (s32[], f32[3,4]@) while(t), condition=cond, body=body
  ROOT g = f32[3,4]@ get-tuple-element(f), index=1 }""",
    "result over its argument": """
ENTRY e { x = f32[3,4]@ parameter(0)
  s = s32[] parameter(1)
  u = f32[1,2]@ parameter(2)
  ROOT d = f32[3,4]@ dynamic-update-slice(x, u, s, s) }""",
    "asynchronous": """
one { a = f32[3,4]@ parameter(0)
  ROOT n = f32[3,4]@ negate(a) }
ENTRY e { x = f32[3,4]@ parameter(0)
  s = ((f32[3,4]@), f32[3,4]@, s32[]) async-start(x), calls=one
  u = ((f32[3,4]@), f32[3,4]@, s32[]) async-update(s)
  ROOT d = f32[3,4]@ async-done(u) }""",
}
"""Modules whose layouts are drawn, one for each `@`."""


def drawn(text: str, seed: int, *, is_scheduled: bool) -> str:
    """Return a module with layouts."""
    draw = random.Random(seed)
    body = re.sub("@", lambda _: draw.choice(("{1,0}", "{0,1}")), text)
    return f"HloModule m{', is_scheduled=true' if is_scheduled else ''}\n{body}\n"


@pytest.mark.parametrize("is_scheduled", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_values_do_not_depend_on_layouts(name: str, is_scheduled: bool) -> None:
    for seed in range(6):
        text = drawn(FORMS[name], seed, is_scheduled=is_scheduled)
        module = parse_hlo(text)
        verify(module)
        arguments = seeded_arguments(module, seed)
        expected = evaluate(module, arguments)
        got = compiled(text)(*arguments)
        assert_values_close(got, expected, module.entry.root.shape)


def test_an_asynchronous_start_that_tells_of_no_result_has_that_of_its_computation() -> None:
    text = """
HloModule m
ENTRY e {
  x = f32[] parameter(0)
  y = s32[] parameter(1)
  s = ((f32[], s32[]), (), s32[]) call-start(x, y), to_apply={
    a = f32[] parameter(0)
    b = s32[] parameter(1)
    ROOT t = tuple(a, b)
  }
  ROOT d = (f32[], s32[]) call-done(s)
}"""
    got = run_native(text, [np.float32(2.5), np.int32(3)])
    assert [x.item() for x in got] == [2.5, 3]
