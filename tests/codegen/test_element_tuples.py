"""Tuples as parameters of fusions."""

import numpy as np
from tests.codegen.cpu.library.running import check

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
