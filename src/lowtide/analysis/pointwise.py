"""Kernels whose results are computed element by element from little more than what they read."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ops.table import TABLE

_MOVES: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.CONCATENATE, Opcode.CONSTANT, Opcode.IOTA),
        *(Opcode.GET_TUPLE_ELEMENT, Opcode.PAD, Opcode.PARAMETER, Opcode.RESHAPE, Opcode.REVERSE),
        *(Opcode.SLICE, Opcode.TRANSPOSE, Opcode.TUPLE),
    }
)
"""Operations that compute nothing: each element of the result is one of an operand."""


def is_pointwise(instruction: Instruction) -> bool:
    """Whether a reader could compute each element of an array itself, where it needs it.

    That holds for elementwise operations, broadcasts, slices and the like, and for fusions that
    have nothing else in them.
    """
    if instruction.opcode is Opcode.FUSION:
        inside = instruction.called_computations[0].instructions.values()
        return all(_is_pointwise_step(x) for x in inside)
    if instruction.opcode in (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.TUPLE):
        return False
    return _is_pointwise_step(instruction)


def _is_pointwise_step(instruction: Instruction) -> bool:
    return instruction.opcode in _MOVES or TABLE[instruction.opcode].elementwise
