"""exp and what is made of it: expm1, logistic, tanh, sinh, cosh, erf.

exp(x) = 2**n * exp(r) with |r| <= log(2) / 2, where n * log(2) is taken from x in two parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

from lowtide.codegen.elementwise import erf_stretches, tanh_stretches
from lowtide.codegen.elementwise.coefficients import (
    ERF_FAR,
    ERF_FAR_ROOT,
    ERF_NEAR,
    EXP,
    EXP_SHORT,
    TANH,
)
from lowtide.codegen.elementwise.estimates import estimated_exp, is_gpu
from lowtide.codegen.elementwise.number import Number, fma, horner
from lowtide.codegen.elementwise.processor import (
    TWICE_BIAS,
    has_wide,
    looked_up,
    power_of_two,
    quotient,
    scaled,
    scaled_where,
)
from lowtide.ir.opcode import Opcode
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class FloatPrecision:
    """What differs between float and double.

    `rounder` added to a number leaves its nearest integer in the last bits, with zeros before them.
    `log2` is log(2) in two parts. Between `low` and `high` exp is neither 0 nor infinite, nor is it
    when halved.
    """

    rounder: float
    log2: tuple[float, float]
    low: float
    high: float
    minus_one_below: float
    tanh_one_above: float


_PRECISION: Final = {
    "float": FloatPrecision(
        12582912.0, (0.693147182464599609375, -1.904654299957768e-09), -104.0, 90.0, -18.0, 10.0
    ),
    "double": FloatPrecision(
        6755399441055744.0, (0.6931471805599453, 2.3190468138462996e-17), -746.0, 711.0, -38.0, 20.0
    ),
}


@dataclass(frozen=True, slots=True)
class ReducedArgument:
    """x = n * log(2) + r; `whole` is n as an integer, and `both` is as `scaled` takes it."""

    n: Number
    whole: Number
    both: Number
    r: Number


def reduced(x: Number, *, roughly: bool = False) -> ReducedArgument:
    """Return n and r for a number that is finite and of no large magnitude.

    `roughly` is enough where a large n makes the exponential count for little.
    """
    precision = _PRECISION[x.element]
    rounder = precision.rounder + TWICE_BIAS[x.element]
    shifted = fma(x, math.log2(math.e), rounder)
    n = shifted - rounder
    high, low = precision.log2
    r = fma(n, -high, x)
    r = r if roughly else fma(n, -low, r)
    whole = shifted.bits() - shifted.constant(rounder).bits()
    return ReducedArgument(n, whole, shifted.bits(), r)


def bounded(x: Number) -> Number:
    """Return x within the range in which exp needs to be computed; NaN stays."""
    precision = _PRECISION[x.element]
    return x.at_least(precision.low).at_most(precision.high)


def exp(x: Number, *, halvings: int = 0, coefficients: Sequence[float] = ()) -> Number:
    """Return e to the x, divided by 2**halvings.

    Where that is 0 it is not computed: to underflow takes processors a hundred cycles.
    """
    precision = _PRECISION[x.element]
    if is_gpu(x.target) and not x.is_double and not halvings:
        return estimated_exp(x)
    high = precision.high + halvings * math.log(2.0)
    if has_wide(x):
        lasts = x.compare("uge", precision.low)
        return exp_of_parts(x.at_most(high), None, halvings, coefficients, lasts)
    vanishes = x < precision.low
    finite = x.where(vanishes, x.constant(0.0)).at_most(high)
    grown = exp_of_parts(finite, None, halvings, coefficients)
    return grown.where(vanishes, x.constant(0.0))


def exp_of_parts(
    x: Number,
    rest: Number | None,
    halvings: int = 0,
    coefficients: Sequence[float] = (),
    lasts: Number | None = None,
) -> Number:
    """Return exp(x + rest) / 2**halvings for a bounded x and a rest below its last bit.

    Where `lasts`, an i1 that takes `has_wide`, does not hold it is 0, and x need not be bounded.
    """
    parts = reduced(x)
    r = parts.r if rest is None else parts.r + rest
    grown = horner(r, (*(coefficients or EXP[x.element]), 1.0, 1.0))
    n, both = parts.n, parts.both
    if halvings:
        n, both = n - float(halvings), both - halvings
    return scaled(grown, n, both) if lasts is None else scaled_where(lasts, grown, n)


def small_exp(x: Number) -> Number:
    """Return exp(x) of a negative x for a sum with 1, neither 0 nor infinite."""
    parts = reduced(x, roughly=True)
    grown = horner(parts.r, (*EXP[x.element], 1.0, 1.0))
    if has_wide(x):
        return scaled(grown, parts.n, parts.both)
    return grown * power_of_two(parts.whole)


def expm1(x: Number) -> Number:
    """Return exp(x) - 1."""
    precision = _PRECISION[x.element]
    parts = reduced(x.at_least(precision.minus_one_below).at_most(precision.high - 1.0))
    half = power_of_two(parts.whole - 1)
    r = parts.r
    grown = fma(horner(r, EXP[r.element]), r * r, r)
    found = fma(grown, half, half - 0.5)
    return (found + found).where(x.abs() < TINY, x)


def logistic(x: Number) -> Number:
    """Return 1 / (1 + exp(-x)), by the exponential that is below 1."""
    small = exp_of_parts((-x.abs()).at_least(_PRECISION[x.element].low), None)
    top = (x < 0.0).select(small, 1.0)
    whole = small + 1.0
    return quotient(top, whole, small - (whole - 1.0))


def tanh(x: Number) -> Number:
    """Return the hyperbolic tangent, of n * log(2) / 2 + r a quotient in t, the one of r.

    e to the 2 |x| is 2**n * (1 + t) / (1 - t). Up to `_TANH_ALONE` n is 0, the quotient is t and
    none of its steps is rounded; from there on its terms are of one rounded divisor.
    """
    if has_wide(x) and not x.is_double:
        return _tanh_by_stretches(x)
    precision = _PRECISION[x.element]
    size = x.abs().at_most(precision.tanh_one_above)
    half, rounder = precision.log2[0] / 2, precision.rounder + TWICE_BIAS[x.element] // 2
    shifted = fma(size - (_TANH_ALONE - half / 2), 2 * math.log2(math.e), rounder)
    r = fma(shifted - rounder, -half, size)
    square = r * r
    t = fma(horner(square, TANH[x.element]), r * square, r)
    power = power_of_two(shifted.bits() - x.constant(rounder).bits())
    divisor = fma(t, power - 1.0, power + 1.0)
    return (fma(t, 2.0, divisor - 2.0) / divisor).copysign(x)


_TANH_ALONE: Final = 0.26


def _tanh_by_stretches(x: Number) -> Number:
    """The hyperbolic tangent of floats, from the value at the centre of a stretch of numbers."""
    size = x.abs().at_most(tanh_stretches.LAST)
    number = size.at_least(tanh_stretches.FIRST).bits() >> 21
    d = size - looked_up(number, tanh_stretches.CENTERS)
    first, *rest = [looked_up(number, x) for x in tanh_stretches.SLOPES]
    slope = reduce(lambda total, more: fma(total, d, more), rest, first)
    return fma(slope, d, looked_up(number, tanh_stretches.VALUES)).copysign(x)


def sinh(x: Number) -> Number:
    """Return the magnitude of the hyperbolic sine."""
    size = x.abs()
    y = expm1(size.at_most(1.0))
    near = (y + y / (y + 1.0)) * 0.5
    half = exp(size, halvings=1)
    far = half - 0.25 / half
    return far.where(size < 1.0, near)


def cosh(x: Number) -> Number:
    """Return the hyperbolic cosine."""
    half = exp(x.abs(), halvings=1)
    return half + 0.25 / half


TINY: Final = 1e-30
"""Below this magnitude an odd function with derivative 1 at 0 is its operand."""


def by_double(function: Callable[..., Number], *, odd: bool = False) -> Callable[..., Number]:
    """Return a function that is computed in double and rounded to its operands' type.

    One that is odd yields magnitudes, and gets the sign of its first operand when it is rounded:
    LLVM cannot take signs of doubles from f16, which is what a float may have been.
    """

    def rounded_once(*operands: Number) -> Number:
        found = function(*[x.extended() for x in operands])
        found = found if operands[0].is_double else found.shortened()
        return found.copysign(operands[0]) if odd else found

    return rounded_once


def short_exp(x: Number) -> Number:
    """Return exp(x) of a double to 37 bits."""
    return exp(x, coefficients=EXP_SHORT)


_NEAR: Final = {"float": 1.1299999952316284, "double": 1.0}
_ONE: Final = {"float": 3.95, "double": 6.0}
"""From where on erf is 1."""


def erf(x: Number) -> Number:
    """Return the error function."""
    if has_wide(x) and not x.is_double:
        return _erf_by_stretches(x)
    size = x.abs().at_most(_ONE[x.element])
    near = fma(horner(x * x, ERF_NEAR[x.element]), x, x)
    far = 1.0 - small_exp(-horner(size, ERF_FAR)) if x.is_double else _erf_of_large(size)
    return (size > _NEAR[x.element]).select(far.copysign(x), near)


def _erf_of_large(size: Number) -> Number:
    """The error function of floats that are not small: the rest to 1 is a fourth power.

    It takes a polynomial where the logarithm of the rest takes one and an exponential. The less
    there is of the rest, the less do errors of its root count.
    """
    root = horner(size, ERF_FAR_ROOT)
    square = root * root
    return fma(-square, square, 1.0)


def _erf_by_stretches(x: Number) -> Number:
    """The error function of floats, from the value at the centre of a stretch of numbers.

    In the first stretch, whose value is 0, the distance from its centre is most of the result.
    """
    size = x.abs().at_most(erf_stretches.LAST)
    number = (size + erf_stretches.ROUNDER).bits()
    d = size - looked_up(number, erf_stretches.CENTERS)
    first, *rest = [looked_up(number, x) for x in erf_stretches.SLOPES]
    slope = reduce(lambda total, more: fma(total, d, more), rest, first)
    value = looked_up(number, erf_stretches.VALUES)
    return fma(slope, d, value.where(value < d, d)).copysign(x)


FUNCTIONS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.COSH: by_double(cosh),
    Opcode.ERF: erf,
    Opcode.EXPONENTIAL: exp,
    Opcode.EXPONENTIAL_MINUS_ONE: expm1,
    Opcode.LOGISTIC: logistic,
    Opcode.SINH: by_double(sinh, odd=True),
    Opcode.TANH: tanh,
}
