"""log, log1p, and the logarithm in two parts that a power needs.

x = 2**e * (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), and log(x) = e log(2) + log(1 + f).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lowtide.codegen.elementwise.coefficients import LOG_DOUBLE, LOG_SHORT, LOG_SINGLE
from lowtide.codegen.elementwise.number import Number, exact_sum, fma, horner
from lowtide.codegen.elementwise.processor import exponent_and_mantissa, has_wide, power_of_two
from lowtide.ir.opcode import Opcode
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class FloatLayout:
    """Of float or double: its mantissa's bits, the bits of sqrt(1/2), log(2) in two parts.

    The first part of log(2) has so few bits that its products with exponents are exact.
    """

    mantissa: int
    root_half: int
    log2: tuple[float, float]

    @property
    def root_half_value(self) -> float:
        """The number with the bits of sqrt(1/2)."""
        letters = "<If" if self.mantissa == 23 else "<Qd"
        packed = struct.pack(letters[:2], self.root_half)
        (value,) = struct.unpack("<" + letters[2], packed)
        return float(value)

    @property
    def smallest_normal(self) -> float:
        """The least normal number."""
        return 2.0 ** (-126 if self.mantissa == 23 else -1022)


_LAYOUT: Final = {
    "float": FloatLayout(23, 0x3F3504F3, (0.693145751953125, 1.428606765330187e-06)),
    "double": FloatLayout(52, 0x3FE6A09E667F3BCD, (0.6931471805598903, 5.497923018708371e-14)),
}


def split(x: Number) -> tuple[Number, Number]:
    """Return e, an integer, and 1 + f of a positive normal number."""
    layout = _LAYOUT[x.element]
    above = x.bits() - layout.root_half
    exponent = above.ashr(layout.mantissa)
    mantissa = (above & ((1 << layout.mantissa) - 1)) + layout.root_half
    return exponent, mantissa.from_bits()


def _normal(x: Number) -> tuple[Number, Number]:
    """X scaled up where it is below the least normal number, and what that adds to e."""
    layout = _LAYOUT[x.element]
    tiny = x < layout.smallest_normal
    scaled = x.where(tiny, x * 2.0 ** (layout.mantissa + 1))
    return scaled, tiny.select(x.constant(-(layout.mantissa + 1.0)), 0.0)


def log(x: Number, coefficients: Sequence[float] = LOG_DOUBLE) -> Number:
    """Return the natural logarithm; the coefficients are those of double."""
    if has_wide(x) and x.lanes:
        e, mantissa = exponent_and_mantissa(x)
        above = mantissa >= 2.0 * _LAYOUT[x.element].root_half_value
        f = mantissa.where(above, mantissa * 0.5) - 1.0
        return _combined(e.where(above, e + 1.0), f, coefficients)
    normal, shift = _normal(x)
    exponent, mantissa = split(normal)
    e = exponent.cast("sitofp", x.element) + shift
    return _limits(x, _combined(e, mantissa - 1.0, coefficients))


def log1p(x: Number) -> Number:
    """Return the natural logarithm of 1 + x, whose rounding error is kept in f.

    Above 2**126 there is no such error, and its factor need not be right.
    """
    whole = x + 1.0
    added = whole - 1.0
    error = (1.0 - (whole - added)) + (x - added)
    exponent, mantissa = split(whole)
    f = fma(error, power_of_two((-exponent).intrinsic("smax", -126)), mantissa - 1.0)
    found = _combined(exponent.cast("sitofp", x.element), f, LOG_DOUBLE)
    return _limits(whole, found).where(x.equals(0.0), x)


def _limits(x: Number, found: Number) -> Number:
    """The logarithm with what is not finite put right."""
    found = found.where(x.equals(math.inf), math.inf).where(x.equals(0.0), -math.inf)
    return (x >= 0.0).select(found, math.nan)


def _combined(e: Number, f: Number, coefficients: Sequence[float]) -> Number:
    """E log(2) + log(1 + f), the small terms first."""
    high, low = _LAYOUT[f.element].log2
    square = f * f
    if not f.is_double:
        rest = horner(f, LOG_SINGLE) * (f * square)
        rest = fma(square, -0.5, fma(e, low, rest))
        return fma(e, high, f + rest)
    s = f / (f + 2.0)
    z = s * s
    half = square * 0.5
    rest = s * fma(horner(z, coefficients), z, half)
    return fma(e, high, f - (half - fma(e, low, rest)))


def short_log(x: Number) -> Number:
    """Return log(x) of a double to 37 bits of itself."""
    return log(x, LOG_SHORT)


# -- in two parts ------------------------------------------------------------------------------


def log_in_parts(x: Number) -> tuple[Number, Number]:
    """Return log(x) of a positive, finite double as a sum of two, to about 64 bits.

    s = f / (2 + f) is known in two parts, and so are the terms 2 s and 2/3 s**3 of the series.
    """
    normal, shift = _normal(x)
    exponent, mantissa = split(normal)
    e = exponent.cast("sitofp", x.element) + shift
    f = mantissa - 1.0
    divisor = f + 2.0
    lost = f - (divisor - 2.0)
    s = f / divisor
    s_low = (fma(-s, divisor, f) - s * lost) / divisor
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * (s * s_low)
    cube, cube_low = _product(z, z_low, s, s_low)
    third, third_low = _product(cube, cube_low, cube.constant(2.0 / 3.0), cube.constant(_THIRD))
    series = horner(z, LOG_DOUBLE[:-1]) * (z * cube)
    high, low = _LAYOUT["double"].log2
    total, rest = exact_sum(e * high, s + s)
    total, more = exact_sum(total, third)
    small = ((s_low + s_low) + third_low) + series + fma(e, low, rest + more)
    return exact_sum(total, small)


_THIRD: Final = 3.700743415417188e-17
"""2/3 less its nearest double."""


def _product(a: Number, a_low: Number, b: Number, b_low: Number) -> tuple[Number, Number]:
    """The product of two sums of two, as one."""
    high = a * b
    return high, fma(a, b, -high) + fma(a, b_low, a_low * b)


FUNCTIONS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.LOG: log,
    Opcode.LOG_PLUS_ONE: log1p,
}
