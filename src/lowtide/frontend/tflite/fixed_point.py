"""Exponentials and reciprocals of fixed-point numbers of 32 bits, as quantized softmax takes them.

A number with i integer bits is its 32 bits over 2^(31 - i). They are kept in 64 bits here; products
are rounded to 32 bits, and halves go away from zero. Source of the method: B. Jacob et al.,
gemmlowp's fixed-point arithmetic.
"""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.ir.element_type import ElementType

_ONE: Final = (1 << 31) - 1
"""The greatest number without integer bits, which stands for 1."""

_EXPONENT_BITS: Final = 5
_QUARTER: Final = 1 << (31 - _EXPONENT_BITS - 2)
_EIGHTH: Final = 1 << 28
_EXP_EIGHTH: Final = 1895147668
_THIRD: Final = 715827883
"""e^(-1/8) and 1/3 without integer bits."""

_HALF_THREE: Final = 3 << 27
"""3/2 with 3 integer bits."""

_HALF_ROOT: Final = 1518500250
"""sqrt(1/2) without integer bits."""

_POWERS: Final = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""e to the powers -1/4, -1/2, -1, -2, -4, -8, -16 without integer bits."""

_START, _SLOPE = 1515870810, -1010580540
"""48/17 and -32/17 with 2 integer bits: the first guess of Newton's method for reciprocals."""


def product(b: Builder, x: Op, y: Op | int) -> Op:
    """Return x times y over 2^31, rounded."""
    return b.shift_right_arithmetic(x * y + (1 << 30), like(b, x, 31))


def shifted_right(b: Builder, x: Op, bits: Op | int) -> Op:
    """Return x over a power of two, rounded."""
    amount = like(b, x, bits) if isinstance(bits, int) else bits
    mask = b.shift_left(like(b, x, 1), amount) - 1
    threshold = b.shift_right_arithmetic(mask, like(b, x, 1))
    threshold = threshold + b.convert(x.lt(0), ElementType.S64)
    more = b.convert(b.and_(x, mask).gt(threshold), ElementType.S64)
    return b.shift_right_arithmetic(x, amount) + more


def shifted_left(b: Builder, x: Op, bits: int) -> Op:
    """Return x times a power of two, within 32 bits."""
    return b.maximum(b.minimum(x * (1 << bits), _ONE), -_ONE - 1)


def like(b: Builder, x: Op, value: int) -> Op:
    """Return a number for each element of x."""
    return b.broadcast(b.constant(value, ElementType.S64), x.dimensions, [])


def exponential(b: Builder, x: Op) -> Op:
    """Return e^x without integer bits, of x <= 0 with 5 of them.

    x is a multiple of 1/4, from which powers are taken bit by bit, and a rest in [-1/4, 0).
    """
    rest = b.and_(x, like(b, x, _QUARTER - 1)) - _QUARTER
    found = _small_exponential(b, shifted_left(b, rest, _EXPONENT_BITS))
    quarters = rest - x
    for place, power in enumerate(_POWERS):
        bit = b.and_(quarters, like(b, x, _QUARTER << place))
        found = b.select(bit.ne(0), product(b, found, power), found)
    return b.select(x.eq(0), like(b, x, _ONE), found)


def _small_exponential(b: Builder, x: Op) -> Op:
    """Return e^x for x in [-1/4, 0): four terms of the series around -1/8."""
    y = x + _EIGHTH
    square = product(b, y, y)
    fourth = shifted_right(b, product(b, square, square), 2)
    cube = product(b, square, y)
    terms = shifted_right(b, product(b, fourth + cube, _THIRD) + square, 1)
    return product(b, y + terms, _EXP_EIGHTH) + _EXP_EIGHTH


def reciprocal_of_more_than_one(b: Builder, x: Op) -> Op:
    """Return 1 / (1 + x) for x in [0, 1), without integer bits: three steps of Newton's method."""
    total = x + _ONE
    half = (total + b.select(total.ge(0), like(b, x, 1), like(b, x, -1))) / 2
    found = product(b, half, _SLOPE) + _START
    for _ in range(3):
        missing = (1 << 29) - product(b, half, found)
        found = found + shifted_left(b, product(b, found, missing), 2)
    return shifted_left(b, found, 1)


def leading_zeros(b: Builder, x: Op) -> Op:
    """Return how many of the 32 bits of x are 0 before the first 1."""
    narrow = b.convert(x, ElementType.S32)
    return b.convert(b.count_leading_zeros(narrow), ElementType.S64)


def inverse_root(b: Builder, x: Op) -> tuple[Op, Op]:
    """Return 1 / sqrt(x) of whole numbers: without integer bits, and by how many bits to shift.

    The shift goes right. Five steps of Newton's method; what is at most 1 gives 1.
    """
    one, shift = like(b, x, 1), like(b, x, 11)
    rest = b.maximum(x, 2)
    is_great = rest.ge(1 << 29)
    rest = b.select(is_great, rest / 4, rest)
    shift = shift + b.convert(is_great, ElementType.S64)
    pairs = (leading_zeros(b, rest) - 1) / 2 - 1
    shift = shift - pairs
    rest = b.shift_left(rest, pairs * 2)
    half = shifted_right(b, b.shift_right_arithmetic(rest, one), 1)
    found = like(b, x, 1 << 28)
    for _ in range(5):
        cube = shifted_left(b, product(b, product(b, found, found), found), 6)
        found = product(b, found, _HALF_THREE) - product(b, half, cube)
        found = shifted_left(b, found, 3)
    found = product(b, found, _HALF_ROOT)
    found = b.shift_left(found, b.maximum(-shift, 0))
    shift = b.maximum(shift, 0)
    is_one = x.le(1)
    return b.select(is_one, like(b, x, _ONE), found), b.select(is_one, like(b, x, 0), shift)
