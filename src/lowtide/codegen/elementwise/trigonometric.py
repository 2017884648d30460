"""sin, cos, tan, and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.elementwise import reduction
from lowtide.codegen.elementwise.coefficients import ASIN, ATAN, COS, SIN
from lowtide.codegen.elementwise.exponential import by_double
from lowtide.codegen.elementwise.number import Number, fma, horner
from lowtide.codegen.elementwise.reduction import Angle
from lowtide.ir.opcode import Opcode

HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17)
"""pi / 2 in two parts."""


def _sine(angle: Angle) -> Number:
    """sin(r + rest) for |r| <= pi / 4."""
    r, rest = angle.r, angle.rest
    square = r * r
    polynomial = horner(square, SIN[r.element])
    if rest is None:  # The cube is there before the polynomial is.
        return fma(square * r, polynomial, r)
    return r + fma(polynomial * square, r, fma(square, rest * -0.5, rest))


def _cosine(angle: Angle) -> Number:
    """cos(r + rest) for |r| <= pi / 4; in double 1 - r**2 / 2 without its rounding error."""
    r, rest = angle.r, angle.rest
    square = r * r
    polynomial = horner(square, COS[r.element])
    if rest is None:
        return fma(square, fma(square, polynomial, -0.5), 1.0)
    half = square * 0.5
    whole = 1.0 - half
    lost = fma(-r, rest, (1.0 - whole) - half)
    return whole + fma(polynomial * square, square, lost)


def sine_and_cosine(x: Number) -> tuple[Number, Number]:
    """Return sin(x) and cos(x)."""
    angle = reduction.reduced(x)
    sine, cosine = _sine(angle), _cosine(angle)
    odd = (angle.quadrant & 1).differs(0)
    a, b = odd.select(cosine, sine), odd.select(sine, cosine)
    a, b = _signed(a, angle.quadrant), _signed(b, angle.quadrant + 1)
    return a.where(x.equals(0.0), x), b


def _signed(x: Number, quadrant: Number) -> Number:
    """A number with the other sign where bit 1 of an integer is set."""
    if not x.lanes and not x.target.has("avx512f"):
        return x.where((quadrant & 2).differs(0), -x)
    sign = (quadrant & 2) << (x.width - 2)
    return (x.bits() ^ sign).from_bits()


def sin(x: Number) -> Number:
    """Return the sine."""
    return sine_and_cosine(x)[0]


def cos(x: Number) -> Number:
    """Return the cosine."""
    return sine_and_cosine(x)[1]


def tan(x: Number) -> Number:
    """Return the tangent."""
    sine, cosine = sine_and_cosine(x)
    return sine / cosine


# -- inverses, in double -----------------------------------------------------------------------


def _atan_small(s: Number) -> Number:
    """atan(s) for |s| <= tan(pi / 8)."""
    square = s * s
    return fma(horner(square, ATAN) * square, s, s)


def atan2(y: Number, x: Number) -> Number:
    """Return the magnitude of the angle of the point (x, y) of doubles; its sign is that of y.

    t, the lesser of |x| and |y| through the greater, is at most 1; above tan(pi / 8) its angle is
    pi / 4 + atan((t - 1) / (t + 1)).
    """
    across, up = _tamed(x.abs(), y.abs())
    steep = up > across
    small, large = steep.select(across, up), steep.select(up, across)
    beyond = small > large * math.tan(math.pi / 8)
    top, bottom = small.where(beyond, small - large), large.where(beyond, small + large)
    ratio = (top / bottom).where(bottom.equals(0.0), 0.0)
    base = beyond.select(x.constant(math.pi / 4), 0.0)
    base_low = beyond.select(x.constant(HALF_PI[1] / 2), 0.0)
    negative = x.bits() < 0
    base, base_low, ratio = _turned(steep, HALF_PI, base, base_low, ratio)
    pi = (math.pi, 2 * HALF_PI[1])
    base, base_low, ratio = _turned(negative, pi, base, base_low, ratio)
    angle = base + (_atan_small(ratio) + base_low)
    return angle.where(x.is_nan() | y.is_nan(), math.nan)


def _tamed(a: Number, b: Number) -> tuple[Number, Number]:
    """Two magnitudes scaled alike, so that their sum is finite; infinite ones become 1 beside 0."""
    infinite = a.equals(math.inf) | b.equals(math.inf)
    a, b = (z.where(infinite, z.equals(math.inf).select(z.constant(1.0), 0.0)) for z in (a, b))
    huge = (a > 2.0**1000) | (b > 2.0**1000)
    return a.where(huge, a * 0.25), b.where(huge, b * 0.25)


def _turned(
    where: Number, whole: tuple[float, float], base: Number, low: Number, ratio: Number
) -> tuple[Number, Number, Number]:
    """`whole` less base + atan(ratio), where a condition holds."""
    high, rest = whole
    return base.where(where, high - base), low.where(where, rest - low), ratio.where(where, -ratio)


def _asin_small(x: Number) -> Number:
    """(asin(x) - x) / x for |x| <= 1/2."""
    square = x * x
    return horner(square, ASIN) * square


def _half_angle(size: Number) -> tuple[Number, Number, Number]:
    """Whether a magnitude is above 1/2; sqrt((1 - it) / 2), and what that lost by rounding."""
    far = size > 0.5
    square = (1.0 - size) * 0.5
    root = square.sqrt()
    return far, root, fma(-root, root, square) / (root + root).where(root.equals(0.0), 1.0)


def asin(x: Number) -> Number:
    """Return the magnitude of the inverse sine of a double.

    Above 1/2 by the inverse sine of sqrt((1 - x) / 2).
    """
    size = x.abs()
    far, root, lost = _half_angle(size)
    z = far.select(root, size)
    bent = _asin_small(z)
    beyond = HALF_PI[0] - 2.0 * (root - (HALF_PI[1] * 0.5 - fma(bent, root, lost)))
    return beyond.where(size <= 0.5, fma(bent, z, z))


def acos(x: Number) -> Number:
    """Return the inverse cosine of a double."""
    size = x.abs()
    far, root, lost = _half_angle(size)
    z = far.select(root, x)
    bent = _asin_small(z)
    near = HALF_PI[0] - (x - (HALF_PI[1] - bent * x))
    above = 2.0 * (root + fma(bent, root, lost))
    below = 2.0 * (HALF_PI[0] - (root + (fma(bent, root, lost) - HALF_PI[1])))
    return (x < 0.0).select(below, above).where(size <= 0.5, near)


JOINT: Final[Mapping[str, Callable[..., tuple[Number, ...]]]] = {"sine_and_cosine": sine_and_cosine}
"""Functions of several results."""

FUNCTIONS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.ACOS: by_double(acos),
    Opcode.ASIN: by_double(asin, odd=True),
    Opcode.ATAN2: by_double(atan2, odd=True),
    Opcode.COSINE: cos,
    Opcode.SINE: sin,
    Opcode.TAN: by_double(tan),
}
