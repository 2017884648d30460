"""Fixed-point arithmetic of quantized operators, with the roundings of TFLite's reference kernels.

A factor is an integer of 32 bits, taken as a part of 2^31, and a power of two. Products are rounded
to 32 bits, then shifted right and rounded again; halves go away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from lowtide.builder import Builder, Op
from lowtide.frontend.tflite.ranges import range_of
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.records import dataclass

Numbers: TypeAlias = npt.NDArray[np.int64]
_Exact = TypeVar("_Exact", int, Numbers)
_Item = TypeVar("_Item")

_POINT: Final = 31
_HALF: Final = 1 << 30
_LEAST_SHIFT: Final = -31
_FREE_BITS: Final = 29
_MOST_SHIFT: Final = 29
"""Four times a number of these bits has 32 with its sign; so has the sum of a product over 2^30 and
of half the unit that it is shifted to."""

_MOST: Final = (1 << 31) - 1
_ANY: Final = (1 << 63) - 1
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


def times(x: _Exact, factor: Factor) -> _Exact:
    """Return integers times a factor, rounded as `scaled` does."""
    wide = (x << max(factor.shift, 0)) * factor.mantissa
    return halved((wide + _HALF) >> _POINT, max(-factor.shift, 0))


def halved(x: _Exact, bits: int) -> _Exact:
    """Return integers over a power of two; halves go away from zero."""
    mask = (1 << bits) - 1
    return (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))


def scaled(
    b: Builder, x: Op, factors: Sequence[Factor], ends: tuple[int, int] | None = None, zero: int = 0
) -> Op:
    """Return 32-bit numbers times factors (one, or one for each element of the last dimension).

    The product over 2^31 is rounded first; its halves go up, which is what kernels come to that add
    to negative products a nudge of their own. All is done in 32 bits if the numbers let it.
    `zero` is added. Results beyond `ends` (both included, without `zero`) may be anything beyond
    them on that side.
    """
    given = range_of(x.instruction)
    count = max(len(factors), len(given.low))
    low, high = (_repeated(list(y), count) for y in (given.low, given.high))
    every = _repeated(factors, count)
    steps = [_step(*numbers, ends) for numbers in zip(low, high, every, strict=True)]
    known = [step for step in steps if step is not None]
    if len(known) == count:
        return _in_steps(b, x, known, zero)
    left = [max(f.shift, 0) for f in factors]
    right = [max(-f.shift, 0) for f in factors]
    wide = b.convert(x, ElementType.S64) * _along(b, x, [f.mantissa for f in factors])
    wide = wide + _along(b, x, [_HALF >> n for n in left])
    upper = b.shift_right_arithmetic(wide, _along(b, x, [_POINT - n for n in left]))
    found = b.convert(_over_powers(b, upper, right), ElementType.S32)
    return found + zero if zero else found


def _repeated(items: Sequence[_Item], count: int) -> list[_Item]:
    return list(items) * count if len(items) == 1 else list(items)


@dataclass(frozen=True, slots=True)
class _Step:
    """How a number of 32 bits is scaled in 32 bits.

    With w = `x * widening` and h the upper half of `w * mantissa`, the result is
    `(h + added - (2 if w < 0 and is_signed else 0)) >> bits`. No sum is beyond `most`.

    The widening is 4 at least, so h is the product over 2^30 without its fraction. The product over
    2^31 is (h + 1) >> 1 when it is rounded, and all that is added to it before it is shifted again
    is a multiple of its unit: so both shifts are one. Where it is 0 its sign does not matter. Nor
    does it where results below 0 are beyond the end. Of a power of two as the mantissa, h is a
    fourth of w.
    """

    widening: int
    mantissa: int
    added: int
    bits: int
    is_signed: bool
    most: int


def _step(low: int, high: int, factor: Factor, ends: tuple[int, int] | None) -> _Step | None:
    """How numbers between two, both included, are scaled in 32 bits; None where they cannot be.

    Numbers that all give one result need no product.
    """
    left, right = max(factor.shift, 0), max(-factor.shift, 0)
    most, mantissa = max(-low, high + 1) << left, abs(factor.mantissa)
    if mantissa and most < 1 << _FREE_BITS and right <= _MOST_SHIFT:
        widening = 4 << left if factor.mantissa > 0 else -4 << left
        added = 1 + (1 << right if right else 0)
        is_signed = right > 0 and (ends is None or ends[0] < 0)
        highest = (most * mantissa >> _POINT - 1) + added + 2
        return _Step(widening, mantissa, added, right + 1, is_signed, highest)
    results = [_within(times(n, factor), ends) for n in (low, high)]
    if results[0] != results[1] or abs(results[0]) >= 1 << _FREE_BITS - 2:
        return None
    added = 4 * results[0] + 2
    return _Step(4, 0, added, 2, is_signed=False, most=abs(added) + 2)


def _within(x: int, ends: tuple[int, int] | None) -> int:
    return x if ends is None else max(min(x, ends[1]), ends[0])


def _in_steps(b: Builder, x: Op, steps: Sequence[_Step], zero: int) -> Op:
    """Numbers scaled in 32 bits: by one step, or one for each element of the last dimension."""
    type_ = ElementType.S32
    fits = all(s.most + (abs(zero) << s.bits) < 1 << _POINT for s in steps)
    within = zero if fits else 0
    if all(s.mantissa == _HALF for s in steps):
        wide = found = x * _along(b, x, [s.widening // 4 for s in steps], type_)
    else:
        wide = x * _along(b, x, [s.widening for s in steps], type_)
        found = b.mulhi(wide, _along(b, x, [s.mantissa for s in steps], type_))
    found = found + _along(b, x, [s.added + (within << s.bits) for s in steps], type_)
    if any(s.is_signed for s in steps):
        signs = b.shift_right_arithmetic(wide, _along(b, x, [_POINT], type_))
        twice = [-2 if s.is_signed or not s.mantissa else 0 for s in steps]
        found = found + b.and_(signs, _along(b, x, twice, type_))
    found = b.shift_right_arithmetic(found, _along(b, x, [s.bits for s in steps], type_))
    return found if fits else found + zero


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
    """Return 64-bit sums times factors of 16 bits, as kernels with 16-bit activations have it.

    Kernels say nothing of factors of 2^15 or more, by which all sums but -1, 0 and 1 are beyond 16
    bits: there is nothing to round, and what is beyond 32 bits is the end on that side.
    """
    halves = [
        0x7FFF if f.mantissa >= _MOST_HALF else (f.mantissa + (1 << 15)) >> 16 for f in factors
    ]
    shifts = [_HALF_BITS - f.shift for f in factors]
    half = _along(b, x, halves)
    rounding = _along(b, x, [1 << s >> 1 if s > 0 else 0 for s in shifts])
    sums = b.convert(x, ElementType.S64)
    are_large = [s <= 0 for s in shifts]
    if any(are_large):
        sums = _between(b, sums, 1 << _HALF_BITS, are_large)
    wide = b.shift_right_arithmetic(
        sums * half + rounding, _along(b, x, [max(s, 0) for s in shifts])
    )
    if any(are_large):
        wide = b.shift_left(wide, _along(b, x, [max(-s, 0) for s in shifts]))
        wide = _between(b, wide, _MOST, are_large)
    return b.convert(wide, ElementType.S32)


def _between(b: Builder, x: Op, most: int, held: Sequence[bool]) -> Op:
    """64-bit numbers that are at most `most` from 0 in the channels that are held to it."""
    ends = [most if is_held else _ANY for is_held in held]
    return b.maximum(b.minimum(x, _along(b, x, ends)), _along(b, x, [-end for end in ends]))


def _along(b: Builder, x: Op, values: Sequence[int], type_: ElementType = ElementType.S64) -> Op:
    """Numbers for all elements of x: one, or those of the last dimension."""
    if len(set(values)) == 1:
        return b.broadcast(b.constant(values[0], type_), x.dimensions, [])
    vector = b.constant(np.array(values, DTYPES[type_]))
    return b.broadcast(vector, x.dimensions, [x.rank - 1])
