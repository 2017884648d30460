"""Fixed-point arithmetic of quantized operators, with the roundings of TFLite's reference kernels.

A factor is an integer of 32 bits, taken as a part of 2^31, and a power of two. Products are rounded
to 32 bits, then shifted right and rounded again; halves go away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.builder import Builder, Op
from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

Numbers: TypeAlias = npt.NDArray[np.int64]

_POINT: Final = 31
_LEAST_SHIFT: Final = -31
_HALF_BITS: Final = 15
_MOST_HALF: Final = 0x7FFF0000


@dataclass(frozen=True, slots=True)
class Factor:
    """A real factor as `mantissa` / 2^31 times 2^`shift`."""

    mantissa: int
    shift: int


def factor_of(real: float) -> Factor:
    """Return the factor nearest to a real number."""
    if not real:
        return Factor(0, 0)
    fraction, shift = math.frexp(real)
    mantissa = math.floor(abs(fraction) * (1 << _POINT) + 0.5)
    if mantissa == 1 << _POINT:
        mantissa, shift = mantissa // 2, shift + 1
    if shift < _LEAST_SHIFT:
        return Factor(0, 0)
    return Factor(mantissa if real > 0 else -mantissa, shift)


def over_count(factor: Factor, count: int) -> Factor:
    """Return a factor over a count of numbers, with as many bits of it as there is room for."""
    bits = min(count.bit_length() - 1, 32, 31 + factor.shift)
    return Factor((factor.mantissa << bits) // count, factor.shift - bits)


def times(x: Numbers, factor: Factor) -> Numbers:
    """Return integers times a factor, rounded as `scaled` does."""
    wide = (x << max(factor.shift, 0)) * factor.mantissa
    nudged = wide + np.where(wide >= 0, 1 << 30, 1 - (1 << 30))
    high = np.sign(nudged) * (np.abs(nudged) >> _POINT)
    return halved(high, max(-factor.shift, 0))


def halved(x: Numbers, bits: int) -> Numbers:
    """Return integers over a power of two; halves go away from zero."""
    mask = (1 << bits) - 1
    return (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))


def scaled(b: Builder, x: Op, factors: Sequence[Factor]) -> Op:
    """Return 32-bit numbers times factors: one, or one for each element of the last dimension."""
    mantissa = _along(b, x, [f.mantissa for f in factors])
    left = _along(b, x, [max(f.shift, 0) for f in factors])
    right = _along(b, x, [max(-f.shift, 0) for f in factors])
    wide = b.shift_left(b.convert(x, ElementType.S64), left) * mantissa
    nudge = b.select(wide.ge(0), _like(b, wide, 1 << 30), _like(b, wide, 1 - (1 << 30)))
    high = (wide + nudge) / _like(b, wide, 1 << _POINT)
    mask = b.shift_left(_like(b, wide, 1), right) - 1
    rest = b.and_(high, mask)
    threshold = b.shift_right_arithmetic(mask, _like(b, wide, 1))
    threshold = threshold + b.convert(high.lt(0), ElementType.S64)
    shifted = b.shift_right_arithmetic(high, right)
    found = shifted + b.convert(rest.gt(threshold), ElementType.S64)
    return b.convert(found, ElementType.S32)


def scaled_sums(b: Builder, x: Op, factors: Sequence[Factor]) -> Op:
    """Return 64-bit sums times factors of 16 bits, as kernels with 16-bit activations have it."""
    halves = [
        0x7FFF if f.mantissa >= _MOST_HALF else (f.mantissa + (1 << 15)) >> 16 for f in factors
    ]
    shifts = [_HALF_BITS - f.shift for f in factors]
    half = _along(b, x, halves)
    rounding = _along(b, x, [1 << (s - 1) for s in shifts])
    wide = b.convert(x, ElementType.S64) * half + rounding
    return b.convert(b.shift_right_arithmetic(wide, _along(b, x, shifts)), ElementType.S32)


def _like(b: Builder, x: Op, value: int) -> Op:
    return b.broadcast(b.constant(value, ElementType.S64), x.dimensions, [])


def _along(b: Builder, x: Op, values: Sequence[int]) -> Op:
    """Numbers for all elements of x: one, or those of the last dimension."""
    if len(values) == 1:
        return _like(b, x, values[0])
    vector = b.constant(np.array(values, np.int64))
    return b.broadcast(vector, x.dimensions, [x.rank - 1])
