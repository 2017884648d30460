from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from tests.evaluator.against_xla import check_text, dims, run_text

UPDATES = {
    "add": "ROOT r = f32[] add(p, q)",
    "last": "ROOT r = f32[] copy(q)",
    "maximum": "ROOT r = f32[] maximum(q, p)",
    "product of difference": "s = f32[] subtract(p, q)\n ROOT r = f32[] multiply(s, q)",
}


@dataclass
class Case:
    """Dimension numbers of a valid gather, which are also those of a scatter."""

    operand: list[int]
    indices: list[int]
    result: list[int]
    numbers: tuple[str, ...]
    sizes: list[int]
    mapped: list[int]

    def gather(self, index_type):
        offset, collapsed, mapped, batch, index_batch, vector = self.numbers
        return f"""HloModule m
ENTRY e {{
  a = f32[{dims(self.operand)}] parameter(0)
  i = {index_type}[{dims(self.indices)}] parameter(1)
  ROOT r = f32[{dims(self.result)}] gather(a, i), offset_dims={{{offset}}},
    collapsed_slice_dims={{{collapsed}}}, start_index_map={{{mapped}}},
    operand_batching_dims={{{batch}}}, start_indices_batching_dims={{{index_batch}}},
    index_vector_dim={vector}, slice_sizes={{{dims(self.sizes)}}}
}}"""

    def scatter(self, index_type, update):
        offset, collapsed, mapped, batch, index_batch, vector = self.numbers
        return f"""HloModule m
c {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  {update}
}}
ENTRY e {{
  a = f32[{dims(self.operand)}] parameter(0)
  i = {index_type}[{dims(self.indices)}] parameter(1)
  u = f32[{dims(self.result)}] parameter(2)
  ROOT r = f32[{dims(self.operand)}] scatter(a, i, u), update_window_dims={{{offset}}},
    inserted_window_dims={{{collapsed}}}, scatter_dims_to_operand_dims={{{mapped}}},
    input_batching_dims={{{batch}}}, scatter_indices_batching_dims={{{index_batch}}},
    index_vector_dim={vector}, to_apply=c
}}"""


def draw_case(rng):
    rank = int(rng.integers(1, 4))
    operand = rng.integers(1, 5, rank).tolist()
    batching = sorted(rng.choice(rank, rng.integers(0, min(2, rank)), replace=False).tolist())
    rest = [d for d in range(rank) if d not in batching]
    mapped = rng.permutation(rest)[: rng.integers(1, len(rest) + 1)].tolist()
    sizes = [1 if d in batching else int(rng.integers(1, operand[d] + 1)) for d in range(rank)]
    collapsed = [d for d in rest if sizes[d] == 1 and rng.random() < 0.5]
    batch = rng.integers(1, 4, rng.integers(len(batching), len(batching) + 3)).tolist()
    places = rng.permutation(len(batch))[: len(batching)].tolist()
    for d, place in zip(batching, places, strict=True):
        batch[place] = operand[d]
    vector = int(rng.integers(0, len(batch) + 1))
    indices = [*batch[:vector], len(mapped), *batch[vector:]]
    index_batching = [place + (place >= vector) for place in places]
    window = [d for d in rest if d not in collapsed]
    offset = sorted(rng.permutation(len(batch) + len(window))[: len(window)].tolist())
    sources = dict(zip(offset, window, strict=True))
    remaining = iter(batch)
    result = [
        sizes[sources[d]] if d in sources else next(remaining)
        for d in range(len(batch) + len(window))
    ]
    lists = (offset, collapsed, mapped, batching, index_batching)
    numbers = (*[dims(x) for x in lists], str(vector))
    return Case(operand, indices, result, numbers, sizes, mapped)


@pytest.mark.parametrize("seed", range(24))
def test_random_dimension_numbers(seed):
    rng = np.random.default_rng(seed)
    case = draw_case(rng)
    name, dtype = [("s32", np.int32), ("s64", np.int64), ("u8", np.uint8), ("s8", np.int8)][
        seed % 4
    ]
    low = 0 if dtype is np.uint8 else -2
    operand = rng.normal(size=case.operand).astype(np.float32)
    indices = rng.integers(low, 6, case.indices).astype(dtype)
    check_text(case.gather(name), operand, indices)
    updates = np.asarray(rng.normal(size=case.result)).astype(np.float32)
    update = list(UPDATES.values())[seed // 4 % len(UPDATES)]
    check_text(case.scatter(name, update), operand, indices, updates, tolerance=1e-4)


def window_scatter(index_type, updates="f32[3,2]", window=1):
    return f"""HloModule m
c {{
  p = f32[] parameter(0)
  ROOT q = f32[] parameter(1)
}}
ENTRY e {{
  a = f32[6] parameter(0)
  i = {index_type}[3,1] parameter(1)
  u = {updates} parameter(2)
  ROOT r = f32[6] scatter(a, i, u), update_window_dims={{{window}}}, inserted_window_dims={{}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c
}}"""


def test_window_partly_outside_is_left_out_whole():
    updates = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    indices = np.array([[5], [-1], [2]], np.int32)
    found = run_text(window_scatter("s32"), np.zeros(6, np.float32), indices, updates)
    assert found[0].tolist() == [0, 0, 5, 6, 0, 0]


@pytest.mark.parametrize(("name", "dtype"), [("u64", np.uint64), ("u32", np.uint32)])
def test_greatest_unsigned_index_is_beyond_the_end_not_before_the_start(name, dtype):
    indices = np.array([[np.iinfo(dtype).max], [0], [2]], dtype)
    updates = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    found = run_text(window_scatter(name), np.zeros(6, np.float32), indices, updates)
    assert found[0].tolist() == [3, 4, 5, 6, 0, 0]
    gather = f"""HloModule m
ENTRY e {{
  a = f32[6] parameter(0)
  i = {name}[3,1] parameter(1)
  ROOT r = f32[3,2] gather(a, i), offset_dims={{1}}, collapsed_slice_dims={{}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{2}}
}}"""
    found = run_text(gather, np.arange(6, dtype=np.float32), indices)
    assert found[0].tolist() == [[4, 5], [0, 1], [2, 3]]


def test_updates_collide_in_the_order_of_index_vectors_not_of_the_update_array():
    text = window_scatter("s32", "f32[2,3]", window=0)
    indices = np.array([[0], [1], [3]], np.int32)
    updates = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    found = check_text(text, np.zeros(6, np.float32), indices, updates)
    assert found[0].tolist() == [1, 2, 5, 3, 6, 0]  # at 1, index vector 1 (2.) comes after 0 (4.)


def test_scatter_of_two_arrays_keeps_them_in_step():
    text = """HloModule m
c {
  x = f32[] parameter(0)
  n = s32[] parameter(1)
  y = f32[] parameter(2)
  k = s32[] parameter(3)
  g = pred[] compare(y, x), direction=GT
  v = f32[] select(g, y, x)
  w = s32[] select(g, k, n)
  ROOT t = (f32[], s32[]) tuple(v, w)
}
ENTRY e {
  a = f32[5] parameter(0)
  b = s32[5] parameter(1)
  i = s32[40,1] parameter(2)
  u = f32[40] parameter(3)
  v = s32[40] iota(), iota_dimension=0
  ROOT r = (f32[5], s32[5]) scatter(a, b, i, u, v), update_window_dims={},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c
}"""
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 4, (40, 1)).astype(np.int32)
    updates = rng.normal(size=40).astype(np.float32)
    best, places = run_text(
        text, np.full(5, -9, np.float32), np.full(5, -1, np.int32), indices, updates
    )
    for k in range(4):
        of_k = np.flatnonzero(indices[:, 0] == k)
        assert places[k] == of_k[np.argmax(updates[of_k])]
        assert best[k] == updates[places[k]]
    assert (best[4], places[4]) == (-9, -1)


def scalar_scatter(element_type, count, operation):
    return f"""HloModule m
c {{
  p = {element_type}[] parameter(0)
  q = {element_type}[] parameter(1)
  ROOT r = {element_type}[] {operation}
}}
ENTRY e {{
  a = {element_type}[3] parameter(0)
  i = s32[{count},1] parameter(1)
  u = {element_type}[{count}] parameter(2)
  ROOT r = {element_type}[3] scatter(a, i, u), update_window_dims={{}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c
}}"""


def test_narrow_floats_round_after_each_update():
    count = 1000
    indices = np.zeros((count, 1), np.int32)
    ones = np.ones(count, ml_dtypes.bfloat16)
    found = run_text(
        scalar_scatter("bf16", count, "add(p, q)"), np.zeros(3, ml_dtypes.bfloat16), indices, ones
    )
    assert found[0].tolist() == [256, 0, 0]  # 256 + 1 rounds to 256 with 8 bits


def test_four_bit_integers_wrap_around():
    indices = np.array([[1], [1], [2]], np.int32)
    updates = np.array([7, 2, -3], ml_dtypes.int4)
    found = run_text(
        scalar_scatter("s4", 3, "add(p, q)"), np.zeros(3, ml_dtypes.int4), indices, updates
    )
    assert found[0].astype(int).tolist() == [0, -7, -3]


def test_no_updates_and_empty_operands():
    indices = np.zeros((0, 1), np.int32)
    operand = np.arange(3, dtype=np.float32)
    text = scalar_scatter("f32", 0, "add(p, q)")
    found = run_text(text, operand, indices, np.zeros(0, np.float32))
    np.testing.assert_array_equal(found[0], operand)
    found = run_text(
        """HloModule m
ENTRY e {
  a = f32[0,4] parameter(0)
  i = s32[2,1] parameter(1)
  ROOT r = f32[2,0,4] gather(a, i), offset_dims={1,2}, collapsed_slice_dims={},
    start_index_map={0}, index_vector_dim=1, slice_sizes={0,4}
}""",
        np.zeros((0, 4), np.float32),
        np.zeros((2, 1), np.int32),
    )
    assert found[0].shape == (2, 0, 4)
