"""Bounds of the absolute values of integers, by the operations that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Constant, Convolution, Dimensions, Dot

_MOST_STEPS: Final = 32
"""Operations behind a number that are looked at."""


def magnitude(x: Instruction) -> int:
    """Return a number that no absolute value of the elements exceeds.

    Sums and products are bounded as if they had no end of bits: where the bound fits the type, they
    did not wrap around, else it is that of the type.
    """
    return _bounded(x, _MOST_STEPS)


def _bounded(x: Instruction, steps: int) -> int:
    type_ = x.shape.element_type
    most = 1 << type_.bits - int(type_.is_signed)
    rule = _RULES.get(x.opcode)
    if rule is None or not steps or not type_.is_integer:
        return most
    return min(most, rule(x, steps - 1))


def _constant(x: Instruction, steps: int) -> int:
    values = x.attributes_as(Constant).literal.array
    return max(-int(values.min(initial=0)), int(values.max(initial=0)))


def _same(x: Instruction, steps: int) -> int:
    return _bounded(x.operands[0], steps)


def _converted(x: Instruction, steps: int) -> int:
    given = x.operands[0]
    if not given.shape.element_type.is_integer:
        return 1 << x.shape.element_type.bits
    return _bounded(given, steps)


def _sum(x: Instruction, steps: int) -> int:
    return sum([_bounded(y, steps) for y in x.operands])


def _product(x: Instruction, steps: int) -> int:
    return prod([_bounded(y, steps) for y in x.operands])


def _dot(x: Instruction, steps: int) -> int:
    contracted = x.attributes_as(Dot).dimensions.lhs_contracting
    sizes = x.operands[0].shape.dimensions
    return prod([sizes[d] for d in contracted]) * _product(x, steps)


def _convolution(x: Instruction, steps: int) -> int:
    kernel = x.operands[1].shape
    outputs = kernel.dimensions[x.attributes_as(Convolution).dimensions.kernel_output_feature]
    return kernel.element_count // max(1, outputs) * _product(x, steps)


def _reduced(x: Instruction, steps: int) -> int:
    """The bound of a sum; of another reduction that of the type."""
    body, given = x.called_computations[0].root, x.operands[0]
    if body.opcode is not Opcode.ADD or len(x.operands) != 2:
        return 1 << x.shape.element_type.bits
    inner = [given.shape.dimensions[d] for d in x.attributes_as(Dimensions).dimensions]
    return prod(inner) * _bounded(given, steps) + _bounded(x.operands[1], steps)


_RULES: Final[Mapping[Opcode, Callable[[Instruction, int], int]]] = {
    Opcode.ADD: _sum,
    Opcode.BROADCAST: _same,
    Opcode.CONSTANT: _constant,
    Opcode.CONVERT: _converted,
    Opcode.CONVOLUTION: _convolution,
    Opcode.DOT: _dot,
    Opcode.MULTIPLY: _product,
    Opcode.PAD: lambda x, steps: max([_bounded(y, steps) for y in x.operands]),
    Opcode.REDUCE: _reduced,
    Opcode.RESHAPE: _same,
    Opcode.SUBTRACT: _sum,
    Opcode.TRANSPOSE: _same,
}
