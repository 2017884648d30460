"""Elementwise arithmetic of all element types, in registers: one operation, a vector at a time."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.elementwise.dispatch import write
from lowtide.codegen.elementwise.operation import Operation, is_short
from lowtide.codegen.value import Value
from lowtide.ir.attributes import Attributes
from lowtide.ir.element_type import ElementType
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

__all__ = ["emit", "emit_op"]


def emit(
    fn: Function, target: Target, instruction: Instruction, operands: Sequence[Value]
) -> Value:
    """Return the value of an elementwise instruction; operands and result have as many lanes.

    Raises UnsupportedOpError for an operation that has no meaning for the type of its operands.
    """
    type_ = instruction.shape.element_type
    given = (instruction.opcode, instruction.attributes, type_, tuple(operands))
    return write(Operation(fn, target, *given, is_short=is_short(instruction)))


def emit_op(
    fn: Function,
    target: Target,
    opcode: Opcode,
    attributes: Attributes,
    result_type: ElementType,
    operands: Sequence[Value],
) -> Value:
    """Return the value of an operation that has no instruction; see `emit`."""
    return write(Operation(fn, target, opcode, attributes, result_type, tuple(operands)))
