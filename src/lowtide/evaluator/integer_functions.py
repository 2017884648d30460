"""Functions of integers: they wrap around, and are defined for every operand.

Division by zero gives -1 (all bits set), its remainder the dividend; the least integer divided by
-1 is itself. Shift counts are read as unsigned; one that reaches the width shifts everything out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.evaluator.bits import count_leading_zeros, population_count
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

Function: TypeAlias = Callable[..., Any]


def divide(a: Array, b: Array) -> Array:
    """Return the quotient, rounded toward zero."""
    zero = b == 0
    minus_one = b.dtype.kind == "i" and b == -1
    divisor = np.where(zero | minus_one, b.dtype.type(1), b)
    quotient = (a - np.fmod(a, divisor)) // divisor
    quotient = np.where(minus_one, np.negative(a), quotient)
    return np.where(zero, ~np.zeros((), a.dtype), quotient)


def remainder(a: Array, b: Array) -> Array:
    """Return what `divide` leaves over; it has the sign of the dividend."""
    zero = b == 0
    minus_one = b.dtype.kind == "i" and b == -1
    rest = np.fmod(a, np.where(zero | minus_one, b.dtype.type(1), b))
    return np.where(zero, a, rest)


def power(a: Array, b: Array) -> Array:
    """Return `a` to the power of `b`, wrapped; for negative `b` the truncated quotient 1/a**-b."""
    one = a.dtype.type(1)
    result = np.broadcast_to(one, np.broadcast_shapes(a.shape, b.shape))
    base, exponent = a, b
    for _ in range(8 * b.dtype.itemsize):
        result = np.where(exponent & one, result * base, result)
        base, exponent = base * base, exponent >> one
    if b.dtype.kind == "u":
        return result
    unit = (a == 1) | (a == -1)
    odd_sign = np.where(b & one, a, one)
    return np.where(b >= 0, result, np.where(unit, odd_sign, a.dtype.type(0)))


def multiply_high(a: Array, b: Array) -> Array:
    """Return the upper half of the product of twice the width."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return np.asarray(a.astype(wide) * b.astype(wide) >> wide(bits)).astype(a.dtype)
    high = _unsigned_high(a.astype(np.uint64), b.astype(np.uint64))
    if a.dtype.kind == "u":
        return high
    signed = high.astype(np.int64)
    return signed - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


def _unsigned_high(a: Array, b: Array) -> Array:
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    low = a0 * b0
    middle = a1 * b0 + (low >> half)
    other = a0 * b1 + (middle & mask)
    return np.asarray(a1 * b1 + (middle >> half) + (other >> half))


def shift_left(bits: int, a: Array, count: Array) -> Array:
    """Return `a` with its bits moved up, zeros from below."""
    inside, distance = _distance(bits, count)
    moved: Array = np.left_shift(a, distance.astype(a.dtype))
    return np.where(inside, moved, a.dtype.type(0))


def shift_right_logical(bits: int, a: Array, count: Array) -> Array:
    """Return `a` with its bits moved down, zeros from above."""
    inside, distance = _distance(bits, count)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    raw = a.astype(unsigned) & unsigned.type((1 << bits) - 1)
    shifted = np.right_shift(raw, distance.astype(unsigned))
    return np.asarray(np.where(inside, shifted, unsigned.type(0))).astype(a.dtype)


def shift_right_arithmetic(bits: int, a: Array, count: Array) -> Array:
    """Return `a` with its bits moved down, the top bit copied from above."""
    inside, distance = _distance(bits, count)
    signed = np.dtype(f"i{a.dtype.itemsize}")
    unused = signed.type(8 * a.dtype.itemsize - bits)
    value = np.right_shift(np.left_shift(a.astype(signed), unused), unused)
    distance = np.where(inside, distance, np.uint64(bits - 1))
    return np.asarray(np.right_shift(value, distance.astype(signed))).astype(a.dtype)


def _distance(bits: int, count: Array) -> tuple[Array, Array]:
    """Return where the count is below the width, and the count there, 0 elsewhere."""
    mask = np.uint64((1 << bits) - 1)
    unsigned = count.astype(np.uint64) & mask
    inside = unsigned < bits
    return inside, np.where(inside, unsigned, np.uint64(0))


_COMMON: Final[Mapping[Opcode, Function]] = {
    Opcode.ABS: np.abs,
    Opcode.ADD: np.add,
    Opcode.AND: np.bitwise_and,
    Opcode.DIVIDE: divide,
    Opcode.MAXIMUM: np.maximum,
    Opcode.MINIMUM: np.minimum,
    Opcode.MULHI: multiply_high,
    Opcode.MULTIPLY: np.multiply,
    Opcode.NEGATE: np.negative,
    Opcode.NOT: np.invert,
    Opcode.OR: np.bitwise_or,
    Opcode.POWER: power,
    Opcode.REMAINDER: remainder,
    Opcode.SIGN: np.sign,
    Opcode.SUBTRACT: np.subtract,
    Opcode.XOR: np.bitwise_xor,
}


def functions(element_type: ElementType) -> dict[Opcode, Function]:
    """Return the functions of one integer type; operands come in its computing dtype."""
    bits = element_type.bits
    return {
        **_COMMON,
        Opcode.COUNT_LEADING_ZEROS: partial(count_leading_zeros, bits),
        Opcode.POPULATION_COUNT: partial(population_count, bits),
        Opcode.SHIFT_LEFT: partial(shift_left, bits),
        Opcode.SHIFT_RIGHT_ARITHMETIC: partial(shift_right_arithmetic, bits),
        Opcode.SHIFT_RIGHT_LOGICAL: partial(shift_right_logical, bits),
    }
