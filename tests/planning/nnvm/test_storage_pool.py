"""Memory for storage ids: sizes by type, views, devices."""

import numpy as np
import pytest

from lowtide.planning import nnvm
from lowtide.planning.nnvm.data_types import element_bytes, lanes_of


def pool_of(*entries, ids):
    """Entries are variables (elements, dtype, device)."""
    nodes = [
        {"op": None, "inputs": [], "sizes": [size], "dtype": dtype, "device": device}
        for size, dtype, device in entries
    ]
    return nnvm.StoragePool(nnvm.read_graph({"nodes": nodes, "outputs": []}), ids)


@pytest.mark.parametrize(
    ("dtype", "nbytes", "lane", "lanes"),
    [
        (0, 4, "float32", 1),
        (1, 8, "float64", 1),
        (2, 2, "float16", 1),
        (6, 8, "int64", 1),
        ("bool", 1, "bool", 1),
        ("uint1", 1, "uint8", 1),
        ("int4", 1, "uint8", 1),
        ("int4x2", 1, "uint8", 1),
        ("int4x8", 4, "uint32", 1),
        ("float32x4", 16, "float32", 4),
        ("bfloat16", 2, "uint16", 1),
        ("float8_e4m3fn", 1, "uint8", 1),
        ("complex128", 16, "complex128", 1),
        ("int24", 3, "V3", 1),
        (np.dtype("int16"), 2, "int16", 1),
    ],
)
def test_types(dtype, nbytes, lane, lanes):
    assert element_bytes(dtype) == nbytes
    assert lanes_of(dtype) == (np.dtype(lane), lanes)


@pytest.mark.parametrize("dtype", [7, -1, "float", "int0", "real32", "float32x", "int3", "int4x3"])
def test_types_that_do_not_exist(dtype):
    with pytest.raises(ValueError, match=f"dtype {dtype!r}"):
        element_bytes(dtype)


def test_a_block_holds_its_largest_entry_by_type():
    pool = pool_of(
        (10, "float64", 0), (30, "int8", 0), (3, "float32x4", 0), (5, "int4", 0), ids=[1, 1, 3, 3]
    )
    assert pool.sizes == (0, 80, 0, 48)
    assert pool.devices == (-1, 0, -1, 0)
    assert pool.nbytes == 128
    assert [view.shape for view in pool.views] == [(10,), (30,), (3, 4), (5,)]
    assert [view.dtype for view in pool.views[:3]] == ["float64", "int8", "float32"]
    assert np.shares_memory(pool.views[0], pool.views[1])
    assert not np.shares_memory(pool.views[0], pool.views[2])
    pool.views[0][0] = np.float64(1.5)
    assert pool.views[1][:8].tobytes() == np.float64(1.5).tobytes()
    assert all(block.ctypes.data % 64 == 0 for block in pool.blocks if block.size)


def test_views_have_the_shapes_of_the_graph():
    node = {"op": None, "inputs": [], "shapes": [[2, 3, 4]], "dtype": "int16"}
    pool = nnvm.StoragePool(nnvm.read_graph({"nodes": [node], "outputs": []}), [0])
    assert pool.views[0].shape == (2, 3, 4)
    assert pool.sizes == (48,)


@pytest.mark.parametrize(
    ("entries", "ids", "message"),
    [
        ([(4, 0, 0)], [-1], r"output 0 of node 0 \(n0\) has storage id -1"),
        ([(4, 0, 0)], [-2], r"storage id -2 \(external\)"),
        ([(4, 0, 0)], [-3], r"storage id -3 \(dynamic\)"),
        ([(-1, 0, 0)], [0], "is of unknown size"),
        ([(4, 0, 0), (4, 0, 1)], [2, 2], "lies on device 1, others with storage id 2 on device 0"),
        ([(4, 0, 0)], [0, 1], "2 storage ids for 1 entries"),
        ([(4, 99, 0)], [0], "unknown dtype 99"),
    ],
)
def test_what_has_no_memory(entries, ids, message):
    with pytest.raises(ValueError, match=message):
        pool_of(*entries, ids=ids)
