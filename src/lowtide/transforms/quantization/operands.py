"""Operands that stand for (q - zero) * scale, q being integers of at most 8 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.passes.rewriting import Rewriter
from lowtide.records import dataclass
from lowtide.transforms.quantization.spreading import (
    MOVES,
    Spread,
    is_zero,
    moved,
    places_after,
    plain,
    spread_of,
)


@dataclass(frozen=True, slots=True)
class QuantizedOperand:
    """Numbers of few bits behind some moves, the zero point and the scale of what they stand for.

    Places of both count in the array after all moves. `zero` is None where it is 0, `scale` where
    it is 1.
    """

    numbers: Instruction
    moves: tuple[Instruction, ...]
    zero: Spread | None
    scale: Spread | None

    @property
    def type(self) -> ElementType:
        """The type of the numbers."""
        return self.numbers.shape.element_type

    @property
    def magnitude(self) -> int:
        """The most that a number may differ from its zero point by."""
        most = (1 << self.type.bits) - 1
        return most if self.zero is not None or not self.type.is_signed else (most + 1) // 2

    def made(self, at: Rewriter) -> Op:
        """Return the numbers after all moves."""
        return moved(at, at(self.numbers), list(self.moves))


Find: TypeAlias = "Callable[[Instruction], QuantizedOperand | None]"

_MOST_BITS: Final = 8


def integer_operand(x: Instruction) -> QuantizedOperand | None:
    """Return what an operand of 32-bit integers stands for, None where it is something else."""
    return _behind_moves(x, _centered)


def float_operand(x: Instruction) -> QuantizedOperand | None:
    """Return what an operand of f32 stands for, None where it is something else."""
    return _behind_moves(x, _scaled)


def _behind_moves(x: Instruction, find: Find) -> QuantizedOperand | None:
    moves: list[Instruction] = []
    x = plain(x)
    while x.opcode in MOVES:
        moves.append(x)
        x = plain(x.operands[0])
    found = find(x)
    if found is None:
        return None
    for move in reversed(moves):
        places = places_after(move)
        zero = None if found.zero is None else found.zero.at(places)
        scale = None if found.scale is None else found.scale.at(places)
        if (zero is None, scale is None) != (found.zero is None, found.scale is None):
            return None
        found = replace(found, moves=(*found.moves, move), zero=zero, scale=scale)
    return found


def _scaled(x: Instruction) -> QuantizedOperand | None:
    """What a product with scales stands for: convert(centered) * scale."""
    if x.opcode is not Opcode.MULTIPLY or x.shape.element_type is not ElementType.F32:
        return None
    for value, factor in (x.operands, x.operands[::-1]):
        scale, value = spread_of(factor), plain(value)
        if scale is None or value.opcode is not Opcode.CONVERT:
            continue
        found = _centered(value.operands[0])
        if found is not None:
            return replace(found, scale=scale)
    return None


def _centered(x: Instruction) -> QuantizedOperand | None:
    """What integers stand for: convert(q) - zero, convert(q) or q."""
    x = plain(x)
    if x.opcode is not Opcode.SUBTRACT:
        numbers = _narrow(x)
        return None if numbers is None else QuantizedOperand(numbers, (), None, None)
    if x.shape.element_type is not ElementType.S32:
        return None
    numbers, zero = _narrow(x.operands[0]), spread_of(x.operands[1])
    if numbers is None or zero is None:
        return None
    return QuantizedOperand(numbers, (), None if is_zero(zero) else zero, None)


def _narrow(x: Instruction) -> Instruction | None:
    """The numbers of at most 8 bits that a value is widened from, if it is."""
    x = plain(x)
    while x.opcode is Opcode.CONVERT and x.shape.element_type is ElementType.S32:
        x = plain(x.operands[0])
    type_ = x.shape.element_type
    return x if type_.is_integer and type_.bits <= _MOST_BITS else None
