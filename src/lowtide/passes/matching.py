"""Questions that rules ask of an instruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Constant, Dimensions


def scalar_value(instruction: Instruction) -> Any | None:
    """Return the NumPy scalar that all elements are: of a scalar constant, or a broadcast of one.

    None for all else, also for constants with several equal elements: a rule of its own makes them
    broadcasts. The value of an elided constant is not known.
    """
    if instruction.opcode is Opcode.BROADCAST:
        instruction = instruction.operands[0]
    if instruction.opcode is not Opcode.CONSTANT or not instruction.shape.is_array:
        return None
    literal = instruction.attributes_as(Constant).literal
    if instruction.shape.rank or literal.elided:
        return None
    return literal.array[()]


def is_all(instruction: Instruction, number: complex) -> bool:
    """Whether all elements are known to be a number; 0 stands for -0 too."""
    value = scalar_value(instruction)
    return value is not None and bool(value == np.asarray(number).astype(value.dtype))


def is_positive_zero(instruction: Instruction) -> bool:
    """Whether all elements are known to be 0, and none -0."""
    value = scalar_value(instruction)
    return value is not None and value == 0 and not np.signbit(np.real(value))


def is_negative_zero(instruction: Instruction) -> bool:
    """Whether all elements are known to be the floating point number -0."""
    value = scalar_value(instruction)
    if value is None or not instruction.shape.element_type.is_floating:
        return False
    return bool(value == 0 and np.signbit(value))


def dimensions(instruction: Instruction) -> tuple[int, ...]:
    """Return the `dimensions` of a broadcast, transpose, reduce, concatenate or the like."""
    return instruction.attributes_as(Dimensions).dimensions


def has_one_user(instruction: Instruction) -> bool:
    """Whether one instruction reads it, once or more, and it is not the result."""
    return len(instruction.users) == 1 and not instruction.is_root
