"""Operations on bits and truth values, and shifts."""

from __future__ import annotations

from typing import Final

from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Compare
from lowtide.passes.matching import has_one_user, is_all, scalar_value
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.support import (
    ANY,
    COMPLEX,
    FLOATS,
    INTEGERS,
    PRED,
    WHOLE,
    Made,
    again,
    arrays,
    constants_met,
    elementwise,
    folded,
    splat,
)

_BITWISE: Final = (Opcode.AND, Opcode.OR, Opcode.XOR)
_EXTREMES: Final = (Opcode.MAXIMUM, Opcode.MINIMUM)
_IDEMPOTENT: Final = (Opcode.AND, Opcode.OR, *_EXTREMES)


def _all_ones(x: Instruction) -> bool:
    """Whether all bits of all elements are set."""
    return is_all(x, 1 if x.shape.element_type is ElementType.PRED else -1)


def _ones(element_type: ElementType) -> int:
    return 1 if element_type is ElementType.PRED else -1


# -- two operands ------------------------------------------------------------------------------


@elementwise(*_IDEMPOTENT)
def same_operands(x: Instruction, at: Rewriter) -> Made:
    """x and x => x, x or x => x, max(x, x) => x, min(x, x) => x"""
    left, right = x.operands
    return left if left is right else None


@elementwise(Opcode.MAXIMUM, Opcode.MINIMUM, on=PRED)
def extremes_of_truth_values(x: Instruction, at: Rewriter) -> Made:
    """max(p, q) => p or q, min(p, q) => p and q"""
    opcode = Opcode.OR if x.opcode is Opcode.MAXIMUM else Opcode.AND
    return again_as(at, opcode, x)


def again_as(at: Rewriter, opcode: Opcode, x: Instruction) -> Made:
    """Return another operation of the same operands."""
    return at.build.emit(opcode, [at(y) for y in x.operands])


@elementwise(Opcode.XOR, on=WHOLE)
def xor_self(xor: Instruction, at: Rewriter) -> Made:
    """x xor x => 0"""
    left, right = xor.operands
    return splat(at, 0, xor.shape) if left is right else None


@elementwise(Opcode.AND, on=WHOLE)
def and_constant(and_: Instruction, at: Rewriter) -> Made:
    """x and 0 => 0, x and -1 => x"""
    x, y = and_.operands
    if is_all(y, 0):
        return y
    return x if _all_ones(y) else None


@elementwise(Opcode.OR, on=WHOLE)
def or_constant(or_: Instruction, at: Rewriter) -> Made:
    """x or 0 => x, x or -1 => -1"""
    x, y = or_.operands
    if is_all(y, 0):
        return x
    return y if _all_ones(y) else None


@elementwise(Opcode.XOR, on=WHOLE)
def xor_constant(xor: Instruction, at: Rewriter) -> Made:
    """x xor 0 => x, x xor -1 => not x"""
    x, y = xor.operands
    if is_all(y, 0):
        return x
    return ~at(x) if _all_ones(y) else None


@elementwise(*_BITWISE, *_EXTREMES, on=ANY - COMPLEX)
def merge_equal_operations(x: Instruction, at: Rewriter) -> Made:
    """(x and c) and d => x and (c and d), and so for or, xor, max and min"""
    return constants_met(x, at)


@elementwise(*_IDEMPOTENT)
def repeated_operand(x: Instruction, at: Rewriter) -> Made:
    """(x and y) and y => x and y, and so for or, max and min, on either side"""
    left, right = x.operands
    for inner, other in ((left, right), (right, left)):
        if inner.opcode is x.opcode and other in inner.operands:
            return inner
    return None


_DUALS: Final = {
    Opcode.AND: Opcode.OR,
    Opcode.OR: Opcode.AND,
    Opcode.MAXIMUM: Opcode.MINIMUM,
    Opcode.MINIMUM: Opcode.MAXIMUM,
}


@elementwise(*_IDEMPOTENT, on=WHOLE)
def absorb(x: Instruction, at: Rewriter) -> Made:
    """x and (x or y) => x, x or (x and y) => x, max(x, min(x, y)) => x, min(x, max(x, y)) => x"""
    left, right = x.operands
    for inner, other in ((left, right), (right, left)):
        if inner.opcode is _DUALS[x.opcode] and other in inner.operands:
            return other
    return None


@elementwise(*_BITWISE, on=WHOLE)
def with_complement(x: Instruction, at: Rewriter) -> Made:
    """x and not x => 0, x or not x => -1, x xor not x => -1"""
    left, right = x.operands
    for inner, other in ((left, right), (right, left)):
        if inner.opcode is Opcode.NOT and inner.operands[0] is other:
            value = 0 if x.opcode is Opcode.AND else _ones(x.shape.element_type)
            return splat(at, value, x.shape)
    return None


@elementwise(Opcode.AND, Opcode.OR, on=WHOLE)
def complements_together(x: Instruction, at: Rewriter) -> Made:
    """not x and not y => not (x or y), not x or not y => not (x and y)"""
    left, right = x.operands
    for inner in (left, right):
        if inner.opcode is not Opcode.NOT or not has_one_user(inner):
            return None
    return ~at.build.emit(_DUALS[x.opcode], [at(left.operands[0]), at(right.operands[0])])


@elementwise(Opcode.XOR, on=WHOLE)
def xor_of_complement(xor: Instruction, at: Rewriter) -> Made:
    """not x xor not y => x xor y, not x xor c => x xor not c"""
    left, right = xor.operands
    if left.opcode is not Opcode.NOT:
        return None
    if right.opcode is Opcode.NOT:
        return again(at, xor, left.operands[0], right.operands[0])
    value = scalar_value(right)
    if value is None:
        return None
    return again(at, xor, left.operands[0], splat(at, folded(Opcode.NOT, value), xor.shape))


@elementwise(Opcode.XOR, on=WHOLE)
def cancel_xor(xor: Instruction, at: Rewriter) -> Made:
    """(x xor y) xor y => x, on either side"""
    left, right = xor.operands
    for inner, other in ((left, right), (right, left)):
        if inner.opcode is Opcode.XOR and other in inner.operands:
            a, b = inner.operands
            return a if b is other else b
    return None


# -- complement --------------------------------------------------------------------------------


@elementwise(Opcode.NOT, on=WHOLE)
def not_not(not_: Instruction, at: Rewriter) -> Made:
    """not not x => x"""
    inner = not_.operands[0]
    return inner.operands[0] if inner.opcode is Opcode.NOT else None


INVERTED: Final = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


@elementwise(Opcode.NOT, on=PRED)
def not_comparison(not_: Instruction, at: Rewriter) -> Made:
    """not (x < y) => x >= y, and so for all directions where nothing is unordered"""
    inner = not_.operands[0]
    if inner.opcode is not Opcode.COMPARE or not has_one_user(inner):
        return None
    how = inner.attributes_as(Compare)
    element_type = inner.operands[0].shape.element_type
    ordered = element_type in WHOLE or (how.type == "TOTALORDER" and element_type in FLOATS)
    if how.direction not in ("EQ", "NE") and not ordered:
        return None
    a, b = inner.operands
    return at.build.compare(at(a), at(b), INVERTED[how.direction], how.type)


# -- shifts ------------------------------------------------------------------------------------

_SHIFTS: Final = (Opcode.SHIFT_LEFT, Opcode.SHIFT_RIGHT_ARITHMETIC, Opcode.SHIFT_RIGHT_LOGICAL)


def _distance(x: Instruction) -> int | None:
    """Return the constant by which a shift moves: at most the width of the type."""
    value = scalar_value(x.operands[1])
    if value is None:
        return None
    bits = x.shape.element_type.bits
    return min(int(value) & ((1 << bits) - 1), bits)


@elementwise(*_SHIFTS, on=INTEGERS)
def shift_by_nothing(shift: Instruction, at: Rewriter) -> Made:
    """x << 0 => x, x >> 0 => x"""
    return shift.operands[0] if _distance(shift) == 0 else None


@elementwise(*_SHIFTS, on=INTEGERS)
def shift_of_zero(shift: Instruction, at: Rewriter) -> Made:
    """0 << x => 0, 0 >> x => 0"""
    zero = shift.operands[0]
    return zero if is_all(zero, 0) else None


@elementwise(Opcode.SHIFT_LEFT, Opcode.SHIFT_RIGHT_LOGICAL, on=INTEGERS)
def shift_out(shift: Instruction, at: Rewriter) -> Made:
    """x << n => 0, x >> n => 0, where n is the width of the type or more"""
    bits = shift.shape.element_type.bits
    return splat(at, 0, shift.shape) if _distance(shift) == bits else None


@elementwise(*_SHIFTS, on=INTEGERS)
def shift_twice(shift: Instruction, at: Rewriter) -> Made:
    """(x << a) << b => x << (a + b), and so for both shifts to the right"""
    inner = shift.operands[0]
    if inner.opcode is not shift.opcode:
        return None
    a, b = _distance(inner), _distance(shift)
    if a is None or b is None:
        return None
    most = shift.shape.element_type.bits
    if shift.opcode is Opcode.SHIFT_RIGHT_ARITHMETIC:
        most -= 1
    elif a + b >= most:
        return splat(at, 0, shift.shape)
    return again(at, shift, inner.operands[0], splat(at, min(a + b, most), shift.shape))


@elementwise(Opcode.SHIFT_LEFT, Opcode.SHIFT_RIGHT_LOGICAL, on=INTEGERS)
def shift_there_and_back(shift: Instruction, at: Rewriter) -> Made:
    """(x >> n) << n => x and (-1 << n), (x << n) >> n => x and (-1 >> n)"""
    inner = shift.operands[0]
    back = (
        (Opcode.SHIFT_LEFT,)
        if shift.opcode is Opcode.SHIFT_RIGHT_LOGICAL
        else (Opcode.SHIFT_RIGHT_LOGICAL, Opcode.SHIFT_RIGHT_ARITHMETIC)
    )
    if inner.opcode not in back:
        return None
    n, bits = _distance(shift), shift.shape.element_type.bits
    if n is None or n != _distance(inner) or n >= bits:
        return None
    every = (1 << bits) - 1
    mask = every << n if shift.opcode is Opcode.SHIFT_LEFT else every >> n
    return at(inner.operands[0]) & splat(at, mask, shift.shape)


@elementwise(Opcode.OR, Opcode.XOR, on=INTEGERS)
def bits_of_one_shift(x: Instruction, at: Rewriter) -> Made:
    """(x << n) or (y << n) => (x or y) << n, and so for xor and for other shifts"""
    left, right = x.operands
    if left.opcode not in _SHIFTS or right.opcode is not left.opcode or left is right:
        return None
    n = left.operands[1]
    value, other = scalar_value(n), scalar_value(right.operands[1])
    if value is None or other is None or value != other:
        return None
    if not has_one_user(left) or not has_one_user(right):
        return None
    return again(at, left, again(at, x, left.operands[0], right.operands[0]), n)


@arrays(Opcode.POPULATION_COUNT, on=INTEGERS)
def count_truth_value(x: Instruction, at: Rewriter) -> Made:
    """popcnt(convert(p)) => convert(p), where p is a truth value"""
    inner = x.operands[0]
    if inner.opcode is not Opcode.CONVERT or inner.operands[0].shape.element_type not in PRED:
        return None
    return inner if inner.shape is x.shape else None
