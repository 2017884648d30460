"""power and remainder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.elementwise.exponential import bounded, exp_of_parts, short_exp
from lowtide.codegen.elementwise.logarithm import log_in_parts, short_log
from lowtide.codegen.elementwise.number import Number, any_lane, fma
from lowtide.codegen.elementwise.processor import power_of_two
from lowtide.codegen.elementwise.rare import called
from lowtide.ir.opcode import Opcode
from lowtide.llvm.callee import external, suffix


def power(x: Number, y: Number) -> Number:
    """Return x to the power of y, with C's rules for what is not finite or not positive."""
    a, b = x.extended(), y.extended()
    grown = _positive_double(a.abs(), b) if x.is_double else _positive_single(a.abs(), b)
    whole = b.intrinsic("floor").equals(b)
    half = b * 0.5
    odd = whole & half.intrinsic("floor").differs(half) & (b.abs() < math.inf)
    negative = a.bits() < 0
    grown = grown.where(negative & odd, -grown)
    grown = grown.where((a < 0.0) & ~whole & (a > -math.inf), math.nan)
    grown = grown.where(b.equals(0.0) | a.equals(1.0), 1.0)
    return grown if x.is_double else grown.shortened()


def _positive_single(x: Number, y: Number) -> Number:
    """x**y of doubles that are floats, x >= 0, for a result that is rounded to float."""
    exponent = y * short_log(x)
    return short_exp(exponent.where(x.equals(1.0), 0.0))


def _positive_double(x: Number, y: Number) -> Number:
    """x**y for x >= 0; the product with the logarithm is kept in two parts."""
    regular = (x > 0.0) & (x < math.inf)
    high, low = log_in_parts(regular.select(x, 1.0))
    product = y * high
    rest = fma(y, high, -product) + y * low
    usual = (product.abs() < 1000.0) & regular
    exponent = bounded(product.where(x.equals(1.0), 0.0))
    grown = exp_of_parts(exponent, usual.select(rest, 0.0))
    up = (x > 0.0).select(y, -y)
    extreme = (up > 0.0).select(x.constant(math.inf), 0.0)
    return grown.where(~regular, extreme).where(x.is_nan() | y.is_nan(), math.nan)


# -- remainder ---------------------------------------------------------------------------------

_STEP: Final = 50
"""Bits of the quotient that a step takes away."""

_WHOLE: Final = {"float": 2.0**23, "double": 2.0**52}
"""Quotients below this have a whole part that a rounded quotient exceeds by one at most."""


def remainder(x: Number, y: Number) -> Number:
    """Return what is left of x after subtracting y a whole number of times, with the sign of x.

    Exact: y times a whole number, or times a power of two, is subtracted by a fused multiplication.
    """
    size, by = x.abs(), y.abs()
    times = (size / by).intrinsic("trunc")
    left = fma(-times, by, size)
    left = left.where(left < 0.0, left + by).copysign(x)
    is_short = (times < _WHOLE[x.element]) & (by < math.inf)

    def any_remainder() -> list[str]:
        return [part.name for part in called("remainder", _any_remainder, x, y)]

    (name,) = x.fn.choose(any_lane(~is_short), [x.type], any_remainder, lambda: [left.name])
    return x.named(x.element, name)


def _any_remainder(x: Number, y: Number) -> tuple[Number]:
    """The remainder of numbers whose quotient may have any size."""
    a, b = x.extended(), y.extended()
    valid = (a.abs() < math.inf) & (b.abs() > 0.0)
    short = valid & (b.abs() < math.inf)
    rest = _stepped(short.select(a.abs(), 0.0), short.select(b.abs(), 1.0))
    found = rest.copysign(a).where(b.abs().equals(math.inf), a)
    found = valid.select(found, math.nan)
    return (found if x.is_double else found.shortened(),)


def _exponent(x: Number) -> Number:
    """The exponent of a positive double, as i64; some low number for 0."""
    tiny = x < 2.0**-1022
    bits = x.where(tiny, x * 2.0**54).bits()
    exponent = (bits >> 52) - 1023
    return exponent.where(tiny, exponent - 54)


def _stepped(rest: Number, y: Number) -> Number:
    """The remainder of positive doubles."""
    fn, own = rest.fn, _exponent(y)
    distance = (_exponent(rest) - own).intrinsic("smax", 0)
    steps = fn.add(fn.op(f"udiv i64 {_greatest(distance)}, {_STEP}"), 1)
    with fn.loop(0, steps, carry=[(rest.type, rest.name)]) as loop:
        now = rest.named("double", loop.values[0])
        ahead = (_exponent(now) - own - _STEP).intrinsic("smax", 0).intrinsic("smin", 2046)
        half = ahead >> 1
        multiple = (y * power_of_two(half)) * power_of_two(ahead - half)
        left = fma(-(now / multiple).intrinsic("trunc"), multiple, now)
        loop.next = [left.where(left < 0.0, left + multiple).name]
    return rest.named("double", loop.results[0])


def _greatest(x: Number) -> str:
    """The greatest lane, an i64."""
    if not x.lanes:
        return x.name
    greatest = external(f"llvm.vector.reduce.smax.{suffix(x.type)}", "i64", x.type)
    return x.fn.call(greatest, [x.name])


FUNCTIONS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.POWER: power,
    Opcode.REMAINDER: remainder,
}
