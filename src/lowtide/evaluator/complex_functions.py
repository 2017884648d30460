"""Functions of complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.evaluator.float_functions import make_complex
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

Function: TypeAlias = Callable[..., Any]


def multiply(a: Array, b: Array) -> Array:
    """Return the product of four products, each rounded: NumPy fuses them where a processor can."""
    real = np.asarray(a.real * b.real) - np.asarray(a.imag * b.imag)
    return make_complex(real, np.asarray(a.real * b.imag) + np.asarray(a.imag * b.real))


def divide(a: Any, b: Array) -> Array:
    """Return the quotient; infinities are kept where plain arithmetic would lose them in NaN.

    Powers of two go before where numbers are so large or small that products may leave the range of
    numbers and the quotient does not. Source: ISO/IEC 9899:1999 (C99), annex G.5.1.
    """
    if _is_tame(a) and _is_tame(b):
        return _plain_quotient(a, b)
    dividend, power = _of_size(a, np.finfo(a.real.dtype).maxexp - _ROOM)
    divisor, other = _of_size(b, 0)
    product = _plain_quotient(dividend, divisor)
    parts = [np.ldexp(x, power - other) for x in (product.real, product.imag)]
    plain = make_complex(*[np.asarray(x) for x in parts])
    lost = np.isnan(plain.real) & np.isnan(plain.imag)
    if not lost.any():
        return plain
    ar, ai, br, bi = a.real, a.imag, b.real, b.imag
    a_infinite, b_infinite = np.isinf(ar) | np.isinf(ai), np.isinf(br) | np.isinf(bi)
    a_finite, b_finite = np.isfinite(ar) & np.isfinite(ai), np.isfinite(br) & np.isfinite(bi)
    infinity = ar.dtype.type(np.inf)
    zero_divisor = (b == 0) & ~(np.isnan(ar) & np.isnan(ai))
    pole = np.copysign(infinity, br)
    by_zero = make_complex(np.asarray(pole * ar), np.asarray(pole * ai))
    large = _scaled(_product_with_conjugate(_unit_box(a), divisor), infinity)
    small = _scaled(_product_with_conjugate(dividend, _unit_box(b)), ar.dtype.type(0))
    rules = [lost & zero_divisor, lost & a_infinite & b_finite, lost & a_finite & b_infinite]
    return np.select(rules, [by_zero, large, small], plain)


def _is_tame(z: Array) -> bool:
    """Whether all parts but zeros are far from the ends of the type, and none is 0 in both."""
    real, imag = np.abs(z.real), np.abs(z.imag)
    limit = 2.0 ** (np.finfo(real.dtype).maxexp / 4)
    if not np.maximum(real, imag).min(initial=1) > 0:
        return False
    return all(x.max(initial=1) < limit and _least(x) * limit > 1 for x in (real, imag))


def _least(x: Array) -> float:
    """The least of numbers that are not 0; 1 where there are none below."""
    return float(x.min(initial=1, where=x > 0))


def _plain_quotient(a: Array, b: Array) -> Array:
    square = b.real * b.real + b.imag * b.imag
    product = _product_with_conjugate(a, b)
    return make_complex(np.asarray(product.real / square), np.asarray(product.imag / square))


_ROOM: Final = 6
"""By how many powers of two numbers are below the largest one whose quotients by 1 to 2 add up."""


def _of_size(z: Array, exponent: int) -> tuple[Array, Array]:
    """Return z times a power of two by which its greater part has an exponent, and the way back.

    What is next to 0 may stay smaller. 0 and infinity stay; what is finite beside an infinity gets
    as small as it can.
    """
    size = np.maximum(np.abs(z.real), np.abs(z.imag))
    power = np.frexp(np.where(np.isfinite(size) & (size > 0), size, 1))[1] - 1
    power = np.where(np.isinf(size), np.finfo(size.dtype).maxexp - 1, power)
    power = np.maximum(power - exponent, -np.finfo(size.dtype).maxexp)
    parts = [np.asarray(np.ldexp(x, -power)) for x in (z.real, z.imag)]
    return make_complex(*parts), power


def _unit_box(z: Array) -> Array:
    """Return each part as 1 where it is infinite, else as 0, with its sign."""
    one = z.real.dtype.type(1)
    parts = [np.copysign(np.where(np.isinf(x), one, 0 * one), x) for x in (z.real, z.imag)]
    return make_complex(*parts)


def _product_with_conjugate(a: Array, b: Array) -> Array:
    real = np.asarray(a.real * b.real) + np.asarray(a.imag * b.imag)
    return make_complex(real, np.asarray(a.imag * b.real) - np.asarray(a.real * b.imag))


def _scaled(z: Array, factor: Any) -> Array:
    return make_complex(np.asarray(z.real * factor), np.asarray(z.imag * factor))


def sign(z: Array) -> Array:
    """Return z / |z|, or 0 for 0.

    A power of two goes before, since |z| may be beyond the largest number, or lose bits next to 0.
    """
    z, _ = _of_size(z, 0)
    magnitude = np.abs(z)
    size = np.where(magnitude == 0, magnitude.dtype.type(1), magnitude)
    unit = make_complex(z.real / size, z.imag / size)  # Each part keeps the sign of its zero.
    return np.where(magnitude == 0, z.dtype.type(0), unit)


def _with_unknown_angle(function: Function, *parts: Callable[[Array], Array]) -> Function:
    """Return a function of e to the z, NaN in both parts where the angle is none, as XLA has it.

    C keeps infinite sizes, and zeros by symmetry; here that is done where one of `parts` of z is 0.
    """

    def found(z: Array) -> Array:
        return _unknown(function(z), np.all([np.not_equal(x(z), 0) for x in parts], axis=0))

    return found


def _with_unknown_parts(function: Function) -> Function:
    """Return an inverse function, NaN in both parts where one is, but for an infinite size."""

    def found(z: Array) -> Array:
        made = function(z)
        return _unknown(made, ~(np.isinf(made.real) | np.isinf(made.imag)))

    return found


def _unknown(z: Array, where: Array) -> Array:
    """Return z, NaN in both parts where one of them is and a condition holds."""
    alone = np.isnan(z.real) != np.isnan(z.imag)
    return np.where(alone & where, z.dtype.type(complex(np.nan, np.nan)), z)


_exp: Final = _with_unknown_angle(np.exp, np.imag)


def expm1(z: Array) -> Array:
    """Return e to the z, minus 1; real for real numbers, however large."""
    found = np.expm1(z)
    return make_complex(found.real, np.where(z.imag == 0, z.imag, found.imag))


def log1p(z: Array) -> Array:
    """Return the logarithm of 1 + z, whose real part is small next to 0 and on a circle round -1.

    From -1/2 down 1 + z has no rounding; above that the size comes from |1 + z|**2 - 1.
    """
    size = np.maximum(np.abs(z.real), np.abs(z.imag))
    small = np.where(size < 1, z, 0)
    near = np.log1p(_square_of_moved(small.real, small.imag)) / 2
    moved = make_complex(z.real + z.real.dtype.type(1), z.imag)
    plain = np.where(z.real <= -0.5, np.log(moved), np.log1p(z))
    plain = np.where(size > 2.0**60, np.log(z), plain)
    found = np.where((size < 1) & (z.real > -0.5), near, plain.real)
    return make_complex(found.astype(z.real.dtype), plain.imag)


def _square_of_moved(x: Array, y: Array) -> Array:
    """Return |1 + x + i y|**2 - 1 for small x and y, whose terms may cancel to almost nothing.

    The squares and the roundings of their sum are kept in two parts.
    """
    (square, one), (other, two) = _exact_square(x), _exact_square(y)
    first, lost = _exact_sum(2 * x.astype(np.longdouble), other)
    total, more = _exact_sum(first, square)
    return np.asarray(total + (lost + more + (one + two)))


def _exact_square(x: Array) -> tuple[Array, Array]:
    """Return x * x and its rounding error. Source: T. J. Dekker (1971), by halves of the digits."""
    x = x.astype(np.float64)
    spread = x * (2.0**27 + 1)
    high = (spread - (spread - x)).astype(np.longdouble)
    low = x - high
    square = x.astype(np.longdouble) ** 2
    return square, ((high * high - square) + 2 * high * low) + low * low


def _exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b and its rounding error. Source: D. E. Knuth (1969), TAOCP 2, 4.2.2."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def logistic(z: Array) -> Array:
    """Return 1 / (1 + exp(-z))."""
    one = z.dtype.type(1)
    return divide(one, np.asarray(one + _exp(-z)))


def rsqrt(z: Array) -> Array:
    """Return 1 / sqrt(z), principal branch: no real part is below 0, nor is a zero negative.

    It lies on the other side of the real axis, with a zero of the other sign where z is on it.
    """
    found = divide(z.dtype.type(1), np.asarray(np.sqrt(z)))
    return make_complex(np.abs(found.real), np.copysign(found.imag, -z.imag))


def cbrt(z: Array) -> Array:
    """Return the principal cube root."""
    third = np.real(z).dtype.type(1) / 3
    return np.where(z == 0, z, np.power(z, third))


def atan2(y: Array, x: Array) -> Array:
    """Return -i log((x + i y) / sqrt(x**2 + y**2))."""
    point = make_complex(np.asarray(x.real - y.imag), np.asarray(x.imag + y.real))
    size = np.sqrt(np.asarray(multiply(x, x) + multiply(y, y)))
    found = np.log(divide(point, np.asarray(size)))
    return make_complex(found.imag, -found.real)


def power(a: Array, b: Array) -> Array:
    """Return a to the power of b; 1 for b = 0, and 0 for a = 0 and b with a positive real part."""
    one, nothing = a.dtype.type(1), a.dtype.type(complex(np.nan, np.nan))
    at_zero = np.where(b.real > 0, 0 * one, nothing)
    usual = _exp(multiply(b, np.asarray(np.log(a))))
    return np.asarray(np.where(b == 0, one, np.where(a == 0, at_zero, usual)))


def _in_double(function: Function) -> Function:
    """Return a function that is computed of doubles, whatever the parts are, and rounded once."""

    def found(*z: Array) -> Array:
        made = function(*[x.astype(np.complex128, copy=False) for x in z])
        return np.asarray(made.astype(z[0].dtype, copy=False))

    return found


_AS_THEY_ARE: Final[Mapping[Opcode, Function]] = {
    Opcode.ABS: np.abs,
    Opcode.ADD: np.add,
    Opcode.IMAG: np.imag,
    Opcode.MULTIPLY: multiply,
    Opcode.NEGATE: np.negative,
    Opcode.REAL: np.real,
    Opcode.SUBTRACT: np.subtract,
}
"""Functions of parts as they are."""

_IN_DOUBLE: Final[Mapping[Opcode, Function]] = {
    Opcode.ACOS: _with_unknown_parts(np.arccos),
    Opcode.ACOSH: _with_unknown_parts(np.arccosh),
    Opcode.ASIN: _with_unknown_parts(np.arcsin),
    Opcode.ASINH: _with_unknown_parts(np.arcsinh),
    Opcode.ATAN2: atan2,
    Opcode.ATANH: _with_unknown_parts(np.arctanh),
    Opcode.CBRT: cbrt,
    Opcode.COSH: _with_unknown_angle(np.cosh, np.imag),
    Opcode.COSINE: _with_unknown_angle(np.cos, np.real),
    Opcode.DIVIDE: divide,
    Opcode.EXPONENTIAL: _exp,
    Opcode.EXPONENTIAL_MINUS_ONE: expm1,
    Opcode.LOG: np.log,
    Opcode.LOG_PLUS_ONE: log1p,
    Opcode.LOGISTIC: logistic,
    Opcode.POWER: power,
    Opcode.RSQRT: rsqrt,
    Opcode.SIGN: sign,
    Opcode.SINE: _with_unknown_angle(np.sin, np.real, np.imag),
    Opcode.SINH: _with_unknown_angle(np.sinh, np.real, np.imag),
    Opcode.SQRT: np.sqrt,
    Opcode.TAN: _with_unknown_angle(np.tan, np.real),
    Opcode.TANH: _with_unknown_angle(np.tanh, np.imag),
}
"""Functions that are computed of doubles."""

FUNCTIONS: Final[Mapping[Opcode, Function]] = {
    **_AS_THEY_ARE,
    **{opcode: _in_double(function) for opcode, function in _IN_DOUBLE.items()},
}
