"""Functions of all fixed-point numbers of 16 bits beside those of the reals they stand for."""

import numpy as np
import pytest

from lowtide import evaluate
from lowtide.builder import Builder
from lowtide.frontend.tflite import fixed_point
from lowtide.ir import ElementType, array_shape

NUMBERS = np.arange(-(1 << 15), 1 << 15, dtype=np.int32)
ONE = 1 << 15


def values(function, bits, numbers=NUMBERS):
    b = Builder("function")
    given = b.parameter(0, array_shape(ElementType.S32, numbers.shape), "x")
    module = b.build(function(b, given, bits))
    return np.asarray(evaluate(module, [numbers]))


def reals(bits, numbers=NUMBERS):
    return numbers * 2.0 ** (bits - 15)


@pytest.mark.parametrize("bits", range(7))
def test_tangents(bits):
    found = values(fixed_point.tangent, bits)
    assert np.abs(found - ONE * np.tanh(reals(bits))).max() < 24
    np.testing.assert_array_equal(found[1:], -found[:0:-1])
    assert np.abs(found).max() < ONE


@pytest.mark.parametrize("bits", range(1, 7))
def test_logistic_functions(bits):
    found = values(fixed_point.logistic, bits)
    assert np.abs(found - ONE / (1 + np.exp(-reals(bits)))).max() < 24
    np.testing.assert_array_equal(found[1:] + found[:0:-1], np.where(NUMBERS[1:], ONE - 1, ONE))
    assert 0 <= found.min() <= found.max() < ONE


@pytest.mark.parametrize("bits", range(1, 8))
def test_exponentials(bits):
    numbers = NUMBERS[NUMBERS <= 0]
    found = values(fixed_point.exponential, bits, numbers)
    assert np.abs(found - ONE * np.exp(reals(bits, numbers))).max() < 24
    assert 0 <= found.min() <= found.max() < ONE
