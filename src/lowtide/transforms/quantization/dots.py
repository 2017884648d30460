"""Dots of quantized operands as dots of their numbers."""

from __future__ import annotations

from typing import Final, NamedTuple

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Dot
from lowtide.ops.contraction import contracted_size
from lowtide.ops.dot_roles import dot_roles
from lowtide.passes.matching import is_plain
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.quantization.operands import (
    QuantizedOperand,
    float_operand,
    integer_operand,
)
from lowtide.transforms.quantization.sums import Slices, less, product, scaled, slices, totals
from lowtide.transforms.simplify.support import Made, scalar

MOST_SUM: Final = 1 << 31
"""Sums below it are exact in 32 bits."""


class _Side(NamedTuple):
    """An operand, its contracted dimensions, and which dimensions of the result are its others."""

    operand: QuantizedOperand
    made: Op
    inner: tuple[int, ...]
    places: list[int]


@rule(Opcode.DOT, exact=False)
def integer_dot(dot: Instruction, at: Rewriter) -> Made:
    """Rule: dot((p - z) s, (q - y) t) => (dot(p, q) - z sum(q) - y sum(p) + k z y) * (s t).

    Of integers this is exact modulo 2^32. Of f32 it is where the sums fit 32 bits: only the
    conversion of the sum, and the product of the scales, are rounded.
    """
    type_ = dot.shape.element_type
    if type_ not in (ElementType.F32, ElementType.S32) or not is_plain(dot.shape):
        return None
    find = float_operand if type_ is ElementType.F32 else integer_operand
    operands = [find(x) for x in dot.operands]
    lhs, rhs = operands
    if lhs is None or rhs is None or _is_bare(dot, lhs, rhs):
        return None
    numbers, both = dot.attributes_as(Dot).dimensions, dot_roles(dot)
    for x, roles in zip((lhs, rhs), both, strict=True):
        if any(y is not None and set(y.places) & set(roles.contracted) for y in (x.zero, x.scale)):
            return None
    size = contracted_size(dot.operands[0].shape, numbers)
    is_float = type_ is ElementType.F32
    if not size or (is_float and size * lhs.magnitude * rhs.magnitude >= MOST_SUM):
        return None
    sides = [
        _Side(x, x.made(at), roles.contracted, roles.places)
        for x, roles in zip((lhs, rhs), both, strict=True)
    ]
    sums = at.build.dot(sides[0].made, sides[1].made, numbers, element_type=ElementType.S32)
    sums = _without_zeros(at, sums, sides, size)
    return _with_scales(at, sums, sides) if is_float else sums


def _is_bare(dot: Instruction, lhs: QuantizedOperand, rhs: QuantizedOperand) -> bool:
    """Whether the operands are the numbers themselves."""
    return lhs.numbers.shape.element_type is dot.operands[0].shape.element_type and (
        rhs.numbers.shape.element_type is dot.operands[1].shape.element_type
    )


def _without_zeros(at: Rewriter, sums: Op, sides: list[_Side], size: int) -> Op:
    """The sums less what the zero point of each operand adds, which is a number for each slice."""
    zeros: list[Slices] = []
    for this, other in (sides, sides[::-1]):
        if this.operand.zero is None:
            continue
        zero = slices(at, this.operand.zero, this.places)
        zeros.append(zero)
        total = totals(at, other.made, other.inner, other.places)
        sums = less(at, sums, product(at, total, zero, sums.dimensions))
    if len(zeros) == 2:
        both = product(at, zeros[0], zeros[1], sums.dimensions)
        both = product(at, both, Slices(scalar(at, -size, ElementType.S32), ()), sums.dimensions)
        sums = less(at, sums, both)
    return sums


def _with_scales(at: Rewriter, sums: Op, sides: list[_Side]) -> Op:
    lhs, rhs = sides
    assert lhs.operand.scale is not None
    assert rhs.operand.scale is not None
    factors = slices(at, lhs.operand.scale, lhs.places), slices(at, rhs.operand.scale, rhs.places)
    return scaled(at, sums, product(at, factors[0], factors[1], sums.dimensions))
