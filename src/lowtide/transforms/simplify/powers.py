"""Powers, roots, exponentials and logarithms."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.passes.matching import has_one_user, is_all, scalar_value
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.support import (
    FLOATS,
    INTEGERS,
    REALS,
    Made,
    elementwise,
    exact_on_integers,
    folded,
    splat,
)

_WIDE: Final = frozenset({ElementType.F32, ElementType.F64})


def _constant_exponent(power: Instruction) -> float | None:
    value = scalar_value(power.operands[1])
    return None if value is None else float(value)


def _one_over(at: Rewriter, x: Op) -> Op:
    return at.build.divide(splat(at, 1, x.shape), x)


# -- powers ------------------------------------------------------------------------------------


@elementwise(Opcode.POWER, on=REALS)
def power_zero(power: Instruction, at: Rewriter) -> Made:
    """x ** 0 => 1"""
    return splat(at, 1, power.shape) if _constant_exponent(power) == 0 else None


@elementwise(Opcode.POWER, on=REALS)
def power_one(power: Instruction, at: Rewriter) -> Made:
    """x ** 1 => x"""
    return power.operands[0] if _constant_exponent(power) == 1 else None


@elementwise(Opcode.POWER, on=REALS)
def power_two(power: Instruction, at: Rewriter) -> Made:
    """x ** 2 => x * x, which is the power correctly rounded"""
    x = at(power.operands[0])
    return x * x if _constant_exponent(power) == 2 else None


@exact_on_integers(Opcode.POWER, inexact=FLOATS)
def power_small(power: Instruction, at: Rewriter) -> Made:
    """x ** 3 => x * x * x, x ** 4 => (x * x) * (x * x)"""
    exponent = _constant_exponent(power)
    if exponent not in (3, 4):
        return None
    x = at(power.operands[0])
    square = x * x
    return square * (x if exponent == 3 else square)


@elementwise(Opcode.POWER, on=FLOATS)
def power_minus_one(power: Instruction, at: Rewriter) -> Made:
    """x ** -1 => 1 / x, which is the power correctly rounded"""
    if _constant_exponent(power) != -1:
        return None
    return _one_over(at, at(power.operands[0]))


@elementwise(Opcode.POWER, on=FLOATS, exact=False)
def power_minus_small(power: Instruction, at: Rewriter) -> Made:
    """x ** -2 => 1 / (x * x), x ** -3 => 1 / (x * x * x)"""
    exponent = _constant_exponent(power)
    if exponent not in (-2, -3):
        return None
    x = at(power.operands[0])
    return _one_over(at, x * x if exponent == -2 else x * x * x)


@elementwise(Opcode.POWER, on=FLOATS)
def power_half(power: Instruction, at: Rewriter) -> Made:
    """x ** 0.5 => sqrt(x) + 0, the power correctly rounded, of -0 too; infinity where x is -inf"""
    if _constant_exponent(power) != 0.5:
        return None
    x, shape = at(power.operands[0]), power.shape
    root = at.build.sqrt(x) + splat(at, 0, shape)
    is_lowest = at.build.compare(x, splat(at, -np.inf, shape), "EQ")
    return at.build.select(is_lowest, splat(at, np.inf, shape), root)


@elementwise(Opcode.POWER, on=FLOATS, exact=False)
def power_three_halves(power: Instruction, at: Rewriter) -> Made:
    """x ** 1.5 => x * sqrt(x); not so for -inf"""
    if _constant_exponent(power) != 1.5:
        return None
    x = at(power.operands[0])
    return x * at.build.sqrt(x)


@elementwise(Opcode.POWER, on=FLOATS, exact=False)
def power_minus_half(power: Instruction, at: Rewriter) -> Made:
    """x ** -0.5 => rsqrt(x); not so for -0 and -inf"""
    if _constant_exponent(power) != -0.5:
        return None
    return at.build.rsqrt(at(power.operands[0]))


@elementwise(Opcode.POWER, on=REALS)
def power_of_one(power: Instruction, at: Rewriter) -> Made:
    """1 ** x => 1"""
    one = power.operands[0]
    return one if is_all(one, 1) else None


@elementwise(Opcode.POWER, on=FLOATS, exact=False)
def power_of_power(power: Instruction, at: Rewriter) -> Made:
    """(x ** y) ** z => x ** (y * z)"""
    inner, z = power.operands
    if inner.opcode is not Opcode.POWER or not has_one_user(inner) or inner is z:
        return None
    x, y = inner.operands
    return at(x) ** (at(y) * at(z))


@elementwise(Opcode.POWER, on=FLOATS, exact=False)
def power_of_exponential(power: Instruction, at: Rewriter) -> Made:
    """exp(x) ** y => exp(x * y)"""
    inner, y = power.operands
    if inner.opcode is not Opcode.EXPONENTIAL or not has_one_user(inner) or inner is y:
        return None
    return at.build.exponential(at(inner.operands[0]) * at(y))


# -- roots -------------------------------------------------------------------------------------


@elementwise(Opcode.MULTIPLY, on=INTEGERS)
def power_times_base(multiply: Instruction, at: Rewriter) -> Made:
    """(x ** c) * x => x ** (c + 1), where c is 1 or more"""
    left, right = multiply.operands
    for power, x in ((left, right), (right, left)):
        if power.opcode is not Opcode.POWER or power.operands[0] is not x:
            continue
        c = scalar_value(power.operands[1])
        if c is None or int(c) < 1:
            return None
        exponent = folded(Opcode.ADD, c, type(c)(1))
        return at(x) ** splat(at, exponent, multiply.shape) if int(exponent) > 0 else None
    return None


@elementwise(Opcode.MULTIPLY, on=FLOATS, exact=False)
def root_times_root(multiply: Instruction, at: Rewriter) -> Made:
    """sqrt(x) * sqrt(x) => x, rsqrt(x) * rsqrt(x) => 1 / x"""
    inner, other = multiply.operands
    if inner is not other:
        return None
    if inner.opcode is Opcode.SQRT:
        return inner.operands[0]
    return _one_over(at, at(inner.operands[0])) if inner.opcode is Opcode.RSQRT else None


@elementwise(Opcode.SQRT, on=FLOATS, exact=False)
def root_of_square(sqrt: Instruction, at: Rewriter) -> Made:
    """sqrt(x * x) => |x|"""
    inner = sqrt.operands[0]
    if inner.opcode is not Opcode.MULTIPLY or inner.operands[0] is not inner.operands[1]:
        return None
    return abs(at(inner.operands[0]))


@elementwise(Opcode.DIVIDE, on=_WIDE)
def one_over_root(divide: Instruction, at: Rewriter) -> Made:
    """1 / sqrt(x) => rsqrt(x)"""
    one, root = divide.operands
    if root.opcode is not Opcode.SQRT or not is_all(one, 1) or not has_one_user(root):
        return None
    return at.build.rsqrt(at(root.operands[0]))


_INVERSE_ROOTS: Final = {Opcode.SQRT: Opcode.RSQRT, Opcode.RSQRT: Opcode.SQRT}


@elementwise(Opcode.DIVIDE, on=FLOATS, exact=False)
def divide_by_root(divide: Instruction, at: Rewriter) -> Made:
    """x / sqrt(y) => x * rsqrt(y), x / rsqrt(y) => x * sqrt(y)"""
    x, root = divide.operands
    if root.opcode not in _INVERSE_ROOTS or not has_one_user(root) or x is root:
        return None
    return at(x) * at.build.emit(_INVERSE_ROOTS[root.opcode], [at(root.operands[0])])


@elementwise(Opcode.SQRT, Opcode.RSQRT, on=FLOATS, exact=False)
def root_of_reciprocal(x: Instruction, at: Rewriter) -> Made:
    """sqrt(1 / x) => rsqrt(x), rsqrt(1 / x) => sqrt(x)"""
    inner = x.operands[0]
    if inner.opcode is not Opcode.DIVIDE or not is_all(inner.operands[0], 1):
        return None
    return at.build.emit(_INVERSE_ROOTS[x.opcode], [at(inner.operands[1])])


# -- exponentials and logarithms ---------------------------------------------------------------


@elementwise(Opcode.MULTIPLY, on=FLOATS, exact=False)
def times_own_root(multiply: Instruction, at: Rewriter) -> Made:
    """x * rsqrt(x) => sqrt(x)"""
    left, right = multiply.operands
    for x, root in ((left, right), (right, left)):
        if root.opcode is Opcode.RSQRT and root.operands[0] is x:
            return at.build.sqrt(at(x))
    return None


@elementwise(Opcode.MULTIPLY, on=FLOATS, exact=False)
def product_of_exponentials(multiply: Instruction, at: Rewriter) -> Made:
    """exp(x) * exp(y) => exp(x + y)"""
    left, right = multiply.operands
    for x in (left, right):
        if x.opcode is not Opcode.EXPONENTIAL or not has_one_user(x):
            return None
    return at.build.exponential(at(left.operands[0]) + at(right.operands[0]))


_INVERSES: Final = {
    Opcode.EXPONENTIAL: Opcode.LOG,
    Opcode.LOG: Opcode.EXPONENTIAL,
    Opcode.EXPONENTIAL_MINUS_ONE: Opcode.LOG_PLUS_ONE,
    Opcode.LOG_PLUS_ONE: Opcode.EXPONENTIAL_MINUS_ONE,
    Opcode.TANH: Opcode.ATANH,
    Opcode.ATANH: Opcode.TANH,
    Opcode.SINH: Opcode.ASINH,
    Opcode.ASINH: Opcode.SINH,
}


@elementwise(Opcode.DIVIDE, on=FLOATS, exact=False)
def divide_by_exponential(divide: Instruction, at: Rewriter) -> Made:
    """x / exp(y) => x * exp(-y)"""
    x, inner = divide.operands
    if inner.opcode is not Opcode.EXPONENTIAL or not has_one_user(inner) or x is inner:
        return None
    return at(x) * at.build.exponential(-at(inner.operands[0]))


@elementwise(*_INVERSES, on=FLOATS, exact=False)
def function_of_inverse(x: Instruction, at: Rewriter) -> Made:
    """log(exp(x)) => x, and so for all pairs of functions that undo each other"""
    inner = x.operands[0]
    return inner.operands[0] if inner.opcode is _INVERSES[x.opcode] else None


@elementwise(Opcode.LOG, on=FLOATS, exact=False)
def log_of_power(log: Instruction, at: Rewriter) -> Made:
    """log(x ** y) => y * log(x), where y is a constant that is no even number"""
    inner = log.operands[0]
    if inner.opcode is not Opcode.POWER or not has_one_user(inner):
        return None
    exponent = _constant_exponent(inner)
    if exponent is None or not np.isfinite(exponent) or exponent % 2 == 0:
        return None
    return at.build.log(at(inner.operands[0])) * at(inner.operands[1])


@elementwise(Opcode.LOG, on=FLOATS, exact=False)
def log_of_root(log: Instruction, at: Rewriter) -> Made:
    """log(sqrt(x)) => log(x) * 0.5, log(rsqrt(x)) => log(x) * -0.5"""
    inner = log.operands[0]
    if inner.opcode not in _INVERSE_ROOTS or not has_one_user(inner):
        return None
    half = 0.5 if inner.opcode is Opcode.SQRT else -0.5
    return at.build.log(at(inner.operands[0])) * splat(at, half, log.shape)


@elementwise(Opcode.ADD, on=FLOATS, exact=False)
def exponential_minus_one(add: Instruction, at: Rewriter) -> Made:
    """exp(x) + -1 => expm1(x)"""
    inner, one = add.operands
    if inner.opcode is not Opcode.EXPONENTIAL or not is_all(one, -1) or not has_one_user(inner):
        return None
    return at.build.exponential_minus_one(at(inner.operands[0]))


@elementwise(Opcode.LOG, on=FLOATS, exact=False)
def log_of_one_plus(log: Instruction, at: Rewriter) -> Made:
    """log(x + 1) => log1p(x)"""
    inner = log.operands[0]
    if inner.opcode is not Opcode.ADD or not is_all(inner.operands[1], 1):
        return None
    return at.build.log_plus_one(at(inner.operands[0])) if has_one_user(inner) else None
