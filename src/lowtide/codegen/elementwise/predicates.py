"""Functions of truth values, each an i1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.elementwise.number import Number
from lowtide.ir.opcode import Opcode


def _and(a: Number, b: Number) -> Number:
    return a & b


def _or(a: Number, b: Number) -> Number:
    return a | b


def _xor(a: Number, b: Number) -> Number:
    return a ^ b


FUNCTIONS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.ABS: lambda x: x,
    Opcode.ADD: _or,
    Opcode.AND: _and,
    Opcode.MAXIMUM: _or,
    Opcode.MINIMUM: _and,
    Opcode.MULTIPLY: _and,
    Opcode.NOT: lambda x: ~x,
    Opcode.OR: _or,
    Opcode.SUBTRACT: _xor,
    Opcode.XOR: _xor,
}
