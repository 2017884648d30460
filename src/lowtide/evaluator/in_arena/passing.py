"""Leaves of a result that are leaves of an operand: no byte moves.

Calls, loops, conditionals and async-start are not answered here: they pass on what they run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from lowtide.evaluator.custom_call import CUSTOM_CALL_TARGETS, identity
from lowtide.evaluator.in_arena.storage import array_of, leaf_count, leaf_starts, memory_order
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.registry import handlers
from lowtide.evaluator.values import as_array
from lowtide.ir.attributes import CustomCall, GetTupleElement
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode

Source = tuple[int, int] | None
"""An operand number and a leaf of it; None for a leaf that the instruction makes."""


def passed_leaves(instruction: Instruction) -> tuple[Source, ...] | None:
    """Return per leaf of the result where it comes from; None where all leaves are made."""
    rule = _RULES.get(instruction.opcode)
    return None if rule is None else tuple(rule(instruction))


def _leaves(operand: int, start: int, stop: int) -> Sequence[Source]:
    return [(operand, leaf) for leaf in range(start, stop)]


def _all_of_first(instruction: Instruction) -> Sequence[Source]:
    return _leaves(0, 0, leaf_count(instruction.operands[0].shape))


def _all(instruction: Instruction) -> Sequence[Source]:
    found: list[Source] = []
    for number, operand in enumerate(instruction.operands):
        found += _leaves(number, 0, leaf_count(operand.shape))
    return found


def _element(instruction: Instruction) -> Sequence[Source]:
    return _at(instruction, instruction.attributes_as(GetTupleElement).index)


def _at(instruction: Instruction, element: int) -> Sequence[Source]:
    starts = leaf_starts(instruction.operands[0].shape)
    return _leaves(0, starts[element], starts[element + 1])


def _first(instruction: Instruction) -> Sequence[Source]:
    return _at(instruction, 0)


def _second(instruction: Instruction) -> Sequence[Source]:
    return _at(instruction, 1)


def _copy(instruction: Instruction) -> Sequence[Source]:
    """The copy of a tuple copies the table of addresses only."""
    return _all_of_first(instruction) if instruction.shape.is_tuple else [None]


def _started(instruction: Instruction) -> Sequence[Source]:
    """The result is (operands, results, contexts ...)."""
    made = leaf_count(instruction.shape) - leaf_starts(instruction.shape)[1]
    return [*_all(instruction), *([None] * made)]


def _copy_started(instruction: Instruction) -> Sequence[Source]:
    """The result is (target, source, contexts ...)."""
    starts = leaf_starts(instruction.shape)
    contexts = [None] * (starts[-1] - starts[2])
    return [*([None] * starts[1]), *_all_of_first(instruction), *contexts]


_RULES: Final[dict[Opcode, Callable[[Instruction], Sequence[Source]]]] = {
    Opcode.ADD_DEPENDENCY: _all_of_first,
    Opcode.ALL_GATHER_DONE: _second,
    Opcode.ALL_GATHER_START: _started,
    Opcode.ALL_REDUCE_DONE: _all_of_first,
    Opcode.ASYNC_DONE: _second,
    Opcode.ASYNC_UPDATE: _all_of_first,
    Opcode.BITCAST: _all_of_first,
    Opcode.COLLECTIVE_PERMUTE_DONE: _second,
    Opcode.COLLECTIVE_PERMUTE_START: _started,
    Opcode.COPY: _copy,
    Opcode.COPY_DONE: _first,
    Opcode.COPY_START: _copy_started,
    Opcode.DOMAIN: _all_of_first,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.OPTIMIZATION_BARRIER: _all_of_first,
    Opcode.TUPLE: _all,
}

STARTS: Final = frozenset(
    {
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE_START,
        Opcode.ASYNC_START,
        Opcode.COLLECTIVE_PERMUTE_START,
        Opcode.COPY_START,
    }
)
"""Operations that read their operands until the operation that waits for them."""

WAITS: Final = frozenset(
    {
        Opcode.ALL_GATHER_DONE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ASYNC_DONE,
        Opcode.ASYNC_UPDATE,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.COPY_DONE,
    }
)
"""Operations up to which an asynchronous one works in its operands and results."""


def may_pass(instruction: Instruction) -> bool:
    """Whether the result may be the operand itself, in its place, if `keeps_bytes`."""
    opcode = instruction.opcode
    if opcode is Opcode.CUSTOM_CALL:
        target = instruction.attributes_as(CustomCall).target
        return len(instruction.operands) == 1 and CUSTOM_CALL_TARGETS.get(target) is identity
    return opcode in (Opcode.COPY, Opcode.RESHAPE, Opcode.TRANSPOSE)


def keeps_bytes(instruction: Instruction) -> bool:
    """Whether a copy, reshape, transpose or annotation leaves each element in its place."""
    source, result = instruction.operands[0].shape, instruction.shape
    if source is result:
        return True
    source, result = array_of(source), array_of(result)
    if not (source.is_array and result.is_array) or source.is_dynamic or result.is_dynamic:
        return False
    if source.nbytes != result.nbytes or source.element_type is not result.element_type:
        return False
    interpreter = Interpreter(instruction.parent.module)
    moved = handlers()[instruction.opcode](interpreter, instruction, [memory_order(source)])
    return np.array_equal(as_array(moved), memory_order(result))
