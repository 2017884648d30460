"""Numbers of an array are written as each of them is by itself."""

import numpy as np
import pytest

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Literal, float_text
from lowtide.ir.shape import array_shape

FLOATING = [x for x in ElementType if x.is_floating]


@pytest.mark.parametrize("type_", FLOATING, ids=str)
def test_floating_point_numbers_of_an_array(type_):
    dtype = np.dtype(DTYPES[type_])
    random = np.random.default_rng(3)
    raw = random.integers(0, 256, (512, dtype.itemsize), np.uint8)
    if type_.bits < 8:
        raw &= (1 << type_.bits) - 1
    known = [0.0, 1.0, 0.5, 1.5, 2.0, 1 / 3]
    if type_ in (ElementType.F32, ElementType.F64):
        limits = np.finfo(dtype)
        known += [-0.0, np.inf, -np.inf, np.nan, limits.max, limits.min, limits.tiny]
    values = np.concatenate([raw.reshape(-1).view(dtype), np.array(known).astype(dtype)])
    literal = Literal(array_shape(type_, values.shape), values)
    want = [float_text(x, type_) for x in values]
    assert literal.text(large=True) == "{" + ", ".join(want) + "}"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_whole_numbers_of_an_array(dtype):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, 0, 1, limits.max], dtype)
    type_ = next(x for x in ElementType if DTYPES.get(x) == dtype)
    text = Literal(array_shape(type_, (4,)), values).text(large=True)
    assert text == "{" + ", ".join([str(int(x)) for x in values]) + "}"
