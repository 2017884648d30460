"""Angles taken modulo pi / 2, for sine, cosine and tangent.

x = n * pi/2 + r with |r| <= pi/4 and a little. Up to a bound n * pi/2 is subtracted in parts.
Beyond it, lane by lane, x is multiplied by the bits of 2/pi that matter for the fraction. Sources:
W. J. Cody, W. Waite (1980), Software Manual for the Elementary Functions; M. Payne, R. Hanek
(1983), Radian Reduction for Trigonometric Functions.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from lowtide.codegen.elementwise.number import INTEGER_OF, Number, any_lane, exact_sum, fma
from lowtide.codegen.elementwise.processor import power_of_two
from lowtide.codegen.elementwise.rare import called
from lowtide.llvm.callee import external
from lowtide.llvm.objects import COMMON
from lowtide.records import dataclass

_PARTS: Final = {
    "float": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
"""pi / 2 in three parts."""

_ROUNDER: Final = {"float": 12582912.0, "double": 6755399441055744.0}
_BOUND: Final = {"float": 32768.0, "double": 1048576.0}
"""Up to which magnitude the parts suffice."""

_WORDS: Final = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)
"""A word of zeros, then the bits of 2 / pi behind the point, 64 a word."""

_TABLE: Final = f"{COMMON}two_over_pi"


@dataclass(frozen=True, slots=True)
class Angle:
    """r, in double its rounding error, and n modulo 4 in the last bits of an integer."""

    r: Number
    rest: Number | None
    quadrant: Number


def reduced(x: Number) -> Angle:
    """Return an angle modulo pi / 2; NaN for what is not finite."""
    near = _subtracted(x)
    far = ~(x.abs() <= _BOUND[x.element])

    def multiplied() -> list[str]:
        pairs = zip(_each_lane(x), near, strict=True)
        return [far.select(y, kept).name for y, kept in pairs]

    def kept() -> list[str]:
        return [y.name for y in near]

    found = x.fn.choose(any_lane(far), [y.type for y in near], multiplied, kept)
    parts = [y.named(y.element, name) for y, name in zip(near, found, strict=True)]
    return Angle(parts[0], parts[1] if x.is_double else None, parts[-1])


def _subtracted(x: Number) -> tuple[Number, ...]:
    """The parts of the angle of a number up to the bound.

    The first product with n and its difference from x are exact, since r is less than 1.
    """
    first, second, third = _PARTS[x.element]
    shifted = fma(x, 2.0 / math.pi, _ROUNDER[x.element])
    n = shifted - _ROUNDER[x.element]
    high = fma(n, -first, x)
    if not x.is_double:
        return fma(n, -third, fma(n, -second, high)), shifted.bits()
    product = n * second
    r, lost = exact_sum(high, -product)
    rest = fma(n, -third, lost - fma(n, second, -product))
    return r, rest, shifted.bits()


def _each_lane(x: Number) -> tuple[Number, ...]:
    """The parts of the angles of all lanes, which a function of its own finds."""
    if x.lanes:
        return called("angle", _in_turn, x)
    return _narrowed(x, called("angle", _of_any_magnitude, x.extended()))


def _in_turn(x: Number) -> tuple[Number, ...]:
    """The parts of the angles of all lanes, one after the other, by way of the stack."""
    fn, elements = x.fn, _parts_of(x)
    given = fn.stack(x.element, x.lanes)
    fn.store(x.type, x.name, given, 64)
    results = [fn.stack(element, x.lanes) for element in elements]
    with fn.loop(0, x.lanes) as loop:
        size = x.width // 8
        loaded = fn.load(x.element, fn.gep(given, loop.index, x.element), size)
        lane = Number(fn, x.target, x.element, 0, loaded)
        for element, base, value in zip(elements, results, _each_lane(lane), strict=True):
            fn.store(element, value.name, fn.gep(base, loop.index, element), size)
    names = [
        fn.load(x.named(element, "").type, base, 64)
        for element, base in zip(elements, results, strict=True)
    ]
    return tuple([x.named(e, name) for e, name in zip(elements, names, strict=True)])


def _parts_of(x: Number) -> tuple[str, ...]:
    """The element types of r, in double of its rounding error, and of the quadrant."""
    return (*[x.element] * (1 + x.is_double), INTEGER_OF[x.element])


def _narrowed(x: Number, parts: tuple[Number, ...]) -> tuple[Number, ...]:
    """The parts of an angle in double as those of a number of the type of x."""
    if x.is_double:
        return parts
    r, _, count = parts
    return r.shortened(), count.cast("trunc", INTEGER_OF[x.element])


def _of_any_magnitude(x: Number) -> tuple[Number, Number, Number]:
    """The parts of the angle of a double of at least 1.

    |x| = m * 2**e with an integer m of 53 bits. The bits of 2/pi from number e - 2 on, times m,
    are the fraction of a full turn; those before make whole turns, and those behind 192 bits do
    not count.
    """
    bits = x.bits()
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    skipped = ((bits >> 52) & 0x7FF) - (1023 + 52 + 2 - 64)
    m = mantissa.cast("zext", "i128")
    first, second, third = _window(skipped.intrinsic("smax", 0))
    turn = ((m * first) << 64) + m * second + ((m * third) >> 64)
    quadrant = (turn + (1 << 125)) >> 126
    high, low = _radians(turn - (quadrant << 126))
    high = high + (x - x)
    negative = x < 0.0
    count = quadrant.cast("trunc", "i64")
    r, rest, count = [y.where(negative, -y) for y in (high, low, count)]
    return r, rest, count


def _window(skipped: Number) -> tuple[Number, Number, Number]:
    """The three words of the table from a bit on, as i128."""
    fn = skipped.fn
    words = ", ".join([f"i64 {skipped.constant(word).name}" for word in _WORDS])
    count = len(_WORDS)
    fn.define(f"@{_TABLE} = private unnamed_addr constant [{count} x i64] [{words}], align 8")
    shift = skipped & 63
    base = fn.gep(f"@{_TABLE}", (skipped >> 6).name, "i64")
    words_read = [skipped.named("i64", fn.load("i64", fn.gep(base, i, "i64"), 8)) for i in range(4)]
    first, second, third = (
        a.intrinsic("fshl", b, shift).cast("zext", "i128") for a, b in pairwise(words_read)
    )
    return first, second, third


def _radians(quarters: Number) -> tuple[Number, Number]:
    """A signed i128 that counts 2**-126 of a quarter turn, in radians, as a sum of two doubles."""
    negative = quarters < 0
    size = quarters.where(negative, -quarters)
    clear = external("llvm.ctlz.i128", "i128", "i128", "i1")
    zeros = size.named("i128", size.fn.call(clear, [size.name, "false"]))
    aligned = size << zeros
    top = (aligned >> 75).cast("trunc", "i64").cast("sitofp", "double")
    behind = (aligned >> 22).cast("trunc", "i64") & ((1 << 53) - 1)
    scale = power_of_two(zeros.cast("trunc", "i64") * -1 + (128 - 126 - 53))
    scale = scale.where(negative, -scale)
    high = top * scale
    low = behind.cast("sitofp", "double") * (scale * 2.0**-53)
    first, second, _ = _PARTS["double"]
    product = high * first
    return product, fma(high, first, -product) + fma(high, second, low * first)
