"""About how long pieces of work take, to decide into how many pieces to split it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lowtide.codegen.value import register_bytes
from lowtide.cost.machine import X86_SERVER
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.llvm.target import Target

_CYCLES: Final[dict[Opcode, float]] = {
    Opcode.EXPONENTIAL: 8,
    Opcode.EXPONENTIAL_MINUS_ONE: 14,
    Opcode.LOG: 10,
    Opcode.LOG_PLUS_ONE: 14,
    Opcode.TANH: 14,
    Opcode.LOGISTIC: 10,
    Opcode.ERF: 14,
    Opcode.SINE: 20,
    Opcode.COSINE: 20,
    Opcode.TAN: 25,
    Opcode.POWER: 30,
    Opcode.ATAN2: 25,
    Opcode.CBRT: 20,
    Opcode.DIVIDE: 5,
    Opcode.REMAINDER: 10,
    Opcode.SQRT: 6,
    Opcode.RSQRT: 4,
    Opcode.GATHER: 10,
}
"""Cycles of one vector instruction's worth of an operation; 1 where it is not listed."""

_CHAINED: Final = frozenset(
    {
        Opcode.EXPONENTIAL,
        Opcode.EXPONENTIAL_MINUS_ONE,
        Opcode.LOG,
        Opcode.LOG_PLUS_ONE,
        Opcode.LOGISTIC,
        Opcode.TANH,
    }
)
"""What takes a polynomial, each step of which waits for the one before."""

_ABREAST: Final = {32: 4, 64: 2}
"""How many vectors of so many bytes are worked on at a time so that processors do not wait.

Wider ones keep them busy for longer. More take more registers than there are.
"""

_FREE: Final = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.CONSTANT,
        Opcode.BROADCAST,
        Opcode.RESHAPE,
        Opcode.BITCAST,
        Opcode.TRANSPOSE,
        Opcode.TUPLE,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.SLICE,
    }
)


def vector_cycles(members: Iterable[Instruction]) -> float:
    """Return about how many cycles all members take for one vector of elements."""
    return sum([_CYCLES.get(x.opcode, 1.0) for x in members if x.opcode not in _FREE])


def conversion(type_: ElementType, *, is_rounding: bool) -> float:
    """Return about how many cycles it takes to round a vector to a type, or to widen one of it."""
    if not type_.is_floating or type_.bits >= 32:
        return 0.0
    return 6.0 if is_rounding else 2.0


def vectors_abreast(target: Target, members: Iterable[Instruction]) -> int:
    """Return how many vectors are to be computed side by side.

    Processors look ahead by themselves, but not far enough for long chains.
    """
    is_chained = any(x.opcode in _CHAINED and not x.shape.element_type.is_complex for x in members)
    return _ABREAST.get(target.vector_bytes, 1) if is_chained else 1


def widest(
    members: Iterable[Instruction], raw: Mapping[ElementType, ElementType] | None = None
) -> int:
    """Return the bytes of the widest element that members compute with or read.

    `raw` are the types in whose place integers are moved. What is computed of single numbers alone,
    such as the place of a step, takes no vectors, and counts only where there is nothing else.
    """
    instead = raw or {}
    given = [(x.shape, *[y.shape for y in x.operands]) for x in members]
    found = 1
    for shapes in [x for x in given if any(y.is_array and y.rank for y in x)] or given:
        is_scalar = shapes[0].is_array and shapes[0].rank == 0
        for shape in shapes:
            if shape.is_array and (shape.rank or is_scalar):
                type_ = instead.get(shape.element_type, shape.element_type)
                found = max(found, register_bytes(type_))
    return found


def seconds(nbytes: float, cycles: float) -> float:
    """Return about how long it takes to move bytes and to compute."""
    return (nbytes / X86_SERVER.bytes_per_cycle + cycles) / X86_SERVER.clock_hertz


def loop_seconds(nbytes: int, cycles: float) -> float:
    """Return about how long a loop takes that moves bytes in turn, and computes meanwhile."""
    fitting = (x.bytes_per_cycle for x in X86_SERVER.cache_rates if nbytes <= x.most_bytes)
    rate = next(fitting, X86_SERVER.memory_bytes_per_cycle)
    return max(nbytes / rate, cycles) / X86_SERVER.clock_hertz
