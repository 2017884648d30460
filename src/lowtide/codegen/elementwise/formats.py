"""Floating point formats narrower than f32: rounding to them, and their bits.

In registers an element of such a type is a float that the type can represent; in memory it is its
bits. All of this is exact integer and floating point arithmetic, without tables in memory.
"""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import Final

from lowtide.codegen.elementwise.estimates import is_gpu, rounded_to_bfloat
from lowtide.codegen.elementwise.number import Number
from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass


class Beyond(Enum):
    """What a format has beyond its finite numbers."""

    INFINITY = auto()
    """Infinities and NaNs, as IEEE 754."""
    NAN = auto()
    """One NaN of each sign, all bits set."""
    UNSIGNED_NAN = auto()
    """One NaN where others have -0."""
    NOTHING = auto()
    """Neither: what is too large becomes the largest number."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format with a sign; `bits` in all, of which `mantissa` stand behind the point."""

    bits: int
    mantissa: int
    bias: int
    beyond: Beyond

    @property
    def magnitude(self) -> int:
        """The mask of the bits other than the sign."""
        return (1 << (self.bits - 1)) - 1

    @property
    def infinity(self) -> int:
        """The bits of infinity, where there is one."""
        return self.magnitude & ~((1 << self.mantissa) - 1)

    @property
    def largest_bits(self) -> int:
        """The bits of the largest finite number."""
        if self.beyond is Beyond.INFINITY:
            return self.infinity - 1
        return self.magnitude - (self.beyond is Beyond.NAN)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        fraction = self.largest_bits & ((1 << self.mantissa) - 1)
        exponent = (self.largest_bits >> self.mantissa) - self.bias
        return math.ldexp(1 + math.ldexp(fraction, -self.mantissa), exponent)

    @property
    def smallest_normal(self) -> float:
        """The smallest number with all its bits of precision."""
        return math.ldexp(1.0, 1 - self.bias)

    @property
    def aligner(self) -> float:
        """The float whose last bit counts as much as the last bit of the format's denormals."""
        return math.ldexp(1.0, 1 - self.bias - self.mantissa + 23)

    @property
    def has_negative_zero(self) -> bool:
        """Whether -0 differs from 0."""
        return self.beyond is not Beyond.UNSIGNED_NAN


FORMATS: Final = {
    ElementType.F8E5M2: Format(8, 2, 15, Beyond.INFINITY),
    ElementType.F8E4M3: Format(8, 3, 7, Beyond.INFINITY),
    ElementType.F8E3M4: Format(8, 4, 3, Beyond.INFINITY),
    ElementType.F8E4M3FN: Format(8, 3, 7, Beyond.NAN),
    ElementType.F8E4M3B11FNUZ: Format(8, 3, 11, Beyond.UNSIGNED_NAN),
    ElementType.F8E5M2FNUZ: Format(8, 2, 16, Beyond.UNSIGNED_NAN),
    ElementType.F8E4M3FNUZ: Format(8, 3, 8, Beyond.UNSIGNED_NAN),
    ElementType.F6E3M2FN: Format(6, 2, 3, Beyond.NOTHING),
    ElementType.F6E2M3FN: Format(6, 3, 1, Beyond.NOTHING),
    ElementType.F4E2M1FN: Format(4, 1, 1, Beyond.NOTHING),
}
"""The formats of at most a byte; F8E8M0FNU is none of them."""

CLOSED: Final = frozenset(
    {
        ElementType.F16,
        ElementType.BF16,
        ElementType.F32,
        ElementType.F64,
        *[type_ for type_, x in FORMATS.items() if x.has_negative_zero and x.largest.is_integer()],
    }
)
"""The types of which the negative and the neighbouring integers of elements are elements too."""

_SIGN: Final = 0x80000000
_MAGNITUDE: Final = 0x7FFFFFFF
_INFINITY: Final = 0x7F800000
_QUIET: Final = 0x00400000
UPPER: Final = 0xFFFF0000
"""The bits of a float that are one of bf16."""


def rounded(type_: ElementType, x: Number) -> Number:
    """Return a float or double rounded to an element type, ties to even, in its register type.

    A double goes to bf16 by way of f32, as conversions in XLA and NumPy do, and to a type narrower
    than f32 else at once.
    """
    if type_ is ElementType.F64:
        return x.extended()
    if type_ not in (ElementType.F32, ElementType.BF16):
        x = _to_odd(x) if x.is_double else x
    if type_ is ElementType.F16:
        return x.cast("fptrunc", "half").cast("fpext", "float")
    x = x.shortened()
    if type_ is ElementType.F32:
        return x
    if type_ is ElementType.BF16:
        return _to_bfloat(x)
    if type_ is ElementType.F8E8M0FNU:
        return _to_power(x)
    return _to_format(FORMATS[type_], x)


def _to_odd(x: Number) -> Number:
    """A double cut off to a float whose last bit is set where that is not exact.

    Rounding that to a type of at most 22 bits gives what rounding the double would give. Source:
    S. Boldo, G. Melquiond (2008), Emulation of FMA and correctly rounded sums.
    """
    nearest = x.cast("fptrunc", "float")
    back = nearest.extended()
    bits = nearest.bits()
    bits = bits.where(back.abs() > x.abs(), bits - 1)
    inexact = back.compare("one", x)
    return bits.where(inexact, bits | 1).from_bits()


def _to_bfloat(x: Number) -> Number:
    if is_gpu(x.target):
        return rounded_to_bfloat(x)
    bits = x.bits()
    up = _next_bfloat(bits)
    return (up.where(x.is_nan(), bits | _QUIET) & UPPER).from_bits()


def arithmetic_to_bfloat(x: Number) -> Number:
    """Return what one instruction of arithmetic made of elements of bf16, rounded to bf16.

    Such a NaN is one of an operand, made quiet, or the processor's own. Neither has bits in the
    lower half, so it stays what it is without being told apart.
    """
    if is_gpu(x.target):
        return rounded_to_bfloat(x)
    return (_next_bfloat(x.bits()) & UPPER).from_bits()


def _next_bfloat(bits: Number) -> Number:
    """Bits whose upper half is that of the nearest number, ties to even."""
    return bits + ((bits >> 16) & 1) + 0x7FFF


def _to_power(x: Number) -> Number:
    """The nearest power of two, halves upward; NaN for what is not positive and finite.

    Below the least normal float all that exceeds 2**-127 goes up, as in XLA.
    """
    bits = x.bits()
    power = (bits + _QUIET) & _INFINITY
    tiny = bits.compare("ule", _QUIET)
    power = power.where(tiny, _QUIET)
    valid = (x > 0.0) & power.compare("ult", _INFINITY)
    return power.where(~valid, _INFINITY | _QUIET).from_bits()


def _to_format(format_: Format, x: Number) -> Number:
    magnitude = x.bits() & _MAGNITUDE
    sign = x.bits() & _SIGN
    dropped = 23 - format_.mantissa
    up = magnitude + ((magnitude >> dropped) & 1) + ((1 << (dropped - 1)) - 1)
    normal = (up & -(1 << dropped)).from_bits()
    size = magnitude.from_bits()
    aligned = (size + format_.aligner) - format_.aligner
    result = normal.where(size < format_.smallest_normal, aligned)
    result = _limited(format_, result, x)
    if format_.beyond is Beyond.NOTHING:
        sign = sign ^ x.is_nan().select(sign.constant(_SIGN), 0)
    signed = (result.bits() | sign).from_bits()
    if format_.has_negative_zero:
        return signed
    return signed.where(result.equals(0.0), 0.0)


def _limited(format_: Format, size: Number, x: Number) -> Number:
    """A rounded magnitude with what lies beyond the largest number put right, and NaN."""
    above = size > format_.largest
    if format_.beyond is Beyond.NOTHING:
        return size.where(above, format_.largest).where(x.is_nan(), 0.0)
    if format_.beyond is Beyond.INFINITY:
        return size.where(above, math.inf).where(x.is_nan(), math.nan)
    return size.where(above | x.is_nan(), math.nan)


# -- bits --------------------------------------------------------------------------------------


def decoded(type_: ElementType, bits: Number) -> Number:
    """Return the floats with the bits that elements of a type of at most 16 bits have in memory.

    `bits` is half for f16, else an integer of 8 or 16 bits.
    """
    if type_ is ElementType.F16:
        return bits.cast("fpext", "float")
    if type_ is ElementType.BF16:
        return (bits.cast("zext", "i32") << 16).from_bits()
    wide = bits.cast("zext", "i32")
    if type_ is ElementType.F8E8M0FNU:
        power = (wide << 23).where(wide.equals(0), _QUIET)
        return power.where(wide.equals(0xFF), _INFINITY | _QUIET).from_bits()
    return _from_format(FORMATS[type_], wide)


def _from_format(format_: Format, wide: Number) -> Number:
    size = wide & format_.magnitude
    sign = (wide << (32 - format_.bits)) & _SIGN
    rebias = (127 - format_.bias) << 23
    moved = (size << (23 - format_.mantissa)) + rebias
    denormal = size.compare("ult", 1 << format_.mantissa)
    shifted = (moved + (1 << 23)).from_bits() - format_.smallest_normal
    found = moved.from_bits().where(denormal, shifted).bits()
    if format_.beyond is Beyond.INFINITY:
        special = size.compare("uge", format_.infinity)
        found = found.where(special, found | _INFINITY)
    if format_.beyond is Beyond.NAN:
        found = found.where(size.equals(format_.magnitude), _INFINITY | _QUIET)
    if format_.beyond is Beyond.UNSIGNED_NAN:
        found = found.where((size | sign).equals(_SIGN), _INFINITY | _QUIET)
    return (found | sign).from_bits()


def with_sign_of_nan(type_: ElementType, x: Number) -> Number:
    """Return floats whose NaNs have the sign that they have in memory, where that is one alone."""
    if type_ is ElementType.F8E8M0FNU:
        return x.abs()
    if type_ in FORMATS and FORMATS[type_].beyond is Beyond.UNSIGNED_NAN:
        return x.where(x.is_nan(), -math.nan)
    return x


def encoded(type_: ElementType, x: Number) -> Number:
    """Return the bits, as they stand in memory, of floats that the type can represent."""
    if type_ is ElementType.F16:
        return x.cast("fptrunc", "half")
    if type_ is ElementType.BF16:
        return (x.bits() >> 16).cast("trunc", "i16")
    if type_ is ElementType.F8E8M0FNU:
        return (x.bits() >> 23).where(x.is_nan(), 0xFF).cast("trunc", "i8")
    return _to_bits(FORMATS[type_], x).cast("trunc", "i8")


def _to_bits(format_: Format, x: Number) -> Number:
    bits = x.bits()
    magnitude = bits & _MAGNITUDE
    sign = (bits & _SIGN) >> (32 - format_.bits)
    rebias = (127 - format_.bias) << format_.mantissa
    top = magnitude >> (23 - format_.mantissa)
    size = magnitude.from_bits()
    steps = (size + format_.aligner).bits() - size.constant(format_.aligner).bits()
    code = (top - rebias).where(size < format_.smallest_normal, steps)
    if format_.beyond is Beyond.INFINITY:
        special = magnitude.compare("uge", _INFINITY)
        return code.where(special, top & format_.magnitude) | sign
    if format_.beyond is Beyond.NAN:
        return code.where(x.is_nan(), format_.magnitude) | sign
    if format_.beyond is Beyond.UNSIGNED_NAN:
        return (code | sign).where(x.is_nan(), 1 << (format_.bits - 1))
    return code | sign
