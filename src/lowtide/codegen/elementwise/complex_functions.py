"""Functions of complex numbers of two doubles.

The inverse functions are combined from square roots so that no branch cut is crossed and nothing
cancels. Source: W. Kahan (1987), Branch Cuts for Complex Elementary Functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from lowtide.codegen.elementwise import exponential, hyperbolic, logarithm, trigonometric
from lowtide.codegen.elementwise.complex_number import Complex, divide, magnitude, of_size_one
from lowtide.codegen.elementwise.number import Number, exact_sum, fma
from lowtide.codegen.elementwise.operation import Operation
from lowtide.codegen.elementwise.trigonometric import sine_and_cosine
from lowtide.codegen.value import Value
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode

ComplexFunction: TypeAlias = Callable[..., "Complex | Number"]


def _angle(y: Number, x: Number) -> Number:
    return trigonometric.atan2(y, x).copysign(y)


def _sinh(x: Number) -> Number:
    return exponential.sinh(x).copysign(x)


def _asinh(x: Number, added: Number, sign: Number) -> Number:
    """The inverse hyperbolic sine, with something added to its magnitude; infinite if that is."""
    found = hyperbolic.asinh(x).abs() + added
    return found.where(added.equals(math.inf), math.inf).copysign(sign)


# -- exponential and logarithm -----------------------------------------------------------------

_SPARE: Final = 64
"""By which power of two the exponential of a half is kept smaller where exp may overflow."""


def exp(z: Complex) -> Complex:
    """Return e to the z: the size e to the real part, the angle the imaginary one.

    A size beyond all numbers may meet a sine next to 0: it is then multiplied in two halves.
    """
    sine, cosine = sine_and_cosine(z.imag)
    large = z.real > 700.0
    half = exponential.exp(z.real * 0.5, halvings=_SPARE)
    size = exponential.exp(z.real).where(large, half)
    found = Complex(size * cosine, size * sine).scaled(large.select(half, 1.0))
    found = found.scaled(large.select(size.constant(4.0**_SPARE), 1.0))
    real_axis = z.imag.equals(0.0)
    found = Complex(found.real, found.imag.where(real_axis, z.imag))
    nothing = z.real.equals(-math.inf) & cosine.is_nan()
    return found.where(nothing, found.constant(0.0))


def expm1(z: Complex) -> Complex:
    """Return e to the z, minus 1."""
    sine, cosine = sine_and_cosine(z.imag)
    half_sine, _ = sine_and_cosine(z.imag * 0.5)
    real = fma(exponential.expm1(z.real), cosine, -2.0 * (half_sine * half_sine))
    return Complex(real, (exponential.exp(z.real) * sine).where(z.imag.equals(0.0), z.imag))


def _log_size(x: Number, y: Number) -> Number:
    """The logarithm of |x + i y|; near 1 from |z|**2 - 1, whose terms are known in two parts.

    What is next to the largest number or to 0 is scaled, so that |z| is neither off nor infinite.
    """
    z = Complex(x, y)
    a, b = x.abs(), y.abs()
    large, small = a.where(a < b, b), b.where(a < b, a)
    (square, one), (other, two) = _exact_square(large), _exact_square(small)
    total, lost = exact_sum(square - 1.0, other)
    near = (square >= 0.5) & (square + other <= 2.0)
    return _half_log(total + (lost + (one + two)), near, z)


def _exact_square(x: Number) -> tuple[Number, Number]:
    """The square of x, and its rounding error."""
    square = x * x
    return square, fma(x, x, -square)


def _half_log(added: Number, near: Number, z: Complex) -> Number:
    """Half the logarithm of 1 + `added`, which is that of |z| and is taken of z if not `near`."""
    close = logarithm.log1p(near.select(added, 0.0)) * 0.5
    huge, tiny = z.size() > 2.0**1000, z.size() < 2.0**-960
    factor = added.constant(1.0).where(huge, 2.0**-2).where(tiny, 2.0**80)
    shift = added.constant(0.0).where(huge, math.log(2.0**2)).where(tiny, -math.log(2.0**80))
    far = logarithm.log(magnitude(z.scaled(factor))) + shift
    return far.where(near, close)


def log(z: Complex) -> Complex:
    """Return the natural logarithm, principal branch."""
    return Complex(_log_size(z.real, z.imag), _angle(z.imag, z.real))


def log1p(z: Complex) -> Complex:
    """Return the natural logarithm of 1 + z; near the circle round -1, from |1 + z|**2 - 1.

    That is a sum of three terms, which cancel there: each is known in two parts.
    """
    x, y = z.real, z.imag
    (square, one), (other, two) = _exact_square(x), _exact_square(y)
    first, lost = exact_sum(x + x, other)
    total, more = exact_sum(first, square)
    near = (z.size() < 4.0) & (total >= -0.5) & (total <= 1.0)
    moved = Complex(x + 1.0, y)
    size = _half_log(total + (lost + more + (one + two)), near, moved)
    return Complex(size, _angle(y, moved.real))


def logistic(z: Complex) -> Complex:
    """Return 1 / (1 + exp(-z))."""
    return divide(z.constant(1.0), exp(-z).plus(1.0))


def power(a: Complex, b: Complex) -> Complex:
    """Return a to the power of b; 1 for b = 0, and 0 for a = 0 and b with a positive real part."""
    usual = exp(b * log(a))
    undefined = a.constant(complex(math.nan, math.nan))
    at_zero = undefined.where(b.real > 0.0, a.constant(0.0))
    return usual.where(a.is_zero(), at_zero).where(b.is_zero(), a.constant(1.0))


# -- roots -------------------------------------------------------------------------------------


def sqrt(z: Complex) -> Complex:
    """Return the square root, principal branch."""
    huge, tiny = z.size() > 2.0**1000, z.size() < 2.0**-900
    factor = z.real.constant(1.0).where(huge, 2.0**-4).where(tiny, 2.0**200)
    back = z.real.constant(1.0).where(huge, 4.0).where(tiny, 2.0**-100)
    w = z.scaled(factor)
    root = ((w.real.abs() + magnitude(w)) * 0.5).sqrt()
    other = w.imag.abs() / (root + root)
    left = w.real < 0.0
    real, imag = root.where(left, other), other.where(left, root)
    found = Complex(real, imag.copysign(z.imag)).scaled(back)
    found = found.where(z.is_zero(), Complex(z.real.abs(), z.imag))
    return _root_of_infinite(z, found)


def _root_of_infinite(z: Complex, found: Complex) -> Complex:
    infinite = z.real.constant(math.inf)
    zero = z.real.constant(0.0)
    nothing = zero.where(z.imag.is_nan(), z.imag)
    right = Complex(infinite, nothing.copysign(z.imag))
    left = Complex(nothing, infinite.copysign(z.imag))
    found = found.where(z.real.equals(math.inf), right)
    found = found.where(z.real.equals(-math.inf), left)
    return found.where(z.imag.abs().equals(math.inf), Complex(infinite, z.imag))


def rsqrt(z: Complex) -> Complex:
    """Return 1 / sqrt(z), principal branch: on the other side of the real axis, signs of 0 too."""
    found = divide(z.constant(1.0), sqrt(z))
    return Complex(found.real, found.imag.copysign(-z.imag))


def cbrt(z: Complex) -> Complex:
    """Return the principal cube root."""
    return exp(log(z).scaled(1.0 / 3.0)).where(z.is_zero(), z)


# -- trigonometric and hyperbolic --------------------------------------------------------------


def sinh(z: Complex) -> Complex:
    """Return the hyperbolic sine."""
    sine, cosine = sine_and_cosine(z.imag)
    imag = exponential.cosh(z.real) * sine
    real = _sinh(z.real) * cosine
    zero = z.real.where(cosine < 0.0, -z.real)
    return Complex(real.where(z.real.equals(0.0), zero), imag.where(z.imag.equals(0.0), z.imag))


def cosh(z: Complex) -> Complex:
    """Return the hyperbolic cosine."""
    sine, cosine = sine_and_cosine(z.imag)
    imag = _sinh(z.real) * sine
    zero = z.real.constant(1.0).copysign(z.real) * z.imag
    return Complex(exponential.cosh(z.real) * cosine, imag.where(z.imag.equals(0.0), zero))


def tanh(z: Complex) -> Complex:
    """Return the hyperbolic tangent, by the tangent of the imaginary part.

    An infinite real part leaves nothing of the imaginary one, whatever that is. Beside a finite
    one, an angle that is no number leaves both parts unknown, however small its share would be.
    """
    sine, cosine = sine_and_cosine(z.imag)
    far = z.real.abs() > 20.0
    x = z.real.where(far, 0.0)
    s, t = _sinh(x), sine / cosine
    slope = fma(t, t, 1.0)
    below = fma(slope * s, s, 1.0)
    near = Complex(slope * exponential.cosh(x) * s / below, t / below)
    decay = exponential.exp(z.real.abs() * -2.0)
    turn = sine * cosine
    turn = turn.where(
        turn.is_nan() & z.real.abs().equals(math.inf), z.real.constant(0.0).copysign(z.imag)
    )
    limit = z.real.constant(1.0).copysign(z.real).where(turn.is_nan(), turn)
    away = Complex(limit, turn * 4.0 * decay)
    found = near.where(far, away)
    return Complex(found.real, found.imag.where(z.imag.equals(0.0), z.imag))


def sin(z: Complex) -> Complex:
    """Return the sine."""
    return sinh(z.times_i()).over_i()


def cos(z: Complex) -> Complex:
    """Return the cosine."""
    return cosh(z.times_i())


def tan(z: Complex) -> Complex:
    """Return the tangent."""
    return tanh(z.times_i()).over_i()


# -- inverses ----------------------------------------------------------------------------------


def _within_range(z: Complex) -> tuple[Complex, Number]:
    """z, scaled where it is next to the largest number, and by how much that lowers its logarithm.

    Products of roots of what is next to z are then finite; angles are the same. Infinities become
    finite ones of the same angle, and their logarithm is lowered by infinity.
    """
    huge, one = z.size() > 2.0**1000, z.real.constant(1.0)
    found = z.scaled(one.where(huge, 2.0**-4))
    lowered = z.real.constant(0.0).where(huge, math.log(2.0**4))
    infinite = z.is_infinite()
    return found.where(infinite, _far_out(z)), lowered.where(infinite, math.inf)


def _far_out(z: Complex) -> Complex:
    """A number whose parts are large where those of z are infinite, 0 where these are finite."""

    def part(x: Number) -> Number:
        large = x.constant(2.0**900).copysign(x)
        return (x * 0.0).where(x.abs().equals(math.inf), large)

    return Complex(part(z.real), part(z.imag))


def asin(z: Complex) -> Complex:
    """Return the inverse sine."""
    sign = z.imag
    z, lowered = _within_range(z)
    minus, plus = sqrt(-z.plus(-1.0)), sqrt(z.plus(1.0))
    real = _angle(z.real, (minus * plus).real)
    return Complex(real, _asinh((minus.conjugate() * plus).imag, lowered, sign))


def acos(z: Complex) -> Complex:
    """Return the inverse cosine."""
    sign = -z.imag
    z, lowered = _within_range(z)
    minus, plus = sqrt(-z.plus(-1.0)), sqrt(z.plus(1.0))
    real = _angle(minus.real, plus.real) * 2.0
    return Complex(real, _asinh((plus.conjugate() * minus).imag, lowered, sign))


def asinh(z: Complex) -> Complex:
    """Return the inverse hyperbolic sine."""
    return asin(z.times_i()).over_i()


def acosh(z: Complex) -> Complex:
    """Return the inverse hyperbolic cosine."""
    z, lowered = _within_range(z)
    minus, plus = sqrt(z.plus(-1.0)), sqrt(z.plus(1.0))
    real = _asinh((minus.conjugate() * plus).real, lowered, z.real.constant(1.0))
    return Complex(real, _angle(minus.imag, plus.real) * 2.0)


def atanh(z: Complex) -> Complex:
    """Return the inverse hyperbolic tangent; far out it is 1 / z, and a quarter of a turn.

    Next to 1 the square of the imaginary part may be 0 where that part is not: there the real part
    is half the logarithm of 2 / |y|.
    """
    x, y = z.real.abs(), z.imag
    apart, square = 1.0 - x, y * y
    beside = apart.equals(0.0) & (y.abs() < 2.0**-500)
    ratio = (4.0 * x / fma(apart, apart, square)).where(beside, 2.0 / (y.abs() * 2.0**60))
    grown = logarithm.log1p(ratio)
    real = (grown * 0.25).where(beside, (grown + math.log(2.0**60)) * 0.5)
    imag = _angle(y + y, fma(apart, x + 1.0, -square)) * 0.5
    far = (z.size() > 2.0**300) & ~y.is_nan() & (~x.is_nan() | y.abs().equals(math.inf))
    real = real.where(far, divide(z.constant(1.0), z).real.abs())
    imag = imag.where(far, y.constant(math.pi / 2).copysign(y))
    return Complex(real.copysign(z.real), imag)


def atan2(y: Complex, x: Complex) -> Complex:
    """Return -i log((x + i y) / sqrt(x**2 + y**2))."""
    return log(divide(x + y.times_i(), sqrt(x * x + y * y))).over_i()


def absolute(z: Complex) -> Number:
    """Return |z|: the squares of floats are far from the ends of what a double can be."""
    if z.real.is_double:
        return magnitude(z)
    x, y = z.real.extended(), z.imag.extended()
    return fma(x, x, y * y).sqrt().shortened().where(z.is_infinite(), math.inf)


def sign(z: Complex) -> Complex:
    """Return z / |z|, or 0 for 0; |z| may be beyond the largest double, or lose bits next to 0."""
    near = of_size_one(z)
    size = magnitude(near)
    unit = Complex(near.real / size, near.imag / size)
    return unit.where(size.equals(0.0), z.constant(0.0))


IN_DOUBLE: Final[Mapping[Opcode, ComplexFunction]] = {
    Opcode.ACOS: acos,
    Opcode.ACOSH: acosh,
    Opcode.ASIN: asin,
    Opcode.ASINH: asinh,
    Opcode.ATAN2: atan2,
    Opcode.ATANH: atanh,
    Opcode.CBRT: cbrt,
    Opcode.COSH: cosh,
    Opcode.COSINE: cos,
    Opcode.DIVIDE: divide,
    Opcode.EXPONENTIAL: exp,
    Opcode.EXPONENTIAL_MINUS_ONE: expm1,
    Opcode.LOG: log,
    Opcode.LOG_PLUS_ONE: log1p,
    Opcode.LOGISTIC: logistic,
    Opcode.POWER: power,
    Opcode.RSQRT: rsqrt,
    Opcode.SIGN: sign,
    Opcode.SINE: sin,
    Opcode.SINH: sinh,
    Opcode.SQRT: sqrt,
    Opcode.TAN: tan,
    Opcode.TANH: tanh,
}
"""Functions that are computed in double, whatever the parts are."""

AS_THEY_ARE: Final[Mapping[Opcode, ComplexFunction]] = {
    Opcode.ABS: absolute,
    Opcode.ADD: lambda a, b: a + b,
    Opcode.IMAG: lambda z: z.imag,
    Opcode.MULTIPLY: lambda a, b: a * b,
    Opcode.NEGATE: lambda z: -z,
    Opcode.REAL: lambda z: z.real,
    Opcode.SUBTRACT: lambda a, b: a - b,
}
"""Functions of parts as they are: each says itself what it computes in double."""


def write_complex(operation: Operation) -> Value:
    """Return the result of an operation on complex numbers.

    Raises UnsupportedOpError where it has no meaning.
    """
    operands = [Complex(*operation.numbers(i)) for i in range(len(operation.operands))]
    function = AS_THEY_ARE.get(operation.opcode)
    if function is not None:
        return _parts(operation, function(*operands))
    function = IN_DOUBLE.get(operation.opcode)
    if function is None:
        raise operation.unsupported("it has no meaning for complex numbers")
    wide = [Complex(x.real.extended(), x.imag.extended()) for x in operands]
    return _parts(operation, function(*wide))


def _parts(operation: Operation, found: Complex | Number) -> Value:
    """A real or complex result in the type of the operation's parts."""
    parts = (found.real, found.imag) if isinstance(found, Complex) else (found,)
    if operation.type in (ElementType.C128, ElementType.F64):
        return operation.result(*[x.extended() for x in parts])
    return operation.result(*[x.shortened() for x in parts])
