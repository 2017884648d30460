"""Operations which run computations: calls, fusions, loops, conditionals, asynchronous ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lowtide.evaluator.values import Token, Value, Values, as_array, as_tuple, value_leaves, zeros
from lowtide.ir.attributes import Conditional
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler


def call(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return what the called computation makes of the operands."""
    return interpreter.run(instruction.called_computations[0], operands)


def while_loop(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the state for which the condition no longer holds.

    A loop that has reached a state which its body does not change is taken to end in it: it could
    end in no other.
    """
    condition, body = instruction.called_computations
    state = operands[0]
    while as_array(interpreter.run(condition, [state])):
        drawn = interpreter.random_counter
        before, state = state, interpreter.run(body, [state])
        is_alone = interpreter.device is None and interpreter.random_counter == drawn
        if is_alone and _same(before, state):
            break
    return state


def _same(before: Value, after: Value) -> bool:
    """Whether all arrays are the same objects, or scalars of the same bits."""
    pairs = zip(value_leaves(before), value_leaves(after), strict=True)
    return all(a is b or _same_scalar(a, b) for a, b in pairs)


def _same_scalar(a: Array | Token, b: Array | Token) -> bool:
    if isinstance(a, Token) or isinstance(b, Token) or a.ndim:
        return False
    return a.tobytes() == b.tobytes()


def conditional(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return what the chosen branch makes of its operand.

    Of a predicate, the first branch is for true; an index out of range chooses the last branch.
    """
    branches = instruction.called_computations
    index = int(as_array(operands[0]))
    if instruction.attributes_as(Conditional).is_predicated:
        index = 1 - index
    if not 0 <= index < len(branches):
        index = len(branches) - 1
    return interpreter.run(branches[index], [operands[1 + index]])


def async_start(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (operands, result, contexts): the computation runs at once."""
    result = interpreter.run(instruction.called_computations[0], operands)
    contexts = [zeros(shape) for shape in instruction.shape.tuple_shapes[2:]]
    return (tuple(operands), result, *contexts)


def async_update(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the state of `async_start` as it is."""
    return operands[0]


def async_done(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the result out of what `async_start` returned."""
    return as_tuple(operands[0])[1]


HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.ASYNC_DONE: async_done,
    Opcode.ASYNC_START: async_start,
    Opcode.ASYNC_UPDATE: async_update,
    Opcode.CALL: call,
    Opcode.CONDITIONAL: conditional,
    Opcode.FUSION: call,
    Opcode.WHILE: while_loop,
}
