"""Operations which pass values on: tuples, tokens, copies in time, borders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lowtide.evaluator.values import TOKEN, Value, Values, as_tuple, zeros
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler


def make_tuple(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the operands as a tuple."""
    return tuple(operands)


def get_tuple_element(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Value:
    """Return one element of the operand."""
    return as_tuple(operands[0])[instruction.attributes_as(GetTupleElement).index]


def first_operand(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return operand 0."""
    return operands[0]


def make_token(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the token."""
    return TOKEN


def copy_start(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (copy, operand, context): the copy is made at once."""
    context = [zeros(shape) for shape in instruction.shape.tuple_shapes[2:]]
    return (operands[0], operands[0], *context)


def copy_done(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the copy out of what `copy_start` returned."""
    return as_tuple(operands[0])[0]


HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.ADD_DEPENDENCY: first_operand,
    Opcode.AFTER_ALL: make_token,
    Opcode.COPY: first_operand,
    Opcode.COPY_DONE: copy_done,
    Opcode.COPY_START: copy_start,
    Opcode.DOMAIN: first_operand,
    Opcode.GET_TUPLE_ELEMENT: get_tuple_element,
    Opcode.OPTIMIZATION_BARRIER: first_operand,
    Opcode.TUPLE: make_tuple,
}
