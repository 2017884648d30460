"""Functions of fixed-point numbers of 32 and of 16 bits, as quantized kernels take them.

A number with i integer bits is its 32 bits over 2^(31 - i), or its 16 bits over 2^(15 - i). Those
of 32 bits are kept in 64 bits here, those of 16 in 32: the type of an operand says which they are.
Products are rounded to the bits of a number, and halves go away from zero. Source of the method:
B. Jacob et al., gemmlowp's fixed-point arithmetic.
"""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.ir.element_type import ElementType

_SOFTMAX_BITS: Final = 5
"""Integer bits of the exponents of softmax."""

_LEAST_POWER: Final = -2
_POWERS: Final = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""e to the powers -1/4, -1/2, -1, -2, -4, -8, -16 in 32 bits without integer bits."""

_FAR_BITS: Final = 5
"""From -2^5 on e^x is 0 where numbers have more integer bits than that."""

_EXP_EIGHTH: Final = 1895147668
_THIRD: Final = 715827883
"""e^(-1/8) and 1/3 without integer bits."""

_HALF_THREE: Final = 3 << 27
"""3/2 with 3 integer bits."""

_HALF_ROOT: Final = 1518500250
"""sqrt(1/2) without integer bits."""

_START, _SLOPE = 1515870810, -1010580540
"""48/17 and -32/17 with 2 integer bits: the first guess of Newton's method for reciprocals."""

_WIDE_POINT: Final = 31


def point(x: Op) -> int:
    """Return the bits of a number but for its sign: 31, or 15 for those kept in 32 bits."""
    return x.element_type.bits // 2 - 1


def one(x: Op) -> int:
    """Return the greatest number without integer bits, which stands for 1."""
    return (1 << point(x)) - 1


def product(b: Builder, x: Op, y: Op | int) -> Op:
    """Return x times y over 2^31, or over 2^15, rounded."""
    return b.shift_right_arithmetic(x * y + (1 << point(x) >> 1), like(b, x, point(x)))


def shifted_right(b: Builder, x: Op, bits: Op | int) -> Op:
    """Return x over a power of two, rounded."""
    amount = like(b, x, bits) if isinstance(bits, int) else bits
    mask = b.shift_left(like(b, x, 1), amount) - 1
    threshold = b.shift_right_arithmetic(mask, like(b, x, 1))
    threshold = threshold + b.convert(x.lt(0), x.element_type)
    more = b.convert(b.and_(x, mask).gt(threshold), x.element_type)
    return b.shift_right_arithmetic(x, amount) + more


def shifted_left(b: Builder, x: Op, bits: int) -> Op:
    """Return x times a power of two, within the bits of a number."""
    return b.maximum(b.minimum(x * (1 << bits), one(x)), -one(x) - 1)


def like(b: Builder, x: Op, value: int) -> Op:
    """Return a number for each element of x."""
    return b.broadcast(b.constant(value, x.element_type), x.dimensions, [])


def logistic(b: Builder, x: Op, bits: int) -> Op:
    """Return 1 / (1 + e^-x) without integer bits, of x with some integer bits."""
    found = shifted_left(b, _newton(b, exponential(b, -b.abs(x), bits)), 1)
    found = b.select(x.gt(0), found, b.subtract(one(x), found))
    return b.select(x.eq(0), like(b, x, 1 << point(x) >> 1), found)


def tangent(b: Builder, x: Op, bits: int) -> Op:
    """Return the hyperbolic tangent without integer bits, of x with some integer bits."""
    power = exponential(b, -b.abs(x), bits + 1)
    found = shifted_left(b, _newton(b, power) - (1 << point(x) >> 2), 2)
    return b.select(x.eq(0), like(b, x, 0), b.select(x.lt(0), -found, found))


def exponential(b: Builder, x: Op, bits: int = _SOFTMAX_BITS) -> Op:
    """Return e^x without integer bits, of x <= 0 with some of them.

    x is a multiple of 1/4, from which powers are taken bit by bit, and a rest in [-1/4, 0).
    """
    quarter = 1 << (point(x) - bits + _LEAST_POWER)
    rest = b.and_(x, like(b, x, quarter - 1)) - quarter
    found = _small_exponential(b, shifted_left(b, rest, bits))
    quarters = rest - x
    for place, power in enumerate(_POWERS[: bits - _LEAST_POWER]):
        bit = b.and_(quarters, like(b, x, quarter << place))
        found = b.select(bit.ne(0), product(b, found, _narrowed(x, power)), found)
    if bits > _FAR_BITS:
        is_far = x.lt(-(1 << (point(x) - bits + _FAR_BITS)))
        found = b.select(is_far, like(b, x, 0), found)
    return b.select(x.eq(0), like(b, x, one(x)), found)


def _narrowed(x: Op, value: int) -> int:
    """Return a constant of 32 bits with the bits of x, rounded; halves go away from zero."""
    drop = _WIDE_POINT - point(x)
    rounded = (abs(value) + (1 << drop >> 1)) >> drop
    return rounded if value >= 0 else -rounded


def _small_exponential(b: Builder, x: Op) -> Op:
    """Return e^x for x in [-1/4, 0): four terms of the series around -1/8."""
    start, third = _narrowed(x, _EXP_EIGHTH), _narrowed(x, _THIRD)
    y = x + (1 << point(x) >> 3)
    square = product(b, y, y)
    fourth = shifted_right(b, product(b, square, square), 2)
    cube = product(b, square, y)
    terms = shifted_right(b, product(b, fourth + cube, third) + square, 1)
    return product(b, y + terms, start) + start


def reciprocal_of_more_than_one(b: Builder, x: Op) -> Op:
    """Return 1 / (1 + x) for x in [0, 1), without integer bits."""
    return shifted_left(b, _newton(b, x), 1)


def _newton(b: Builder, x: Op) -> Op:
    """Return 2 / (1 + x) for x in [0, 1), with 2 integer bits: three steps of Newton's method."""
    total = x + one(x)
    half = (total + b.select(total.ge(0), like(b, x, 1), like(b, x, -1))) / 2
    found = product(b, half, _narrowed(x, _SLOPE)) + _narrowed(x, _START)
    for _ in range(3):
        missing = b.subtract(1 << point(x) >> 2, product(b, half, found))
        found = found + shifted_left(b, product(b, found, missing), 2)
    return found


def leading_zeros(b: Builder, x: Op) -> Op:
    """Return how many of the 32 bits of x are 0 before the first 1."""
    narrow = b.convert(x, ElementType.S32)
    return b.convert(b.count_leading_zeros(narrow), ElementType.S64)


def inverse_root(b: Builder, x: Op) -> tuple[Op, Op]:
    """Return 1 / sqrt(x) of whole numbers: without integer bits, and by how many bits to shift.

    The shift goes right. Five steps of Newton's method; what is at most 1 gives 1.
    """
    ones, shift = like(b, x, 1), like(b, x, 11)
    rest = b.maximum(x, 2)
    is_great = rest.ge(1 << 29)
    rest = b.select(is_great, rest / 4, rest)
    shift = shift + b.convert(is_great, ElementType.S64)
    pairs = (leading_zeros(b, rest) - 1) / 2 - 1
    shift = shift - pairs
    rest = b.shift_left(rest, pairs * 2)
    half = shifted_right(b, b.shift_right_arithmetic(rest, ones), 1)
    found = like(b, x, 1 << 28)
    for _ in range(5):
        cube = shifted_left(b, product(b, product(b, found, found), found), 6)
        found = product(b, found, _HALF_THREE) - product(b, half, cube)
        found = shifted_left(b, found, 3)
    found = product(b, found, _HALF_ROOT)
    found = b.shift_left(found, b.maximum(-shift, 0))
    shift = b.maximum(shift, 0)
    is_one = x.le(1)
    return b.select(is_one, like(b, x, one(x)), found), b.select(is_one, like(b, x, 0), shift)
