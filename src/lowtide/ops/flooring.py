"""Quotients and remainders that are rounded down, as programs make them of those toward zero."""

from __future__ import annotations

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Compare, Constant


def floor_remainder(select: Instruction) -> tuple[Instruction, int] | None:
    """Return dividend and divisor where a select of integers is x - floor(x / c) * c, c positive.

    That is `r + c` where `r < 0`, else `r`, for a remainder `r` of x by the constant c.
    """
    negative, raised, rest = select.operands
    if rest.opcode is not Opcode.REMAINDER or not _compares(negative, "LT", rest, 0):
        return None
    divisor = whole_number(rest.operands[1])
    if divisor is None or divisor <= 0 or not _is_sum(raised, rest, divisor):
        return None
    return rest.operands[0], divisor


def floor_quotient(select: Instruction) -> tuple[Instruction, int] | None:
    """Return dividend and divisor where a select of integers is floor(x / c), c positive.

    That is `q - 1` where x is not positive and `x % c` not 0, else `q`, for a quotient q of x by c.
    """
    lowered, less, quotient = select.operands
    if quotient.opcode is not Opcode.DIVIDE or lowered.opcode is not Opcode.AND:
        return None
    divisor = whole_number(quotient.operands[1])
    if divisor is None or divisor <= 0 or not _is_sum(less, quotient, -1):
        return None
    dividend = quotient.operands[0]
    for sign, rest in (lowered.operands, lowered.operands[::-1]):
        if _is_not_positive(sign, dividend) and _leaves_something(rest, dividend, divisor):
            return dividend, divisor
    return None


def _is_not_positive(test: Instruction, x: Instruction) -> bool:
    """Whether a test holds for all negative numbers, and for no positive ones."""
    sign = test.operands[0]
    is_sign = sign.opcode is Opcode.SIGN and sign.operands[0] is x
    return _compares(test, "LT", x, 0) or (is_sign and _compares(test, "NE", sign, 1))


def _leaves_something(test: Instruction, x: Instruction, divisor: int) -> bool:
    """Whether a test holds where x is no multiple of the divisor."""
    rest = test.operands[0]
    if rest.opcode is not Opcode.REMAINDER or rest.operands[0] is not x:
        return False
    return whole_number(rest.operands[1]) == divisor and _compares(test, "NE", rest, 0)


def _compares(test: Instruction, direction: str, x: Instruction, number: int) -> bool:
    """Whether a test compares something with a number."""
    if test.opcode is not Opcode.COMPARE or test.operands[0] is not x:
        return False
    is_same = test.attributes_as(Compare).direction == direction
    return is_same and whole_number(test.operands[1]) == number


def _is_sum(total: Instruction, x: Instruction, number: int) -> bool:
    """Whether something is the sum of x and a number."""
    if total.opcode is not Opcode.ADD or x not in total.operands:
        return False
    return [whole_number(y) for y in total.operands if y is not x] == [number]


def whole_number(x: Instruction) -> int | None:
    """Return the integer that all elements are, of a scalar constant or a broadcast of one."""
    if x.opcode is Opcode.BROADCAST:
        x = x.operands[0]
    if x.opcode is not Opcode.CONSTANT or x.shape.rank or not x.shape.element_type.is_integer:
        return None
    literal = x.attributes_as(Constant).literal
    return None if literal.elided else int(literal.array[()])
