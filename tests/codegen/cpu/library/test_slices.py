"""Dynamic slices and updates in place: starts out of range are clamped, several follow in turn."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check

UPDATES = """
HloModule m

ENTRY main {
  x = f32[9,20] parameter(0)
  y = f32[4,17] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  w = f32[9,20] add(x, x)
  d = f32[3,5] dynamic-slice(x, j, i), dynamic_slice_sizes={3,5}
  e = f32[3,5] negate(d)
  a = f32[9,20] dynamic-update-slice(w, y, i, j)
  b = f32[9,20] dynamic-update-slice(a, e, j, i)
  c = f32[3,5] dynamic-slice(b, i, j), dynamic_slice_sizes={3,5}
  ROOT t = (f32[9,20], f32[3,5]) tuple(b, c)
}
"""


@pytest.mark.parametrize("stage", ["input", "fused"])
@pytest.mark.parametrize("target", TARGETS)
def test_updates_in_turn(target, stage):
    random = np.random.default_rng(0)
    x, y = random.random((9, 20), np.float32), random.random((4, 17), np.float32)
    for starts in ((0, 0), (2, 1), (-5, 99), (2**31 - 1, -(2**31)), (5, 3)):
        check(UPDATES, [x, y, *[np.array(s, np.int32) for s in starts]], target, stage)
