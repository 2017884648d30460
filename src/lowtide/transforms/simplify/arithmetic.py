"""Sums, differences and products: neutral elements, signs, constants that meet."""

from __future__ import annotations

from lowtide.ir import Instruction, Opcode
from lowtide.ops.reducers import REDUCERS
from lowtide.passes.matching import (
    has_one_user,
    is_all,
    is_negative_zero,
    is_positive_zero,
    scalar_value,
)
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.support import (
    ANY,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMBERS,
    PRED,
    REALS,
    SCALARS,
    Made,
    again,
    constants_met,
    elementwise,
    exact_on_integers,
    folded,
    splat,
)


@elementwise(*REDUCERS, on=ANY, of=SCALARS)
def constant_on_the_right(x: Instruction, at: Rewriter) -> Made:
    """c + x => x + c, and so for all operations that commute"""
    left, right = x.operands
    if scalar_value(left) is None or scalar_value(right) is not None:
        return None
    return again(at, x, right, left)


@elementwise(Opcode.ADD, Opcode.MULTIPLY, on=PRED)
def truth_values(x: Instruction, at: Rewriter) -> Made:
    """p + q => p or q, p * q => p and q"""
    opcode = Opcode.OR if x.opcode is Opcode.ADD else Opcode.AND
    return at.build.emit(opcode, [at(y) for y in x.operands])


# -- neutral and absorbing elements ------------------------------------------------------------


@elementwise(Opcode.ADD, on=NUMBERS, of=SCALARS)
def add_nothing(add: Instruction, at: Rewriter) -> Made:
    """x + 0 => x, where x has no -0 that a sum with +0 would change."""
    x, y = add.operands
    if is_negative_zero(y) or (add.shape.element_type in INTEGERS and is_all(y, 0)):
        return x
    return None


@elementwise(Opcode.ADD, on=INEXACT, exact=False, of=SCALARS)
def add_zero(add: Instruction, at: Rewriter) -> Made:
    """x + 0 => x"""
    x, y = add.operands
    return x if is_all(y, 0) else None


@elementwise(Opcode.SUBTRACT, on=REALS, of=SCALARS)
def subtract_zero(subtract: Instruction, at: Rewriter) -> Made:
    """x - 0 => x"""
    x, y = subtract.operands
    return x if is_positive_zero(y) else None


@exact_on_integers(Opcode.SUBTRACT)
def subtract_self(subtract: Instruction, at: Rewriter) -> Made:
    """x - x => 0"""
    x, y = subtract.operands
    return splat(at, 0, subtract.shape) if x is y else None


@elementwise(Opcode.MULTIPLY, Opcode.DIVIDE, on=REALS, of=SCALARS)
def times_one(x: Instruction, at: Rewriter) -> Made:
    """x * 1 => x, x / 1 => x"""
    left, right = x.operands
    return left if is_all(right, 1) else None


@exact_on_integers(Opcode.MULTIPLY, of=SCALARS)
def times_zero(multiply: Instruction, at: Rewriter) -> Made:
    """x * 0 => 0"""
    zero = multiply.operands[1]
    return zero if is_all(zero, 0) else None


@elementwise(Opcode.MULTIPLY, Opcode.DIVIDE, on=REALS, of=SCALARS)
def times_minus_one(x: Instruction, at: Rewriter) -> Made:
    """x * -1 => -x, x / -1 => -x"""
    left, right = x.operands
    if x.opcode is Opcode.DIVIDE and x.shape.element_type.is_unsigned:
        return None
    return -at(left) if is_all(right, -1) else None


# -- signs -------------------------------------------------------------------------------------


@elementwise(Opcode.NEGATE, on=NUMBERS, of=(Opcode.NEGATE,))
def negate_negated(negate: Instruction, at: Rewriter) -> Made:
    """-(-x) => x"""
    inner = negate.operands[0]
    return inner.operands[0] if inner.opcode is Opcode.NEGATE else None


@exact_on_integers(Opcode.NEGATE, of=(Opcode.SUBTRACT,))
def negate_difference(negate: Instruction, at: Rewriter) -> Made:
    """-(x - y) => y - x"""
    inner = negate.operands[0]
    if inner.opcode is not Opcode.SUBTRACT or not has_one_user(inner):
        return None
    x, y = inner.operands
    return again(at, inner, y, x)


@elementwise(Opcode.ADD, on=NUMBERS, of=(Opcode.NEGATE,))
def add_negated(add: Instruction, at: Rewriter) -> Made:
    """x + (-y) => x - y, (-x) + y => y - x"""
    x, y = add.operands
    if y.opcode is Opcode.NEGATE:
        return at(x) - at(y.operands[0])
    if x.opcode is Opcode.NEGATE and scalar_value(y) is None:
        return at(y) - at(x.operands[0])
    return None


@elementwise(Opcode.SUBTRACT, on=NUMBERS, of=(Opcode.NEGATE,))
def subtract_negated(subtract: Instruction, at: Rewriter) -> Made:
    """x - (-y) => x + y"""
    x, y = subtract.operands
    return at(x) + at(y.operands[0]) if y.opcode is Opcode.NEGATE else None


@elementwise(Opcode.SUBTRACT, on=REALS, of=SCALARS)
def subtract_constant(subtract: Instruction, at: Rewriter) -> Made:
    """x - c => x + (-c)"""
    x, y = subtract.operands
    value = scalar_value(y)
    if value is None or scalar_value(x) is not None:
        return None
    return at(x) + splat(at, folded(Opcode.NEGATE, value), subtract.shape)


@elementwise(Opcode.MULTIPLY, Opcode.DIVIDE, on=FLOATS, of=(Opcode.NEGATE,))
def product_of_negated(x: Instruction, at: Rewriter) -> Made:
    """(-x) * (-y) => x * y, (-x) / (-y) => x / y"""
    left, right = x.operands
    if left.opcode is not Opcode.NEGATE or right.opcode is not Opcode.NEGATE:
        return None
    return again(at, x, left.operands[0], right.operands[0])


@elementwise(Opcode.MULTIPLY, Opcode.DIVIDE, on=FLOATS, of=(Opcode.NEGATE,))
def negated_times_constant(x: Instruction, at: Rewriter) -> Made:
    """(-x) * c => x * (-c), (-x) / c => x / (-c)"""
    left, right = x.operands
    value = scalar_value(right)
    if left.opcode is not Opcode.NEGATE or value is None:
        return None
    return again(at, x, left.operands[0], splat(at, folded(Opcode.NEGATE, value), x.shape))


@elementwise(Opcode.NEGATE, on=REALS, of=(Opcode.MULTIPLY,))
def negate_times_constant(negate: Instruction, at: Rewriter) -> Made:
    """-(x * c) => x * (-c)"""
    inner = negate.operands[0]
    if inner.opcode is not Opcode.MULTIPLY or not has_one_user(inner):
        return None
    x, y = inner.operands
    value = scalar_value(y)
    if value is None:
        return None
    return at(x) * splat(at, folded(Opcode.NEGATE, value), negate.shape)


# -- constants that meet -----------------------------------------------------------------------


@exact_on_integers(Opcode.ADD, Opcode.MULTIPLY, of=SCALARS)
def merge_constants(x: Instruction, at: Rewriter) -> Made:
    """(x + c) + d => x + (c + d), (x * c) * d => x * (c * d)"""
    return constants_met(x, at)


@exact_on_integers(Opcode.SUBTRACT, of=SCALARS)
def constant_minus_sum(subtract: Instruction, at: Rewriter) -> Made:
    """c - (x + d) => (c - d) - x"""
    left, right = subtract.operands
    c = scalar_value(left)
    if c is None or right.opcode is not Opcode.ADD:
        return None
    d = scalar_value(right.operands[1])
    if d is None:
        return None
    return splat(at, folded(Opcode.SUBTRACT, c, d), subtract.shape) - at(right.operands[0])


@elementwise(Opcode.ADD, Opcode.SUBTRACT, on=INTEGERS)
def cancel_added(x: Instruction, at: Rewriter) -> Made:
    """(x + y) - y => x, (y + x) - y => x, (x - y) + y => x, y + (x - y) => x"""
    left, right = x.operands
    if x.opcode is Opcode.SUBTRACT:
        if left.opcode is not Opcode.ADD or right not in left.operands:
            return None
        a, b = left.operands
        return a if b is right else b
    for inner, other in ((left, right), (right, left)):
        if inner.opcode is Opcode.SUBTRACT and inner.operands[1] is other:
            return inner.operands[0]
    return None


@elementwise(Opcode.SUBTRACT, on=INTEGERS)
def cancel_subtracted(x: Instruction, at: Rewriter) -> Made:
    """x - (x - y) => y, x - (x + y) => -y"""
    left, right = x.operands
    if right.opcode is Opcode.SUBTRACT and right.operands[0] is left:
        return right.operands[1]
    if right.opcode is Opcode.ADD and left in right.operands:
        a, b = right.operands
        return -at(b if a is left else a)
    return None


@exact_on_integers(Opcode.ADD, Opcode.SUBTRACT)
def common_factor(x: Instruction, at: Rewriter) -> Made:
    """a * c + b * c => (a + b) * c, a * c - b * c => (a - b) * c"""
    left, right = x.operands
    for product in (left, right):
        if product.opcode is not Opcode.MULTIPLY or not has_one_user(product):
            return None
    for i, factor in enumerate(left.operands):
        if factor in right.operands:
            j = right.operands.index(factor)
            sum_ = again(at, x, left.operands[1 - i], right.operands[1 - j])
            return sum_ * at(factor)
    return None


@exact_on_integers(Opcode.ADD, Opcode.MULTIPLY)
def merge_broadcasts(x: Instruction, at: Rewriter) -> Made:
    """(z + broadcast(x)) + broadcast(y) => z + broadcast(x + y), and so for products"""
    inner, last = x.operands
    if inner.opcode is not x.opcode or not has_one_user(inner) or inner is last:
        return None
    z, first = inner.operands
    if first.opcode is not Opcode.BROADCAST or last.opcode is not Opcode.BROADCAST:
        return None
    small, other = first.operands[0], last.operands[0]
    if small.shape is not other.shape or first.attributes != last.attributes:
        return None
    met = at.build.emit(x.opcode, [at(small), at(other)])
    return again(at, x, z, again(at, first, met))
