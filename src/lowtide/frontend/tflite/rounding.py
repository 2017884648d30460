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
from lowtide.frontend.tflite.magnitude import magnitude
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.records import dataclass

Numbers: TypeAlias = npt.NDArray[np.int64]

_POINT: Final = 31
_HALF: Final = 1 << 30
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
    if shift > _POINT:
        mantissa, shift = (1 << _POINT) - 1, _POINT
    return Factor(mantissa if real > 0 else -mantissa, shift)


def over_count(factor: Factor, count: int) -> Factor:
    """Return a factor over a count of numbers, with as many bits of it as there is room for."""
    bits = min(count.bit_length() - 1, 32, 31 + factor.shift)
    return Factor((factor.mantissa << bits) // count, factor.shift - bits)


def times(x: Numbers, factor: Factor) -> Numbers:
    """Return integers times a factor, rounded as `scaled` does."""
    wide = (x << max(factor.shift, 0)) * factor.mantissa
    return halved((wide + _HALF) >> _POINT, max(-factor.shift, 0))


def halved(x: Numbers, bits: int) -> Numbers:
    """Return integers over a power of two; halves go away from zero."""
    mask = (1 << bits) - 1
    return (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))


def scaled(b: Builder, x: Op, factors: Sequence[Factor]) -> Op:
    """Return 32-bit numbers times factors: one, or one for each element of the last dimension.

    The product over 2^31 is rounded first; its halves go up, which is what kernels come to that add
    to negative products a nudge of their own. All is done in 32 bits if the numbers let it.
    """
    left = [max(f.shift, 0) for f in factors]
    right = [max(-f.shift, 0) for f in factors]
    mantissas = [f.mantissa for f in factors]
    most = (magnitude(x.instruction) << max(left)) + (1 << max(right) >> 1)
    if 2 * most >= 1 << _POINT:
        wide = b.convert(x, ElementType.S64) * _along(b, x, mantissas)
        wide = wide + _along(b, x, [_HALF >> n for n in left])
        high = b.shift_right_arithmetic(wide, _along(b, x, [_POINT - n for n in left]))
        return b.convert(_over_powers(b, high, right), ElementType.S32)
    type_ = ElementType.S32
    x = x * _along(b, x, [2 << n for n in left], type_)
    mantissa = _along(b, x, mantissas, type_)
    below = b.shift_right_logical(x * mantissa, _along(b, x, [_POINT], type_))
    return _over_powers(b, b.mulhi(x, mantissa) + below, right)


def _over_powers(b: Builder, x: Op, bits: Sequence[int]) -> Op:
    """Integers over powers of two; halves go away from zero."""
    if not any(bits):
        return x
    type_ = x.element_type
    signs = b.shift_right_arithmetic(x, _along(b, x, [type_.bits - 1], type_))
    if not all(bits):
        signs = b.and_(signs, _along(b, x, [-int(n > 0) for n in bits], type_))
    more = _along(b, x, [1 << n >> 1 for n in bits], type_)
    return b.shift_right_arithmetic(x + more + signs, _along(b, x, bits, type_))


def scaled_upward(b: Builder, x: Op, factor: Factor) -> Op:
    """Return 32-bit numbers times a factor, rounded twice as `scaled`, but halves go up both times.

    Kernels of TFLite that hand products of matrices to a library round so.
    """
    left, right = max(factor.shift, 0), max(-factor.shift, 0)
    wide = b.convert(x, ElementType.S64) * (factor.mantissa << left) + _HALF
    high = b.shift_right_arithmetic(wide, _along(b, x, [_POINT])) + (1 << right >> 1)
    return b.convert(b.shift_right_arithmetic(high, _along(b, x, [right])), ElementType.S32)


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


def _along(b: Builder, x: Op, values: Sequence[int], type_: ElementType = ElementType.S64) -> Op:
    """Numbers for all elements of x: one, or those of the last dimension."""
    if len(set(values)) == 1:
        return b.broadcast(b.constant(values[0], type_), x.dimensions, [])
    vector = b.constant(np.array(values, DTYPES[type_]))
    return b.broadcast(vector, x.dimensions, [x.rank - 1])
