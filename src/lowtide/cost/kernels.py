"""The time of a kernel: to move the bytes that it reads and writes, and to compute."""

from __future__ import annotations

from typing import Final

from lowtide.cost.machine import Machine
from lowtide.ir import Instruction, Opcode
from lowtide.ops.table import TABLE

_TRANSCENDENTAL: Final = frozenset(
    {
        Opcode.ACOS,
        Opcode.ACOSH,
        Opcode.ASIN,
        Opcode.ASINH,
        Opcode.ATAN2,
        Opcode.ATANH,
        Opcode.CBRT,
        Opcode.COSH,
        Opcode.COSINE,
        Opcode.ERF,
        Opcode.EXPONENTIAL,
        Opcode.EXPONENTIAL_MINUS_ONE,
        Opcode.LOG,
        Opcode.LOG_PLUS_ONE,
        Opcode.LOGISTIC,
        Opcode.POWER,
        Opcode.SINE,
        Opcode.SINH,
        Opcode.TAN,
        Opcode.TANH,
    }
)
_DIVIDING: Final = frozenset({Opcode.DIVIDE, Opcode.REMAINDER, Opcode.SQRT, Opcode.RSQRT})
_FREE: Final = frozenset(
    {Opcode.CONSTANT, Opcode.BROADCAST, Opcode.RESHAPE, Opcode.BITCAST, Opcode.IOTA, Opcode.TUPLE}
)


def move_seconds(nbytes: int, machine: Machine) -> float:
    """Return the time to read or to write so many bytes of one array."""
    return nbytes * (
        machine.cached_byte_seconds
        if nbytes <= machine.cache_bytes
        else machine.memory_byte_seconds
    )


def compute_seconds(instruction: Instruction, machine: Machine) -> float:
    """Return the time of the arithmetic of one instruction; contractions count as nothing.

    A contraction is never computed twice, hence its own time is of no consequence.
    """
    opcode = instruction.opcode
    if opcode in _FREE or not instruction.shape.is_array:
        return 0.0
    elements = instruction.shape.element_count
    if opcode is Opcode.REDUCE:
        elements = instruction.operands[0].shape.element_count
    if opcode in _TRANSCENDENTAL:
        return elements * machine.transcendental_seconds
    if opcode in _DIVIDING:
        return elements * machine.division_seconds
    if TABLE[opcode].elementwise or opcode is Opcode.REDUCE:
        return elements * machine.element_seconds
    return elements * 2 * machine.element_seconds
