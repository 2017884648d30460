"""Each kind of operation, split in each way, computes what the whole one does."""

import numpy as np
import pytest
from tests.spmd.equal_results import ADD_AND_MAX, partitioned_text

from lowtide.spmd.wire import wire_traffic

REDUCERS = (
    ADD_AND_MAX
    + """set {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
first {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  both = pred[] and(same, before)
  left = pred[] or(more, both)
  x = f32[] select(left, a, b)
  y = s32[] select(left, i, j)
  ROOT t = (f32[], s32[]) tuple(x, y)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
"""
)
ROWS = "{devices=[4,1]<=[4]}"
COLUMNS = "{devices=[1,4]<=[4]}"
BOTH = "{devices=[2,2]<=[4]}"
TURNED = "{devices=[2,2]<=[2,2]T(1,0)}"
PAIRS = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
SHARDINGS = (ROWS, COLUMNS, BOTH, TURNED, PAIRS, "{replicated}")

OPERATIONS = {
    "elementwise": "ROOT r = f32[8,12] multiply(x, y)",
    "transpose": "ROOT r = f32[12,8] transpose(x), dimensions={1,0}",
    "reshape": "ROOT r = f32[4,2,12] reshape(x)",
    "merging reshape": "ROOT r = f32[96] reshape(x)",
    "mixing reshape": "ROOT r = f32[12,8] reshape(x)",
    "broadcast": "ROOT r = f32[3,12,8] broadcast(x), dimensions={2,1}",
    "slice": "ROOT r = f32[8,6] slice(x), slice={[0:8], [3:9]}",
    "strided slice": "ROOT r = f32[4,12] slice(x), slice={[0:8:2], [0:12]}",
    "pad": "z = f32[] constant(2)\n ROOT r = f32[11,12] pad(x, z), padding=1_2x0_0",
    "concatenate": "ROOT r = f32[16,12] concatenate(x, y), dimensions={0}",
    "reverse": "ROOT r = f32[8,12] reverse(x), dimensions={0}",
    "dot": "ROOT r = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "dot of batches": """
      ROOT r = f32[12] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={1},
        lhs_contracting_dims={0}, rhs_contracting_dims={0}""",
    "reduce": "z = f32[] constant(0)\n ROOT r = f32[12] reduce(x, z), dimensions={0}, to_apply=add",
    "reduce from one": """
      z = f32[] constant(1)
      ROOT r = f32[8] reduce(x, z), dimensions={1}, to_apply=add""",
    "maximum": """
      z = f32[] constant(-inf)
      ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=max""",
    "argmax": """
      i = s32[8,12] iota(), iota_dimension=1
      z = f32[] constant(-inf)
      n = s32[] constant(0)
      ROOT r = (f32[8], s32[8]) reduce(x, i, z, n), dimensions={1}, to_apply=first""",
    "iota": """
      i = f32[8,12] iota(), iota_dimension=1
      ROOT r = f32[8,12] add(x, i)""",
    "dynamic slice": """
      i = s32[] constant(5)
      j = s32[] constant(0)
      ROOT r = f32[1,12] dynamic-slice(x, i, j), dynamic_slice_sizes={1,12}""",
    "wide dynamic slice behind the end": """
      i = s32[] constant(7)
      j = s32[] constant(-2)
      ROOT r = f32[3,5] dynamic-slice(x, i, j), dynamic_slice_sizes={3,5}""",
    "dynamic update": """
      u = f32[3,12] slice(y), slice={[0:3], [0:12]}
      i = s32[] constant(3)
      j = s32[] constant(0)
      ROOT r = f32[8,12] dynamic-update-slice(x, u, i, j)""",
    "dynamic update behind the end": """
      u = f32[1,5] slice(y), slice={[0:1], [0:5]}
      i = s32[] constant(100)
      j = s32[] constant(2)
      ROOT r = f32[8,12] dynamic-update-slice(x, u, i, j)""",
    "gather": """
      i = s32[6] constant({0, 7, 3, 3, -1, 9})
      ROOT r = f32[6,12] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={1,12}""",
    "scatter adds": """
      i = s32[8] constant({0, 7, 3, 3, -1, 9, 2, 2})
      ROOT r = f32[8,12] scatter(x, i, y), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "scatter writes": """
      i = s32[8] constant({0, 7, 3, 4, -1, 9, 2, 1})
      ROOT r = f32[8,12] scatter(x, i, y), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set""",
    "sort": "ROOT r = f32[8,12] sort(x), dimensions={1}, to_apply=less",
    "reduce-window": """
      z = f32[] constant(0)
      ROOT r = f32[8,12] reduce-window(x, z), window={size=1x3 pad=0_0x1_1}, to_apply=add""",
    "convolution": """
      a = f32[2,4,12] reshape(x)
      b = f32[3,4,8] reshape(y)
      ROOT r = f32[2,8,10] convolution(a, b), window={size=3}, dim_labels=bf0_0io->bf0""",
    "fft": """
      c = c64[8,12] complex(x, y)
      f = c64[8,12] fft(c), fft_type=FFT, fft_length={12}
      ROOT r = f32[8,12] real(f)""",
    "sum of sums": """
      z = f32[] constant(0)
      a = f32[8] reduce(x, z), dimensions={1}, to_apply=add
      b = f32[8] reduce(y, z), dimensions={1}, to_apply=add
      n = f32[8] negate(b)
      ROOT r = f32[8] add(a, n)""",
}


def module(x: str, y: str, body: str) -> str:
    return f"""HloModule m, num_partitions=4,
    allow_spmd_sharding_propagation_to_output={{true}}
{REDUCERS}
ENTRY e {{
  x = f32[8,12] parameter(0), sharding={x}
  y = f32[8,12] parameter(1), sharding={y}
  {body}
}}
"""


@pytest.mark.parametrize("body", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("x", SHARDINGS)
def test_operation(x: str, body: str) -> None:
    for y in (ROWS, "{replicated}"):
        partitioned_text(module(x, y, body))


def test_terms_are_reduced_once() -> None:
    parts = partitioned_text(module(COLUMNS, COLUMNS, OPERATIONS["sum of sums"]))
    assert wire_traffic(parts.module).collectives["all-reduce"].count == 1


def test_a_sum_that_is_split_is_scattered() -> None:
    body = """
      d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
      ROOT r = f32[8,8] custom-call(d), custom_call_target="Sharding", sharding=SPLIT"""
    parts = partitioned_text(module(COLUMNS, COLUMNS, body.replace("SPLIT", ROWS)))
    assert set(wire_traffic(parts.module).collectives) == {"reduce-scatter"}


def test_nan_stays_in_a_maximum() -> None:
    x = np.zeros((8, 12), np.float32)
    x[5, 7] = np.nan
    partitioned_text(module(BOTH, ROWS, OPERATIONS["maximum"]), [x, np.zeros_like(x)])


LOOP = """HloModule m, num_partitions=4
cond {
  s = (s32[], f32[8,12], f32[12,12]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8,12], f32[12,12]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,12] get-tuple-element(s), index=1
  w = f32[12,12] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  d = f32[8,12] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[] constant(0.25)
  b = f32[8,12] broadcast(c), dimensions={}
  y = f32[8,12] multiply(d, b)
  ROOT r = (s32[], f32[8,12], f32[12,12]) tuple(next, y, w)
}
yes {
  a = f32[8,12] parameter(0)
  ROOT n = f32[8,12] negate(a)
}
no {
  ROOT a = f32[8,12] parameter(0)
}
ENTRY e {
  x = f32[8,12] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  w = f32[12,12] parameter(1), sharding={devices=[1,4]<=[4]}
  p = pred[] parameter(2)
  zero = s32[] constant(0)
  t = (s32[], f32[8,12], f32[12,12]) tuple(zero, x, w)
  l = (s32[], f32[8,12], f32[12,12]) while(t), condition=cond, body=body
  y = f32[8,12] get-tuple-element(l), index=1
  ROOT r = f32[8,12] conditional(p, y, y), true_computation=yes, false_computation=no
}
"""


@pytest.mark.parametrize("choice", [True, False])
def test_loops_and_branches(choice: bool) -> None:
    random = np.random.default_rng(1)
    x = random.integers(-2, 3, (8, 12)).astype(np.float32)
    w = random.integers(-2, 3, (12, 12)).astype(np.float32)
    partitioned_text(LOOP, [x, w, np.array(choice)])
