"""Special functions of single elements: of gamma, of Hurwitz, and inverses of error functions.

All are reckoned in f64 and rounded once to the type of the operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.elementwise import ones_like, zeros_like
from lowtide.ir.element_type import ElementType

OneReal: TypeAlias = Callable[[Builder, Op], Op]

_SHIFT: Final = 10
"""Arguments are raised by this before asymptotic series are used."""

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""The Bernoulli numbers B2, B4, ...: terms of the series of Stirling and of Euler and Maclaurin."""

_NEWTON_STEPS: Final = 4
_WINITZKI: Final = 0.147


def in_double(function: OneReal) -> OneReal:
    """Return a function of f64 as one of any type of floats."""

    def rounded(b: Builder, x: Op) -> Op:
        return b.convert(function(b, b.convert(x, ElementType.F64)), x.element_type)

    return rounded


def log_gamma(b: Builder, x: Op) -> Op:
    """Return log |gamma(x)| of f64, infinite at 0 and at negative whole numbers."""
    is_low = x.lt(0.5)
    y = b.select(is_low, b.subtract(1.0, x), x)
    below = y
    for k in range(1, _SHIFT):
        below = below * (y + float(k))
    z = y + float(_SHIFT)
    series = zeros_like(b, z)
    for k, number in reversed([*enumerate(_BERNOULLI, 1)]):
        series = series / (z * z) + number / (2 * k * (2 * k - 1))
    found = (z - 0.5) * b.log(z) - z + 0.5 * math.log(2 * math.pi) + series / z - b.log(below)
    found = b.select(y.eq(math.inf), y, found)
    fraction = b.abs(x) - b.floor(b.abs(x))
    sine = b.abs(b.sine(b.minimum(fraction, b.subtract(1.0, fraction)) * math.pi))
    reflected = b.subtract(math.log(math.pi), b.log(sine)) - found
    return b.select(is_low, reflected, found)


def digamma(b: Builder, x: Op) -> Op:
    """Return the derivative of log gamma(x) of f64; NaN at 0 and at negative whole numbers."""
    is_low = x.lt(0.5)
    y = b.select(is_low, b.subtract(1.0, x), x)
    below = zeros_like(b, y)
    for k in range(_SHIFT):
        below = below + b.divide(1.0, y + float(k))
    z = y + float(_SHIFT)
    series = zeros_like(b, z)
    for k, number in reversed([*enumerate(_BERNOULLI, 1)]):
        series = (series + number / (2 * k)) / (z * z)
    found = b.log(z) - b.divide(0.5, z) - series - below
    turn = (x - b.round_nearest_even(x)) * math.pi
    reflected = found - b.cosine(turn) / b.sine(turn) * math.pi
    is_pole = b.and_(is_low, x.eq(b.floor(x)))
    nan = zeros_like(b, x) + math.nan
    return b.select(is_pole, nan, b.select(is_low, reflected, found))


def hurwitz_zeta(b: Builder, s: Op, q: Op) -> Op:
    """Return the sum of (q + k)^-s over all k from 0 on, of f64 with s > 1 and q > 0."""
    total = zeros_like(b, q)
    for k in range(_SHIFT):
        total = total + b.power(q + float(k), -s)
    z = q + float(_SHIFT)
    power = b.power(z, -s)
    total = total + power * z / (s - 1.0) + power * 0.5
    factor = s * power / z
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + factor * (number / math.factorial(2 * k))
        factor = factor * (s + float(2 * k - 1)) * (s + float(2 * k)) / (z * z)
    return total


def polygamma(b: Builder, n: Op, x: Op) -> Op:
    """Return the n-th derivative of digamma(x) of f64, for x > 0; n of whole numbers."""
    sign = b.select(b.remainder(n, ones_like(b, n) * 2.0).eq(0), -ones_like(b, n), ones_like(b, n))
    higher = sign * b.exponential(log_gamma(b, n + 1.0)) * hurwitz_zeta(b, n + 1.0, x)
    return b.select(n.eq(0), digamma(b, x), higher)


def erf_inverse(b: Builder, x: Op) -> Op:
    """Return y with erf(y) = x of f64: the guess of Winitzki (2008), and Newton's method."""
    size = b.abs(x)
    log = b.log_plus_one(-(x * x))
    half = log * 0.5 + 2 / (math.pi * _WINITZKI)
    y = b.sqrt(b.sqrt(half * half - log / _WINITZKI) - half)
    for _ in range(_NEWTON_STEPS):
        slope = b.exponential(-(y * y)) * (2 / math.sqrt(math.pi))
        y = y - (b.erf(y) - size) / slope
    end = b.select(size.eq(1), zeros_like(b, x) + math.inf, zeros_like(b, x) + math.nan)
    y = b.select(size.lt(1), y, end)
    return b.select(x.lt(0), -y, y)


def normal_quantile(b: Builder, p: Op) -> Op:
    """Return where the normal distribution function is p, of f64."""
    return erf_inverse(b, p * 2.0 - 1.0) * math.sqrt(2)
