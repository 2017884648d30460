"""Tables of quantized functions that TFLite computes in fixed point, not by floats."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.lookup import numbers_of
from lowtide.frontend.tflite.node import QUANTIZED, LiteNode
from lowtide.frontend.tflite.rounding import Factor, factor_of, halved, times

Numbers = npt.NDArray[np.int64]

_RAISED: Final = 0x800000000000000000000000000000800011009020440005C0467BAEFA7BD110
"""Bit k says that entry k of TFLite's table is one more than the nearest number."""


def _sigmoid_table() -> Numbers:
    """The logistic function from 0 on, in steps of 1/24, over 2^16."""
    nearest = np.floor(65536 / (1 + np.exp(-np.arange(257) / 24)) + 0.5)
    off = [_RAISED >> k & 1 for k in range(257)]
    return np.asarray(np.minimum(nearest.astype(np.int64) + off, 65535))


_SIGMOID: Final = _sigmoid_table()
_MOST: Final = 32767


def squashed_16(node: LiteNode, name: str) -> Numbers:
    """Return LOGISTIC or TANH of all 16-bit numbers: entries of a table, and lines between them."""
    scale = float(quantized.scale_of(node, node.tensor(0)))
    multiplier, shift = _sixteenth(scale, 0 if name == "LOGISTIC" else 1)
    x = (numbers_of("INT16") * multiplier + ((1 << shift) >> 1)) >> shift
    return (_logistic_16 if name == "LOGISTIC" else _tanh_16)(x)


def _sixteenth(scale: float, most: int) -> tuple[int, int]:
    """The factor that brings numbers to 1/(3 * 4096), and by how many bits its products go down."""
    fraction, exponent = np.frexp(scale)
    left = int(exponent) - 1 + 12
    if fraction == 0.5 and 0 <= left <= most:
        return 3 << left, 0
    multiplier, shift = scale * 4096 * 3, 0
    while multiplier <= _MOST / 2 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    return int(multiplier), shift


def _logistic_16(x: Numbers) -> Numbers:
    size = np.abs(x)
    place, rest = np.minimum(size >> 9, 255), size & 511
    above = _SIGMOID[place + 1]
    value = (_SIGMOID[place] << 9) + rest * (above - _SIGMOID[place])
    value = np.where(size >> 9 >= 255, _MOST << 10, value)
    return np.where(x >= 0, value + 512, (1 << 25) - value + 511) >> 10


def _tanh_16(x: Numbers) -> Numbers:
    size = np.abs(x)
    place, rest = np.minimum(size >> 8, 255), size & 255
    above = _SIGMOID[place + 1]
    value = (_SIGMOID[place] << 8) + rest * (above - _SIGMOID[place])
    value = np.where(size >> 8 >= 255, 65535 << 8, value)
    middle = 1 << 23
    return np.where(x >= 0, value - middle + 128, middle - value + 127) >> 8


def hard_swish(node: LiteNode) -> Numbers:
    """Return x times a ramp from 0 to 1 of all 8-bit numbers x, in 16-bit fixed point."""
    given, made = node.tensor(0), node.made
    fine = np.float32(1 / 128) * quantized.scale_of(node, given)
    over = _short(factor_of(float(fine / quantized.scale_of(node, made))))
    ramp = _short(factor_of(float(fine / (np.float32(3) / np.float32(32768)))))
    x = (numbers_of(given.type) - quantized.zero_of(given)) << 7
    slope = x
    if ramp.shift > 0:
        slope = _within(slope << (ramp.shift - 1))
    slope = _high(slope, ramp.mantissa)
    if ramp.shift > 0:
        slope = _within(slope << 1)
    if ramp.shift < 0:
        slope = halved(slope, -ramp.shift)
    part = (slope + (1 << 15)) >> 1
    product = part * _high(x, over.mantissa)
    found: Numbers = np.sign(product) * (np.abs(product) >> 15)
    if over.shift > 0:
        raise node.refusal("its result has a scale that is too small")
    low, high = QUANTIZED[made.type]
    return np.clip(halved(found, -over.shift) + quantized.zero_of(made), low, high)


def _short(factor: Factor) -> Factor:
    """A factor whose mantissa has 16 bits."""
    return Factor(min((factor.mantissa + (1 << 15)) >> 16, _MOST), factor.shift)


def _high(x: Numbers, y: int) -> Numbers:
    """16-bit numbers times one, over 2^15, rounded."""
    product = x * y
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.asarray(np.minimum(np.sign(nudged) * (np.abs(nudged) >> 15), _MOST))


def _within(x: Numbers) -> Numbers:
    return np.clip(x, -_MOST - 1, _MOST)


def absolute(node: LiteNode) -> Numbers:
    """Return the magnitudes of all numbers in the scale of the result."""
    given = node.tensor(0)
    return _rescaled(node, np.abs(numbers_of(given.type) - quantized.zero_of(given)), 1.0)


def negative(node: LiteNode) -> Numbers:
    """Return all numbers with the other sign; the least one, which has none, stays as it is.

    Raises GraphError for several scales and for a zero point.
    """
    quantized.require_same(node, 1)
    if quantized.zero_of(node.made):
        raise node.refusal(f"its zero point is {quantized.zero_of(node.made)}, not 0")
    return -numbers_of(node.tensor(0).type)


def root(node: LiteNode) -> Numbers:
    """Return the square roots of all numbers, cut off to whole ones; 0 for those below 0."""
    given, made = node.tensor(0), node.made
    x = np.maximum(numbers_of(given.type) - quantized.zero_of(given), 0).astype(np.float32)
    found = np.sqrt(x * quantized.scale_of(node, given)) / quantized.scale_of(node, made)
    low, high = QUANTIZED[made.type]
    return np.asarray(np.clip(found.astype(np.int64) + quantized.zero_of(made), low, high))


def leaky(node: LiteNode, alpha: float) -> Numbers:
    """Return numbers in the scale of the result, those below zero times alpha."""
    given = node.tensor(0)
    x = numbers_of(given.type) - quantized.zero_of(given)
    return np.where(x >= 0, _rescaled(node, x, 1.0), _rescaled(node, x, alpha))


def _rescaled(node: LiteNode, x: Numbers, factor: float) -> Numbers:
    """Numbers without zero point times a factor, in the scale of the result, within its ends."""
    scales = [quantized.scale_of(node, y) for y in (node.tensor(0), node.made)]
    low, high = QUANTIZED[node.made.type]
    real = float(scales[0]) * factor / float(scales[1])
    return np.clip(times(x, factor_of(real)) + quantized.zero_of(node.made), low, high)
