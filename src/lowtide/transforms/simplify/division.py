"""Quotients and remainders."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.passes.matching import decides, has_one_user, is_all, scalar_value
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.support import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    SCALARS,
    Made,
    again,
    elementwise,
    folded,
    power_of_two,
    splat,
)

_UNSIGNED: Final = frozenset([x for x in INTEGERS if x.is_unsigned])
_SIGNED: Final = frozenset([x for x in INTEGERS if x.is_signed])

# -- floating point ----------------------------------------------------------------------------


@elementwise(Opcode.DIVIDE, on=FLOATS, of=SCALARS)
def divide_by_power_of_two(divide: Instruction, at: Rewriter) -> Made:
    """x / 2**k => x * 2**-k"""
    x, y = divide.operands
    value = scalar_value(y)
    if value is None or not np.isfinite(value) or np.frexp(np.float64(abs(value)))[0] != 0.5:
        return None
    reciprocal = folded(Opcode.DIVIDE, type(value)(1), value)
    if not _is_normal(reciprocal, value):
        return None
    return at(x) * splat(at, reciprocal, divide.shape)


def _is_normal(reciprocal: Any, value: Any) -> bool:
    """Whether the reciprocal of a power of two is exact, and stays so without subnormals."""
    least = 2.0**-14 if isinstance(value, np.float16) else 2.0**-126
    return bool(np.isfinite(reciprocal) and abs(float(reciprocal)) >= least)


@elementwise(Opcode.DIVIDE, on=FLOATS, exact=False)
def divide_by_constant(divide: Instruction, at: Rewriter) -> Made:
    """x / c => x * (1 / c)"""
    x, y = divide.operands
    value = scalar_value(y)
    if value is None or not np.isfinite(value) or value == 0 or scalar_value(x) is not None:
        return None
    reciprocal = folded(Opcode.DIVIDE, type(value)(1), value)
    return at(x) * splat(at, reciprocal, divide.shape) if _is_normal(reciprocal, value) else None


@elementwise(Opcode.DIVIDE, on=NUMBERS, exact=False)
def divide_by_broadcast(divide: Instruction, at: Rewriter) -> Made:
    """x / broadcast(y) => x * broadcast(1 / y), where y is smaller"""
    x, y = divide.operands
    if divide.shape.element_type.is_integer or y.opcode is not Opcode.BROADCAST:
        return None
    small = y.operands[0]
    if is_all(x, 1) or small.shape.element_count >= y.shape.element_count:
        return None
    return at(x) * again(at, y, _over(at, splat(at, 1, small.shape), at(small)))


def _over(at: Rewriter, x: Op, y: Op) -> Op:
    return at.build.emit(Opcode.DIVIDE, [x, y])


@elementwise(Opcode.DIVIDE, on=FLOATS, exact=False)
def divide_quotient(divide: Instruction, at: Rewriter) -> Made:
    """(x / y) / z => x / (y * z)"""
    inner, z = divide.operands
    if inner.opcode is not Opcode.DIVIDE or not has_one_user(inner) or inner is z:
        return None
    return again(at, divide, inner.operands[0], at(inner.operands[1]) * at(z))


@elementwise(Opcode.DIVIDE, on=FLOATS, exact=False)
def divide_by_quotient(divide: Instruction, at: Rewriter) -> Made:
    """x / (y / z) => (x * z) / y"""
    x, inner = divide.operands
    if inner.opcode is not Opcode.DIVIDE or not has_one_user(inner) or inner is x:
        return None
    y, z = inner.operands
    return again(at, divide, at(x) * at(z), y)


@elementwise(Opcode.MULTIPLY, on=FLOATS, exact=False)
def times_reciprocal(multiply: Instruction, at: Rewriter) -> Made:
    """x * (1 / y) => x / y, and with the factors exchanged"""
    left, right = multiply.operands
    for x, inner in ((left, right), (right, left)):
        if inner.opcode is Opcode.DIVIDE and is_all(inner.operands[0], 1):
            return _over(at, at(x), at(inner.operands[1]))
    return None


@elementwise(Opcode.DIVIDE, on=FLOATS, exact=False)
def divide_self(divide: Instruction, at: Rewriter) -> Made:
    """x / x => 1"""
    x, y = divide.operands
    return splat(at, 1, divide.shape) if x is y else None


# -- integers ----------------------------------------------------------------------------------


@elementwise(Opcode.DIVIDE, on=_UNSIGNED)
def divide_unsigned_twice(divide: Instruction, at: Rewriter) -> Made:
    """(x / c) / d => x / (c * d), where the product of the constants does not wrap around"""
    inner, outer = divide.operands
    d = scalar_value(outer)
    if d is None or inner.opcode is not Opcode.DIVIDE:
        return None
    c = scalar_value(inner.operands[1])
    if c is None or not int(c) * int(d) or int(c) * int(d) >> divide.shape.element_type.bits:
        return None
    return again(at, divide, inner.operands[0], splat(at, int(c) * int(d), divide.shape))


@elementwise(Opcode.DIVIDE, on=_UNSIGNED)
def divide_unsigned_by_power_of_two(divide: Instruction, at: Rewriter) -> Made:
    """x / 2**k => x >> k"""
    x, k = _by_power_of_two(divide)
    return at.build.shift_right_logical(at(x), splat(at, k, divide.shape)) if k else None


@elementwise(Opcode.DIVIDE, on=_SIGNED)
def divide_signed_by_power_of_two(divide: Instruction, at: Rewriter) -> Made:
    """x / 2**k => (x + (2**k - 1 where x < 0)) >> k, which rounds towards zero"""
    x, k = _by_power_of_two(divide)
    if not k or decides(divide):
        return None
    raised = at(x) + _lift(at, x, k)
    return at.build.shift_right_arithmetic(raised, splat(at, k, divide.shape))


@elementwise(Opcode.REMAINDER, on=INTEGERS)
def remainder_by_one(remainder: Instruction, at: Rewriter) -> Made:
    """x % 1 => 0"""
    return splat(at, 0, remainder.shape) if is_all(remainder.operands[1], 1) else None


def _by_power_of_two(x: Instruction) -> tuple[Instruction, int]:
    """Return the dividend, and the exponent of a divisor that is a power of two, else 0."""
    dividend, divisor = x.operands
    value = scalar_value(divisor)
    if value is None or scalar_value(dividend) is not None:
        return dividend, 0
    return dividend, power_of_two(value) or 0


def _lift(at: Rewriter, x: Instruction, k: int) -> Op:
    """Return 2**k - 1 where x is negative, 0 elsewhere."""
    bits = x.shape.element_type.bits
    signs = at.build.shift_right_arithmetic(at(x), splat(at, bits - 1, x.shape))
    return at.build.shift_right_logical(signs, splat(at, bits - k, x.shape))


@elementwise(Opcode.REMAINDER, on=_UNSIGNED)
def remainder_by_power_of_two(remainder: Instruction, at: Rewriter) -> Made:
    """x % 2**k => x and (2**k - 1)"""
    x, k = _by_power_of_two(remainder)
    return at(x) & splat(at, (1 << k) - 1, remainder.shape) if k else None


@elementwise(Opcode.REMAINDER, on=_SIGNED)
def remainder_of_signed_by_power_of_two(remainder: Instruction, at: Rewriter) -> Made:
    """x % 2**k => ((x + lift) and (2**k - 1)) - lift, where lift is 2**k - 1 for x < 0, else 0"""
    x, k = _by_power_of_two(remainder)
    if not k or decides(remainder):  # One operation does for all of these then.
        return None
    lift = _lift(at, x, k)
    return ((at(x) + lift) & splat(at, (1 << k) - 1, remainder.shape)) - lift


@elementwise(Opcode.REMAINDER, on=INTEGERS)
def remainder_twice(remainder: Instruction, at: Rewriter) -> Made:
    """(x % y) % y => x % y"""
    inner, y = remainder.operands
    return inner if inner.opcode is Opcode.REMAINDER and inner.operands[1] is y else None


@elementwise(Opcode.REMAINDER, on=INTEGERS)
def remainder_of_zero(remainder: Instruction, at: Rewriter) -> Made:
    """0 % x => 0"""
    zero = remainder.operands[0]
    return zero if is_all(zero, 0) else None
