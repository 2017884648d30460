import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluator.against_xla import check_text, run_text

from lowtide.evaluator.data_movement import padded
from lowtide.ir import UnsupportedOpError


def one(text, *arguments):
    (result,) = run_text(f"HloModule m\nENTRY e {{\n{text}\n}}", *arguments)
    return result


def test_broadcast_places_the_dimensions_of_the_operand():
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    found = one(
        """p = s32[2,3] parameter(0)
        ROOT r = s32[3,4,2] broadcast(p), dimensions={2,0}""",
        x,
    )
    np.testing.assert_array_equal(found, np.broadcast_to(x.T[:, None, :], (3, 4, 2)))


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(-4, 4), st.integers(-4, 4), st.integers(0, 2)),
        min_size=1,
        max_size=3,
    )
)
def test_padding_places_each_element_or_drops_it(dimensions):
    sizes = [size for size, *_ in dimensions]
    array = np.arange(1, np.prod(sizes) + 1).reshape(sizes)
    found = padded(array, [tuple(d[1:]) for d in dimensions], np.array(0))
    expected = np.zeros(
        [max(0, n + max(n - 1, 0) * i + low + high) for n, low, high, i in dimensions], int
    )
    for index in np.ndindex(*sizes):
        place = [low + k * (i + 1) for k, (_, low, _, i) in zip(index, dimensions, strict=True)]
        if all(0 <= k < n for k, n in zip(place, expected.shape, strict=True)):
            expected[tuple(place)] = array[index]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("element_type", ["s4", "bf16", "pred", "c64"])
def test_padding_of_any_type(element_type):
    x = {"s4": ml_dtypes.int4, "bf16": ml_dtypes.bfloat16, "pred": bool, "c64": np.complex64}
    check_text(
        f"""HloModule m
    ENTRY e {{
      p = {element_type}[2,3] parameter(0)
      z = {element_type}[] parameter(1)
      ROOT r = {element_type}[3,6] pad(p, z), padding=1_0x-1_2_1
    }}""",
        np.array([[0, 1, 0], [1, 1, 0]]).astype(x[element_type]),
        np.array(1).astype(x[element_type]),
    )


@pytest.mark.parametrize("start", [(-5, 0), (1, 2), (9, 9), (-(2**31), 2**31 - 1)])
def test_dynamic_slices_are_moved_inside(start):
    check_text(
        """HloModule m
    ENTRY e {
      p = f32[4,5] parameter(0)
      u = f32[2,3] parameter(1)
      i = s32[] parameter(2)
      j = s32[] parameter(3)
      s = f32[2,3] dynamic-slice(p, i, j), dynamic_slice_sizes={2,3}
      d = f32[4,5] dynamic-update-slice(p, u, i, j)
      ROOT t = (f32[2,3], f32[4,5]) tuple(s, d)
    }""",
        np.arange(20, dtype=np.float32).reshape(4, 5),
        np.ones((2, 3), np.float32),
        *[np.array(x, np.int32) for x in start],
    )


def test_unsigned_start_indices_beyond_the_end_are_moved_inside():
    found = one(
        """p = s32[4] parameter(0)
        i = u64[] parameter(1)
        ROOT r = s32[2] dynamic-slice(p, i), dynamic_slice_sizes={2}""",
        np.arange(4, dtype=np.int32),
        np.array(2**64 - 1, np.uint64),
    )
    assert found.tolist() == [2, 3]


def test_an_update_leaves_its_operand_as_it_was():
    x = np.zeros(3, np.float32)
    first, second = run_text(
        """HloModule m
    ENTRY e {
      p = f32[3] parameter(0)
      u = f32[1] constant({7})
      i = s32[] constant(1)
      d = f32[3] dynamic-update-slice(p, u, i)
      ROOT t = (f32[3], f32[3]) tuple(p, d)
    }""",
        x,
    )
    assert first.tolist() == [0, 0, 0] == x.tolist()
    assert second.tolist() == [0, 7, 0]


BITCASTS = {
    "transposed": ("f32[2,3]{1,0}", "f32[3,2]{0,1}", lambda x: x.T),
    "reshaped": ("f32[2,3]{1,0}", "f32[6]{0}", lambda x: x.reshape(6)),
    "column major": ("f32[2,3]{0,1}", "f32[6]{0}", lambda x: x.T.reshape(6)),
    "both": ("f32[2,3]{0,1}", "f32[3,1,2]{2,1,0}", lambda x: x.T.reshape(3, 1, 2)),
    "same bits": ("f32[2,3]{1,0}", "s32[2,3]{1,0}", lambda x: x.view(np.int32)),
}


@pytest.mark.parametrize("name", BITCASTS)
def test_bitcast_reads_the_memory_again(name):
    source, target, expected = BITCASTS[name]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = one(f"p = {source} parameter(0)\nROOT r = {target} bitcast(p)", x)
    np.testing.assert_array_equal(found, expected(x))


def test_bitcast_of_a_tiled_layout_is_refused():
    with pytest.raises(UnsupportedOpError, match=r"bitcast .*tile"):
        one(
            """p = f32[2,4]{1,0:T(2,2)} parameter(0)
            ROOT r = f32[8]{0} bitcast(p)""",
            np.zeros((2, 4), np.float32),
        )


def test_moves_against_xla():
    check_text(
        """HloModule m
    ENTRY e {
      p = f32[2,3,4] parameter(0)
      t = f32[4,2,3] transpose(p), dimensions={2,0,1}
      v = f32[4,2,3] reverse(t), dimensions={0,2}
      s = f32[2,1,3] slice(v), slice={[0:4:2],[1:2],[0:3]}
      c = f32[6,1,3] concatenate(s, s, s), dimensions={0}
      q = f32[3,6] reshape(c)
      i = s8[3,6] iota(), iota_dimension=1
      k = c64[3,6] iota(), iota_dimension=0
      ROOT o = (f32[3,6], s8[3,6], c64[3,6]) tuple(q, i, k)
    }""",
        np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    )


def test_dynamic_sizes_flow_through():
    text = """HloModule m
    ENTRY e {
      p = f32[6] parameter(0)
      n = s32[] parameter(1)
      d = f32[<=6] set-dimension-size(p, n), dimensions={0}
      z = f32[] constant(0)
      k = f32[] reduce(d, z), dimensions={0}, to_apply=add
      m = s32[] get-dimension-size(d), dimensions={0}
      f = s32[] constant(6)
      w = f32[6] set-dimension-size(d, f), dimensions={0}
      ROOT t = (f32[<=6], f32[], s32[], f32[6]) tuple(d, k, m, w)
    }"""
    add = """add {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b)
    }"""
    text = text.replace("ENTRY", add + "\nENTRY")
    d, k, m, w = run_text(text, np.arange(1, 7, dtype=np.float32), np.array(4, np.int32))
    assert d.tolist() == [1, 2, 3, 4]
    assert float(k) == 10
    assert int(m) == 4
    assert w.tolist() == [1, 2, 3, 4, 0, 0]


def test_dynamic_reshape_takes_its_sizes_from_operands():
    found = one(
        """p = s32[6] parameter(0)
        a = s32[] constant(2)
        b = s32[] constant(3)
        ROOT r = s32[<=2,<=3] dynamic-reshape(p, a, b)""",
        np.arange(6, dtype=np.int32),
    )
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_elementwise_operation_works_on_what_both_dynamic_operands_have():
    text = """p = f32[4] parameter(0)
    n = s32[] constant(3)
    d = f32[<=4] set-dimension-size(p, n), dimensions={0}
    c = f32[] constant(1)
    b = f32[<=4] broadcast(c), dimensions={}
    ROOT r = f32[<=4] add(d, b)"""
    assert one(text, np.zeros(4, np.float32)).tolist() == [1, 1, 1]
