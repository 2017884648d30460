"""Evaluation of a scalar computation at many positions at once.

Each value is an array of one dimension, an entry per position, or of none where it is the same
for all positions. Conditionals and loops run on the positions that take them. A computation with
arrays of several elements, or an operation without a meaning here, runs position by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.evaluator import elementwise
from lowtide.evaluator.bits import bitcast_convert
from lowtide.evaluator.program import EvaluatorProgram, compile_program
from lowtide.evaluator.reducers import as_ufunc
from lowtide.evaluator.values import (
    TOKEN,
    Token,
    Value,
    Values,
    as_array,
    from_leaves,
    value_leaves,
)
from lowtide.ir.attributes import Conditional, GetTupleElement
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler

__all__ = ["as_ufunc", "evaluate_elementwise"]


def evaluate_elementwise(
    interpreter: Interpreter, computation: Computation, arguments: Sequence[Array]
) -> Value:
    """Return the results of a scalar computation for every position of the arguments.

    The arguments broadcast against one another; the result has the broadcast shape: an array, or
    a tuple of arrays where the root is a tuple.
    """
    arguments = [np.asarray(x) for x in arguments]
    shape = np.broadcast_shapes(*[x.shape for x in arguments])
    program = _program(interpreter, computation)
    if program is None:
        return _one_by_one(interpreter, computation, arguments, shape)
    flat = [x if x.ndim == 0 else np.broadcast_to(x, shape).reshape(-1) for x in arguments]
    result = interpreter.execute(program, flat)
    leaves = [_spread(leaf, shape) for leaf in value_leaves(result)]
    return from_leaves(computation.root.shape, leaves)


def _spread(leaf: Array | Token, shape: tuple[int, ...]) -> Array | Token:
    if isinstance(leaf, Token):
        return leaf
    return leaf.reshape(shape) if leaf.ndim else np.broadcast_to(leaf, shape)


def _one_by_one(
    interpreter: Interpreter,
    computation: Computation,
    arguments: Sequence[Array],
    shape: tuple[int, ...],
) -> Value:
    rows = [np.broadcast_to(x, shape).reshape(-1) for x in arguments]
    forms = [parameter.shape.dimensions for parameter in computation.parameters]
    root = computation.root.shape
    found: list[list[Array | Token]] = []
    for i in range(int(np.prod(shape, dtype=np.int64))):
        scalars = [row[i : i + 1].reshape(form) for row, form in zip(rows, forms, strict=True)]
        found.append(value_leaves(interpreter.run(computation, scalars)))
    leaves: list[Array | Token] = []
    for k, (_, leaf) in enumerate(root.leaves()):
        if not leaf.is_array:
            leaves.append(TOKEN)
            continue
        column = [as_array(entry[k]).reshape(()) for entry in found]
        leaves.append(np.array(column, DTYPES[leaf.element_type]).reshape(shape))
    return from_leaves(root, leaves)


# -- compilation -------------------------------------------------------------------------------


def _program(interpreter: Interpreter, computation: Computation) -> EvaluatorProgram | None:
    programs = interpreter.vector_programs
    if computation not in programs:
        programs[computation] = _compile(computation)
    program = programs[computation]
    if program is not None and program.version != computation.version:
        program = programs[computation] = _compile(computation)
    return program


def _compile(computation: Computation) -> EvaluatorProgram | None:
    """Return the program that runs at many positions at once, None where there is none."""
    stack = [computation]
    while stack:
        for instruction in stack.pop().instructions.values():
            if not _is_scalar(instruction):
                return None
            stack.extend(instruction.called_computations)
    program = compile_program(computation, vector_handlers())
    constants = tuple([(slot, _flatten(value)) for slot, value in program.constants])
    return EvaluatorProgram(
        version=program.version,
        size=program.size,
        steps=program.steps,
        parameters=program.parameters,
        constants=constants,
        root=program.root,
    )


def _is_scalar(instruction: Instruction) -> bool:
    known = instruction.opcode in vector_handlers() or instruction.opcode in _SOURCES
    return known and _has_scalars_only(instruction.shape)


def _has_scalars_only(shape: Shape) -> bool:
    return all(
        leaf.is_token or (leaf.is_array and leaf.element_count == 1 and not leaf.is_dynamic)
        for _, leaf in shape.leaves()
    )


def _flatten(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple([_flatten(element) for element in value])
    return value if isinstance(value, Token) else value.reshape(())


_SOURCES: Final = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})


@cache
def vector_handlers() -> Mapping[Opcode, Handler]:
    """Return the handlers of the operations that have a meaning at many positions at once."""
    return {**elementwise.HANDLERS, **_HANDLERS}


# -- handlers ----------------------------------------------------------------------------------


def _identity(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    return operands[0]


def _bitcast(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    return bitcast_convert(as_array(operands[0]), instruction.shape.element_type)


def _tuple(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    return tuple(operands)


def _get(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    value = operands[0]
    assert isinstance(value, tuple)
    return value[instruction.attributes_as(GetTupleElement).index]


def _iota(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    return np.zeros((), DTYPES[instruction.shape.element_type])


def _call(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    return _run(interpreter, instruction.called_computations[0], operands)


def _run(interpreter: Interpreter, computation: Computation, arguments: Values) -> Value:
    program = _program(interpreter, computation)
    assert program is not None, "the caller was compiled, and with it all that it calls"
    return interpreter.execute(program, arguments)


def _conditional(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    branches = instruction.called_computations
    index = as_array(operands[0]).astype(np.int64)
    if instruction.attributes_as(Conditional).is_predicated:
        index = 1 - index
    index = np.where((index < 0) | (index >= len(branches)), len(branches) - 1, index)
    if index.ndim == 0:
        chosen = int(index)
        return _run(interpreter, branches[chosen], [operands[1 + chosen]])
    merged: list[Array | Token] = [
        np.empty(index.shape, DTYPES[leaf.element_type]) if leaf.is_array else TOKEN
        for _, leaf in instruction.shape.leaves()
    ]
    for chosen, branch in enumerate(branches):
        positions = np.flatnonzero(index == chosen)
        if not positions.size:
            continue
        result = _run(interpreter, branch, [_take(operands[1 + chosen], positions)])
        _put(merged, positions, value_leaves(result))
    return from_leaves(instruction.shape, merged)


def _while(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    condition, body = instruction.called_computations
    state = operands[0]
    while True:
        going = as_array(_run(interpreter, condition, [state]))
        if not going.any():
            return state
        if going.all():
            state = _run(interpreter, body, [state])
            continue
        positions = np.flatnonzero(going)
        moved = _run(interpreter, body, [_take(state, positions)])
        merged = [_own(leaf, going.shape) for leaf in value_leaves(state)]
        _put(merged, positions, value_leaves(moved))
        state = from_leaves(instruction.shape, merged)


def _own(leaf: Array | Token, shape: tuple[int, ...]) -> Array | Token:
    return leaf if isinstance(leaf, Token) else np.broadcast_to(leaf, shape).copy()


def _take(value: Value, positions: Array) -> Value:
    if isinstance(value, tuple):
        return tuple([_take(element, positions) for element in value])
    if isinstance(value, Token) or value.ndim == 0:
        return value
    return value[positions]


def _put(merged: list[Array | Token], positions: Array, leaves: Sequence[Array | Token]) -> None:
    for target, leaf in zip(merged, leaves, strict=True):
        if isinstance(target, np.ndarray):
            target[positions] = leaf


_HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.BITCAST: _bitcast,
    Opcode.BROADCAST: _identity,
    Opcode.CALL: _call,
    Opcode.CONDITIONAL: _conditional,
    Opcode.COPY: _identity,
    Opcode.FUSION: _call,
    Opcode.GET_TUPLE_ELEMENT: _get,
    Opcode.IOTA: _iota,
    Opcode.MAP: _call,
    Opcode.OPTIMIZATION_BARRIER: _identity,
    Opcode.RESHAPE: _identity,
    Opcode.REVERSE: _identity,
    Opcode.TRANSPOSE: _identity,
    Opcode.TUPLE: _tuple,
    Opcode.WHILE: _while,
}
