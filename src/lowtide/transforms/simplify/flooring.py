"""Quotients and remainders that are rounded down."""

from __future__ import annotations

from lowtide.ir import Instruction, Opcode
from lowtide.ops.flooring import floor_quotient, floor_remainder
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.support import PRED, Made, arrays, power_of_two, splat


@arrays(Opcode.SELECT, on=PRED, of=(Opcode.REMAINDER,))
def floor_remainder_by_power_of_two(select: Instruction, at: Rewriter) -> Made:
    """select(x % 2**k < 0, x % 2**k + 2**k, x % 2**k) => x and (2**k - 1)"""
    found = floor_remainder(select)
    k = power_of_two(found[1]) if found else None
    if found is None or k is None:
        return None
    return at(found[0]) & splat(at, (1 << k) - 1, select.shape)


@arrays(Opcode.SELECT, on=PRED, of=(Opcode.DIVIDE,))
def floor_quotient_by_constant(select: Instruction, at: Rewriter) -> Made:
    """select(x < 0 and x % c != 0, x / c - 1, x / c) => ((x xor s) / c) xor s, s -1 for x < 0

    Also with sign(x) != 1 for x < 0. A power of two 2**k gives x >> k.
    """
    found = floor_quotient(select)
    if found is None:
        return None
    x, divisor = found
    shift = at.build.shift_right_arithmetic
    if k := power_of_two(divisor):
        return shift(at(x), splat(at, k, select.shape))
    sign = shift(at(x), splat(at, x.shape.element_type.bits - 1, x.shape))
    return ((at(x) ^ sign) / splat(at, divisor, x.shape)) ^ sign
