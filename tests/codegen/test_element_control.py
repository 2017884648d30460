"""Control flow in computations that are applied to each element."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check

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
