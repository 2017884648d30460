"""Sums, differences, products and quotients."""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.passes.matching import is_all, is_negative_zero, is_positive_zero, scalar_value
from lowtide.passes.rewriting import Rewriter, rule


@rule(Opcode.ADD)
def add_nothing(add: Instruction, at: Rewriter) -> Instruction | None:
    """x + 0 => x, where x has no -0 that a sum with +0 would change."""
    x, y = add.operands
    if is_negative_zero(y) or (is_all(y, 0) and not _has_signed_zero(add)):
        return x
    return None


@rule(Opcode.ADD, exact=False)
def add_zero(add: Instruction, at: Rewriter) -> Instruction | None:
    """x + 0 => x"""
    x, y = add.operands
    return x if is_all(y, 0) else None


@rule(Opcode.ADD, Opcode.MULTIPLY)
def constant_on_the_right(x: Instruction, at: Rewriter) -> Op | None:
    """c + x => x + c, c * x => x * c"""
    left, right = x.operands
    if scalar_value(left) is None or scalar_value(right) is not None:
        return None
    return at.build.emit(x.opcode, [at(right), at(left)], shape=x.shape)


@rule(Opcode.SUBTRACT)
def subtract_zero(subtract: Instruction, at: Rewriter) -> Instruction | None:
    """x - 0 => x"""
    x, y = subtract.operands
    if is_positive_zero(y) or (is_all(y, 0) and not _has_signed_zero(subtract)):
        return x
    return None


@rule(Opcode.MULTIPLY, Opcode.DIVIDE)
def times_one(x: Instruction, at: Rewriter) -> Instruction | None:
    """x * 1 => x, x / 1 => x"""
    left, right = x.operands
    return left if is_all(right, 1) else None


def _has_signed_zero(x: Instruction) -> bool:
    element_type = x.shape.element_type
    return element_type.is_floating or element_type.is_complex


RULES: Final = (constant_on_the_right, add_nothing, add_zero, subtract_zero, times_one)
