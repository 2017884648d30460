import numpy as np
import pytest

from lowtide.checking.tolerances import (
    assert_close,
    assert_values_close,
    tolerance,
    worst_difference,
)
from lowtide.evaluator.values import TOKEN
from lowtide.ir import TOKEN as TOKEN_SHAPE
from lowtide.ir import ElementType, array_shape, tuple_shape
from lowtide.ir.element_type import BITS
from lowtide.ir.literal import DTYPES

E = ElementType


def arrays(element_type, *values):
    return [np.array(x).astype(DTYPES[element_type]) for x in values]


def test_each_element_type_has_its_tolerance():
    for element_type in BITS:
        inexact = element_type.is_floating or element_type.is_complex
        assert (tolerance(element_type) > 0) is inexact, element_type


@pytest.mark.parametrize(
    ("element_type", "got", "expected"),
    [
        (E.F32, [1.000001, 2], [1, 2]),
        (E.F32, [1e-7, 1], [0, 1]),
        (E.F32, [np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf]),
        (E.F32, [1e-40], [0]),
        (E.F64, [1e-310], [0]),
        (E.BF16, [1.01], [1]),
        (E.F8E4M3FN, [1.125], [1]),
        (E.C64, [1 + 1e-7j], [1]),
        (E.S32, [2**31 - 1], [2**31 - 1]),
        (E.U4, [15, 0], [15, 0]),
        (E.F32, np.zeros((0, 3)), np.zeros((0, 3))),
        (E.PRED, True, True),
    ],
)
def test_what_is_close(element_type, got, expected):
    assert_close(*arrays(element_type, got, expected), element_type)


@pytest.mark.parametrize(
    ("element_type", "got", "expected", "index", "count"),
    [
        (E.F32, [1, 2.001, 3.1], [1, 2, 3], (2,), 2),
        (E.F32, [[1, np.nan]], [[1, 2]], (0, 1), 1),
        (E.F32, [np.inf, 5], [-np.inf, 4], (0,), 2),
        (E.F32, [np.inf], [3e38], (0,), 1),
        (E.F64, [1 + 1e-9], [1], (0,), 1),
        (E.C64, [1, 1j], [1, -1j], (1,), 1),
        (E.S64, [2**53 + 1], [2**53], (0,), 1),
        (E.U64, [2**64 - 1, 0], [0, 0], (0,), 1),
        (E.S2, [-2], [1], (0,), 1),
        (E.PRED, False, True, (), 1),
    ],
)
def test_what_is_not_close(element_type, got, expected, index, count):
    if element_type in (E.S64, E.U64):
        pair = [np.array(x, DTYPES[element_type]) for x in (got, expected)]
    else:
        pair = arrays(element_type, got, expected)
    found = worst_difference(*pair, element_type)
    assert found is not None
    assert (found.index, found.count) == (index, count)
    with pytest.raises(AssertionError, match=r"result: .* worst at"):
        assert_close(*pair, element_type)


def test_the_message_names_place_and_values():
    with pytest.raises(AssertionError) as caught:
        assert_close(*arrays(E.F32, [[1, 2], [3, 5]], [[1, 2], [3, 4]]), E.F32, what="output 1")
    assert str(caught.value) == (
        "output 1: 1 elements differ; worst at [1, 1]: got 5.0, expected 4.0, 1 apart where 4e-05 "
        "is allowed"
    )


def test_a_factor_widens_the_tolerance():
    pair = arrays(E.F32, [1.001], [1])
    assert worst_difference(*pair, E.F32) is not None
    assert worst_difference(*pair, E.F32, factor=1000) is None


def test_shapes_and_types_must_agree():
    with pytest.raises(ValueError, match=r"got float32\[2\], expected float32\[3\] of f32"):
        assert_close(np.zeros(2, np.float32), np.zeros(3, np.float32), E.F32)
    with pytest.raises(ValueError, match="got float64"):
        assert_close(np.zeros(2), np.zeros(2, np.float32), E.F32)


def test_values_are_compared_leaf_by_leaf():
    shape = tuple_shape([array_shape(E.S32), tuple_shape([TOKEN_SHAPE, array_shape(E.F32)])])
    one, two = np.int32(1), np.float32(2)
    assert_values_close((one, (TOKEN, two)), (one, (TOKEN, two)), shape)
    with pytest.raises(AssertionError, match=r"result\[1\]\[1\]: 1 elements differ"):
        assert_values_close((one, (TOKEN, two)), (one, (TOKEN, np.float32(3))), shape)
