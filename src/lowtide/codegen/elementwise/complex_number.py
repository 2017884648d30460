"""Complex numbers as two numbers, with their arithmetic."""

from __future__ import annotations

import math
from typing import Final

from lowtide.codegen.elementwise.number import Number, fma
from lowtide.codegen.elementwise.processor import power_of_two
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number of two floats or two doubles."""

    real: Number
    imag: Number

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imag - other.imag)

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imag)

    def __mul__(self, other: Complex) -> Complex:
        real = self.real * other.real - self.imag * other.imag
        return Complex(real, self.real * other.imag + self.imag * other.real)

    def scaled(self, factor: Number | float) -> Complex:
        """Return this times a real number."""
        return Complex(self.real * factor, self.imag * factor)

    def conjugate(self) -> Complex:
        """Return this with the other imaginary part."""
        return Complex(self.real, -self.imag)

    def times_i(self) -> Complex:
        """Return i times this."""
        return Complex(-self.imag, self.real)

    def over_i(self) -> Complex:
        """Return this divided by i."""
        return Complex(self.imag, -self.real)

    def plus(self, number: float) -> Complex:
        """Return the sum with a real constant."""
        return Complex(self.real + number, self.imag)

    def where(self, condition: Number, other: Complex) -> Complex:
        """Return `other` where the condition holds, else this."""
        return Complex(
            self.real.where(condition, other.real), self.imag.where(condition, other.imag)
        )

    def constant(self, value: complex) -> Complex:
        """Return a constant."""
        value = complex(value)
        return Complex(self.real.constant(value.real), self.real.constant(value.imag))

    def is_zero(self) -> Number:
        """Return whether both parts are 0."""
        return self.real.equals(0.0) & self.imag.equals(0.0)

    def size(self) -> Number:
        """Return the greater magnitude of both parts; NaN counts for nothing."""
        a, b = self.real.abs(), self.imag.abs()
        return b.where(a > b, a)

    def is_infinite(self) -> Number:
        """Return whether a part is infinite."""
        return self.real.abs().equals(math.inf) | self.imag.abs().equals(math.inf)

    def is_finite(self) -> Number:
        """Return whether both parts are finite."""
        return (self.real.abs() < math.inf) & (self.imag.abs() < math.inf)


_LEAST: Final = 1022
"""The largest power of two whose inverse is a normal double, too."""

_LARGEST: Final = 1018
"""The exponent of numbers of which two products with numbers of size 1 are within doubles."""


def _exponent(z: Complex) -> Number:
    """The exponent of a power of two near |z|, that of a normal double."""
    bits = z.size().extended().bits()
    return ((bits >> 52) - 1023).intrinsic("smax", -_LEAST).intrinsic("smin", _LEAST)


def of_size_one(z: Complex) -> Complex:
    """Return z times a power of two, by which its size is about 1; 0 and infinity stay."""
    return z.scaled(power_of_two(-_exponent(z)))


def magnitude(z: Complex) -> Number:
    """Return |z| of two doubles; infinite where a part is."""
    exponent = _exponent(z)
    unit = z.scaled(power_of_two(-exponent))
    found = fma(unit.real, unit.real, unit.imag * unit.imag).sqrt() * power_of_two(exponent)
    return found.where(z.is_infinite(), math.inf)


def divide(a: Complex, b: Complex) -> Complex:
    """Return the quotient of two doubles; infinities are kept where plain arithmetic has NaN.

    The divisor is taken as a number of size 1, and the dividend as large as products can be: next
    to its larger part nothing of the smaller one is lost. What that leaves out is put back in two
    halves, since it may be more than a double can be where the quotient is not.
    Source: ISO/IEC 9899:1999 (C99), annex G.5.1.
    """
    below, up = _exponent(b), (_LARGEST - _exponent(a)).intrinsic("smin", _LARGEST)
    dividend, divisor = a.scaled(power_of_two(up)), b.scaled(power_of_two(-below))
    square = fma(divisor.real, divisor.real, divisor.imag * divisor.imag)
    product = dividend * divisor.conjugate()
    back = -(up + below)
    half = back >> 1
    plain = Complex(product.real / square, product.imag / square).scaled(power_of_two(half))
    plain = plain.scaled(power_of_two(back - half))
    lost = plain.real.is_nan() & plain.imag.is_nan()
    pole = b.real.constant(math.inf).copysign(b.real)
    numbers = ~(a.real.is_nan() & a.imag.is_nan())
    large = (_unit_box(a) * divisor.conjugate()).scaled(math.inf)
    small = (dividend * _unit_box(b).conjugate()).scaled(0.0)
    found = plain.where(lost & a.is_finite() & b.is_infinite(), small)
    found = found.where(lost & a.is_infinite() & b.is_finite(), large)
    return found.where(lost & b.is_zero() & numbers, a.scaled(pole))


def _unit_box(z: Complex) -> Complex:
    """Each part as 1 where it is infinite, else as 0, with its sign."""

    def part(x: Number) -> Number:
        return x.abs().equals(math.inf).select(x.constant(1.0), 0.0).copysign(x)

    return Complex(part(z.real), part(z.imag))
