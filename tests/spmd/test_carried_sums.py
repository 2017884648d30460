"""Sums that a loop adds to in each step are carried as terms, and reduced once behind it."""

import numpy as np
import pytest
from tests.spmd.equal_results import partitioned_text

from lowtide.spmd.wire import wire_traffic

ACCUMULATING = """HloModule m, num_partitions=4
cond {
  s = (s32[], f32[5,8,6], f32[6,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[5,8,6], f32[6,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[5,8,6] get-tuple-element(s), index=1
  t = f32[6,6] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  r = f32[1,8,6] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,8,6}
  row = f32[8,6] reshape(r)
  d = f32[6,6] dot(row, row), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  TOTAL
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT u = (s32[], f32[5,8,6], f32[6,6]) tuple(next, x, total)
}
ENTRY e {
  x = f32[5,8,6] parameter(0), sharding={devices=[1,4,1]<=[4]}
  t = f32[6,6] parameter(1), sharding={replicated}
  zero = s32[] constant(0)
  s = (s32[], f32[5,8,6], f32[6,6]) tuple(zero, x, t)
  l = (s32[], f32[5,8,6], f32[6,6]) while(s), condition=cond, body=body
  ROOT r = f32[6,6] get-tuple-element(l), index=2, sharding=RESULT
}
"""


def arguments() -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [
        random.integers(-3, 4, (5, 8, 6)).astype(np.float32),
        random.integers(-3, 4, (6, 6)).astype(np.float32),
    ]


@pytest.mark.parametrize("total", ["add(t, d)", "add(d, t)"])
def test_one_reduction_behind_the_loop(total: str) -> None:
    text = ACCUMULATING.replace("TOTAL", f"total = f32[6,6] {total}")
    parts = partitioned_text(text.replace("RESULT", "{replicated}"), arguments())
    sent = wire_traffic(parts.module)
    assert sent.collectives["all-reduce"].runs == 1
    assert set(sent.collectives) == {"all-reduce"}


def test_a_split_sum_is_scattered_behind_the_loop() -> None:
    text = ACCUMULATING.replace("TOTAL", "total = f32[6,6] add(t, d)").replace("6", "8")
    text = text.replace("RESULT", "{devices=[4,1]<=[4]}")
    random = np.random.default_rng(3)
    given = [random.integers(-3, 4, sizes).astype(np.float32) for sizes in ((5, 8, 8), (8, 8))]
    parts = partitioned_text(text, given)
    assert wire_traffic(parts.module).collectives["reduce-scatter"].runs == 1


@pytest.mark.parametrize(
    "total",
    [
        "v = f32[6,6] multiply(t, d)\n  total = f32[6,6] add(t, v)",
        "v = f32[6,6] maximum(d, t)\n  total = f32[6,6] add(t, v)",
        "total = f32[6,6] multiply(t, d)",
    ],
)
def test_a_sum_that_the_step_reads_is_reduced_in_it(total: str) -> None:
    text = ACCUMULATING.replace("TOTAL", total).replace("RESULT", "{replicated}")
    x = np.random.default_rng(3).integers(-1, 2, (5, 8, 6)).astype(np.float32)
    parts = partitioned_text(text, [x, np.ones((6, 6), np.float32)])
    assert wire_traffic(parts.module).collectives["all-reduce"].runs == 5
