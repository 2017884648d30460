"""Elements of a result that are elements of the operands, not new ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from lowtide.checking.elements import CheckedElements
from lowtide.checking.storage_order import keeps_bytes
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import CustomCall, GetTupleElement

NEW: Final = -1
"""In place of a value's number: the element is made by the instruction."""

Values = tuple[int, ...]
"""The numbers of the values of all elements of a shape."""

_Rule = Callable[[Instruction, Sequence[Values], CheckedElements], Values]

STARTS: Final = frozenset(
    {
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE_START,
        Opcode.ASYNC_START,
        Opcode.COLLECTIVE_PERMUTE_START,
        Opcode.COPY_START,
        Opcode.RECV,
        Opcode.SEND,
    }
)
"""Operations that go on, reading and writing, until their end."""

ENDS: Final = frozenset(
    {
        Opcode.ALL_GATHER_DONE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ASYNC_DONE,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.COPY_DONE,
        Opcode.RECV_DONE,
        Opcode.SEND_DONE,
    }
)
"""The ends of asynchronous operations."""


def forwarded(
    instruction: Instruction, operands: Sequence[Values], elements: CheckedElements
) -> Values | None:
    """Return per element of the result a value of the operands or `NEW`; None where all are new.

    What calls, loops, conditionals and async-start return depends on what they run; they are not
    answered here. Neither is `may_forward`.
    """
    rule = _RULES.get(instruction.opcode)
    return None if rule is None else rule(instruction, operands, elements)


def may_forward(instruction: Instruction) -> bool:
    """Whether a plan may treat the result as another name of operand 0, or give it a place."""
    if instruction.opcode in (Opcode.RESHAPE, Opcode.TRANSPOSE):
        return keeps_bytes(instruction)
    if instruction.opcode is not Opcode.CUSTOM_CALL or len(instruction.operands) != 1:
        return False
    if instruction.attributes_as(CustomCall).target not in _ANNOTATIONS:
        return False
    return instruction.shape.compatible(instruction.operands[0].shape)


_ANNOTATIONS: Final = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding"}
)
"""Custom calls that only say how a value is spread over devices."""


def _first(_: Instruction, operands: Sequence[Values], __: CheckedElements) -> Values:
    return operands[0]


def _tuple(_: Instruction, operands: Sequence[Values], elements: CheckedElements) -> Values:
    table = (NEW,) if elements.tables else ()
    return (*table, *chain.from_iterable(operands))


def _element(
    instruction: Instruction, operands: Sequence[Values], elements: CheckedElements
) -> Values:
    index = instruction.attributes_as(GetTupleElement).index
    return operands[0][elements.part(instruction.operands[0].shape, (index,))]


def _copy(
    instruction: Instruction, operands: Sequence[Values], elements: CheckedElements
) -> Values:
    """A copy of a tuple is one of its table only."""
    if not instruction.shape.is_tuple:
        return (NEW,)
    return (NEW, *operands[0][1:]) if elements.tables else operands[0]


def _done(number: int) -> _Rule:
    """The end of an operation: element `number` of what its start returned."""

    def rule(
        instruction: Instruction, operands: Sequence[Values], elements: CheckedElements
    ) -> Values:
        shape = instruction.operands[0].shape
        if not shape.is_tuple:
            return operands[0]
        values = operands[0][elements.part(shape, (number,))]
        rest = elements.count(instruction.shape) - len(values)
        return (*values, *((NEW,) * rest))

    return rule


def _recv_done(
    instruction: Instruction, operands: Sequence[Values], elements: CheckedElements
) -> Values:
    data = operands[0][elements.part(instruction.operands[0].shape, (0,))]
    made = [NEW] * elements.count(instruction.shape)
    made[elements.part(instruction.shape, (0,))] = data
    return tuple(made)


def _copy_start(
    instruction: Instruction, operands: Sequence[Values], elements: CheckedElements
) -> Values:
    made = [NEW] * elements.count(instruction.shape)
    made[elements.part(instruction.shape, (1,))] = operands[0]
    return tuple(made)


def _start(
    instruction: Instruction, operands: Sequence[Values], elements: CheckedElements
) -> Values:
    """The result begins with the operands: all of them as a tuple, or the only one as it is."""
    shape = instruction.shape
    made = [NEW] * elements.count(shape)
    if shape.is_tuple and shape.tuple_shapes:
        given = operands[0]
        if not shape.tuple_shapes[0].compatible(instruction.operands[0].shape):
            given = _tuple(instruction, operands, elements)
        place = elements.part(shape, (0,))
        if place.stop - place.start == len(given):
            made[place] = given
    return tuple(made)


_RULES: Final[dict[Opcode, _Rule]] = {
    Opcode.ADD_DEPENDENCY: _first,
    Opcode.ALL_GATHER_DONE: _done(1),
    Opcode.ALL_GATHER_START: _start,
    Opcode.ALL_REDUCE_DONE: _first,
    Opcode.ASYNC_DONE: _done(1),
    Opcode.ASYNC_UPDATE: _first,
    Opcode.BITCAST: _first,
    Opcode.COLLECTIVE_PERMUTE_DONE: _done(1),
    Opcode.COLLECTIVE_PERMUTE_START: _start,
    Opcode.COPY: _copy,
    Opcode.COPY_DONE: _done(0),
    Opcode.COPY_START: _copy_start,
    Opcode.DOMAIN: _first,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.OPTIMIZATION_BARRIER: _first,
    Opcode.RECV_DONE: _recv_done,
    Opcode.SEND: _start,
    Opcode.TUPLE: _tuple,
}
