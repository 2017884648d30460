"""One elementwise operation to write: where, which, of what, with which result type."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.elementwise.formats import rounded
from lowtide.codegen.elementwise.memory import numbers, wrapped
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.value import Value, register_type
from lowtide.ir.attributes import Attributes
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.records import dataclass

FEW: Final = 256
"""So many elements have few vectors: in loops over more of them each instruction counts."""


def is_short(instruction: Instruction) -> bool:
    """Return whether an instruction has few elements."""
    return instruction.shape.element_count <= FEW


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on operands of equally many lanes; `type` is that of the result's elements."""

    fn: Function
    target: Target
    opcode: Opcode
    attributes: Attributes
    type: ElementType
    operands: tuple[Value, ...]
    is_short: bool = False
    """Whether the array that it is for has few elements."""

    @property
    def operand_type(self) -> ElementType:
        """The element type of the first operand."""
        return self.operands[0].type

    def numbers(self, index: int) -> tuple[Number, ...]:
        """Return an operand as numbers: one, or the real and the imaginary part."""
        return numbers(self.fn, self.target, self.operands[index])

    def number(self, index: int) -> Number:
        """Return an operand that is not complex."""
        (number,) = self.numbers(index)
        return number

    def result(self, *parts: Number) -> Value:
        """Return numbers of the register type of the result as its value."""
        return Value(tuple([x.name for x in parts]), self.type, self.operands[0].lanes)

    def rounded(self, *parts: Number) -> Value:
        """Return numbers rounded, or wrapped around, to the result type."""
        if self.type.is_floating:
            parts = tuple([rounded(self.type, x) for x in parts])
        elif self.type.is_integer:
            parts = tuple([wrapped(self.type, x) for x in parts])
        return self.result(*parts)

    def unsupported(self, why: str) -> UnsupportedOpError:
        """Return the error for an operation that has no meaning for its operands."""
        return UnsupportedOpError(f"{self.opcode.value} of {self.operand_type.value}: {why}")


def widest(values: tuple[Number, ...]) -> tuple[Number, ...]:
    """Return floats and doubles all as doubles if one is a double."""
    if any(x.is_double for x in values):
        return tuple([x.extended() for x in values])
    return values


def is_float_register(type_: ElementType) -> bool:
    """Whether elements are computed with as float or double."""
    return register_type(type_) in ("float", "double")
