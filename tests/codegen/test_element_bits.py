"""Bits read as another type, tuples as parameters of fusions, control flow per element."""

import numpy as np
import pytest
from tests.codegen.library.running import TARGETS, check

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import DTYPES

PAIRS = [
    ("s32[5,7]", "s8[5,7,4]"),
    ("u16[9]", "u4[9,4]"),
    ("f64[3,33]", "u32[3,33,2]"),
    ("u8[4,40,4]", "f32[4,40]"),
    ("bf16[37,2]", "u32[37]"),
    ("s4[5,2]", "s8[5]"),
    ("f32[40]", "s32[40]"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("given", "result"), PAIRS)
def test_bitcast_convert(given, result, target):
    text = f"""
HloModule m

ENTRY main {{
  x = {given} parameter(0)
  ROOT y = {result} bitcast-convert(x)
}}
"""
    shape = parse_hlo(text).entry.parameters[0].shape
    values = np.random.default_rng(0).integers(-8, 8, shape.dimensions)
    for stage in ("input", "fused"):
        check(text, [values.astype(DTYPES[shape.element_type])], target, stage)


TUPLES = """
HloModule m

fused {
  p = (f32[6], (f32[3,2], s32[])) parameter(0)
  a = f32[6] get-tuple-element(p), index=0
  q = (f32[3,2], s32[]) get-tuple-element(p), index=1
  b = f32[3,2] get-tuple-element(q), index=0
  c = s32[] get-tuple-element(q), index=1
  d = f32[6] reshape(b)
  e = f32[] convert(c)
  f = f32[6] broadcast(e), dimensions={}
  g = f32[6] add(a, d)
  ROOT h = f32[6] multiply(g, f)
}

ENTRY main {
  p = (f32[6], (f32[3,2], s32[])) parameter(0)
  ROOT k = f32[6] fusion(p), kind=kLoop, calls=fused
}
"""


def test_tuples_as_parameters_of_fusions():
    random = np.random.default_rng(1)
    first, second = random.random(6, np.float32), random.random((3, 2), np.float32)
    check(TUPLES, [first, second, np.array(3, np.int32)])


CONTROL = """
HloModule m

twice {
  p = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(p), index=0
  b = s32[] get-tuple-element(p), index=1
  c = s32[] add(a, a)
  one = s32[] constant(1)
  d = s32[] add(b, one)
  ROOT t = (s32[], s32[]) tuple(c, d)
}

is_small {
  p = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(p), index=0
  k = s32[] constant(1000)
  ROOT c = pred[] compare(a, k), direction=LT
}

minus {
  p = s32[] parameter(0)
  ROOT n = s32[] negate(p)
}

times {
  p = s32[] parameter(0)
  k = s32[] constant(7)
  ROOT n = s32[] multiply(p, k)
}

f {
  x = s32[] parameter(0)
  z = s32[] constant(0)
  t = (s32[], s32[]) tuple(x, z)
  w = (s32[], s32[]) while(t), condition=is_small, body=twice
  n = s32[] get-tuple-element(w), index=1
  g = pred[] compare(n, x), direction=GT
  i = s32[] conditional(g, n, x), true_computation=minus, false_computation=times
  three = s32[] constant(3)
  r = s32[] remainder(x, three)
  two = s32[] constant(2)
  s = s32[] subtract(r, two)
  j = s32[] conditional(s, n, x, i), branch_computations={minus, times, minus}
  ROOT o = s32[] add(i, j)
}

ENTRY main {
  x = s32[SIZE] parameter(0)
  ROOT m = s32[SIZE] map(x), dimensions={0}, to_apply=f
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1, 3, 16, 37])
def test_control_flow_for_each_element(size, target):
    """No lane beyond the last element keeps a loop from ending: zeros would not grow."""
    values = np.random.default_rng(2).integers(1, 500, size).astype(np.int32)
    text = CONTROL.replace("SIZE", str(size))
    for stage in ("input", "fused"):
        check(text, [values], target, stage)
