"""Conversion between element types, and rounding to other precisions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.evaluator.bits import unsigned_dtype
from lowtide.evaluator.numeric import element_type_of, integer_range, narrow, widen
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array


def convert(array: Array, target: ElementType) -> Array:
    """Return the values as `target`.

    Floating point to integer rounds toward zero, stays within the range of the type, and makes 0
    of NaN; integers wrap around; everything but 0 is true; the imaginary part is dropped.
    """
    source = element_type_of(array)
    if source is target:
        return array
    values = widen(array)
    if target is ElementType.PRED:
        return np.asarray(values != 0)
    if source.is_complex and not target.is_complex:
        values = values.real
    if target.is_integer and values.dtype.kind == "f":
        return float_to_integer(values, target)
    return narrow(values, target)


def float_to_integer(values: Array, target: ElementType) -> Array:
    """Return f32 or f64 values truncated and clamped to an integer type; NaN becomes 0."""
    low, high = integer_range(target)
    below = values <= low
    above = values >= high
    inside = np.where(below | above | np.isnan(values), values.dtype.type(0), values)
    wide = np.uint64 if target is ElementType.U64 else np.int64
    whole = np.trunc(inside).astype(wide)
    whole = np.where(below, wide(low), np.where(above, wide(high), whole))
    return whole.astype(DTYPES[target])


# -- reduce-precision --------------------------------------------------------------------------

FORMATS: Final = {
    ElementType.F64: (11, 52),
    ElementType.F32: (8, 23),
    ElementType.BF16: (8, 7),
    ElementType.F16: (5, 10),
}
"""Exponent and mantissa bits of the types whose bits are rounded directly."""


def reduce_precision(array: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Return the values rounded to the nearest of a format, ties to even.

    What is too large becomes infinity, and what is below the least normal number a zero of the
    same sign; NaN stays.
    """
    element_type = element_type_of(array)
    if element_type not in FORMATS:
        rounded = reduce_precision(widen(array), exponent_bits, mantissa_bits)
        return narrow(rounded, element_type)
    exponent, mantissa = FORMATS[element_type]
    unsigned = unsigned_dtype(array.dtype.itemsize)
    bits = np.ascontiguousarray(array).view(unsigned).reshape(array.shape)
    if mantissa_bits < mantissa:
        bits = _round_mantissa(bits, mantissa - mantissa_bits)
    if exponent_bits < exponent:
        bits = _limit_exponent(bits, (exponent, mantissa), exponent_bits)
    rounded = np.asarray(bits).view(array.dtype)
    return np.where(array != array, array, rounded)


def _round_mantissa(bits: Array, dropped: int) -> Array:
    unsigned = bits.dtype.type
    last = (bits >> unsigned(dropped)) & unsigned(1)
    rounded = bits + last + unsigned((1 << (dropped - 1)) - 1)
    return np.asarray(rounded & ~unsigned((1 << dropped) - 1))


def _limit_exponent(bits: Array, own: tuple[int, int], exponent_bits: int) -> Array:
    exponent, mantissa = own
    unsigned = bits.dtype.type
    bias = (1 << (exponent - 1)) - 1
    reach = (1 << (exponent_bits - 1)) - 1
    sign = bits & unsigned(1 << (exponent + mantissa))
    biased = (bits >> unsigned(mantissa)) & unsigned((1 << exponent) - 1)
    infinity = sign | unsigned(((1 << exponent) - 1) << mantissa)
    bits = np.where(biased > bias + reach, infinity, bits)
    return np.where(biased <= bias - reach, sign, bits)


# -- stochastic-convert ------------------------------------------------------------------------


def stochastic_convert(array: Array, random: Array, target: ElementType) -> Array:
    """Return values rounded up or down with the odds of their distance, by given random bits.

    A value is rounded away from zero where the fraction beyond its neighbour toward zero, in units
    of the width of `random`, exceeds `random`. Integers are clamped to their range; NaN becomes 0.
    """
    values = widen(array).astype(np.float64)
    scale = 2.0 ** (8 * random.dtype.itemsize)
    draw = random.astype(np.float64)
    if target.is_integer:
        whole = np.trunc(values)
        away = np.floor(np.abs(values - whole) * scale) > draw
        rounded = whole + np.where(away, np.sign(values), 0.0)
        return float_to_integer(np.asarray(rounded), target)
    return _stochastic_float(values, draw / scale, target)


def _stochastic_float(values: Array, chance: Array, target: ElementType) -> Array:
    nearest = narrow(values, target)
    back = widen(nearest).astype(np.float64)
    low = _step(nearest, np.where(np.abs(back) > np.abs(values), -1, 0))
    high = _step(low, np.ones_like(back, np.int64))
    start, end = (widen(x).astype(np.float64) for x in (low, high))
    away = np.abs(values - start) > chance * np.abs(end - start)
    exact = (back == values) | ~np.isfinite(values) | ~np.isfinite(end)
    return np.where(exact, nearest, np.where(away, high, low))


def _step(array: Array, steps: Any) -> Array:
    """Return the floating point numbers `steps` places further from zero."""
    unsigned = unsigned_dtype(array.dtype.itemsize)
    bits = np.ascontiguousarray(array).view(unsigned).reshape(array.shape)
    moved = bits.astype(np.int64) + steps
    return np.asarray(moved.astype(unsigned)).view(array.dtype)
