"""What a kernel costs: the constants of the machine, and nothing else.

The figures are those of one core of a current x86-64 server, measured with loops over arrays of
32-bit floats that exceed each cache; only their ratios matter for what is fused.
"""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ops.table import TABLE

LAUNCH: Final = 1e-6
"""Seconds to start a kernel and to wait for its threads."""

PER_BYTE_MEMORY: Final = 1e-10
"""Seconds to move a byte from or to memory."""

PER_BYTE_CACHE: Final = 2e-11
"""Seconds to move a byte from or to the second-level cache."""

CACHE_BYTES: Final = 1 << 19
"""What fits the second-level cache, with room for the other operands."""

PER_ELEMENT: Final = 5e-11
"""Seconds for one simple operation on an element, in vectors."""

PER_TRANSCENDENTAL: Final = 1e-9
"""Seconds for exp, log and the like on an element, in vectors."""

PER_DIVISION: Final = 4e-10
"""Seconds for a division or square root of an element, in vectors."""

PER_FLOP: Final = 8e-12
"""Seconds for one addition or multiplication of a contraction, in vectors, on one core."""

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


def move_seconds(nbytes: int) -> float:
    """Return the time to read or to write so many bytes of one array."""
    return nbytes * (PER_BYTE_CACHE if nbytes <= CACHE_BYTES else PER_BYTE_MEMORY)


def compute_seconds(instruction: Instruction) -> float:
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
        return elements * PER_TRANSCENDENTAL
    if opcode in _DIVIDING:
        return elements * PER_DIVISION
    if TABLE[opcode].elementwise or opcode is Opcode.REDUCE:
        return elements * PER_ELEMENT
    return elements * 2 * PER_ELEMENT
