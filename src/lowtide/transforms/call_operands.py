"""Operands of calls that are made of nothing: what is called makes them itself.

A drawing of random bits that several calls share is given the numbers of its elements. Made
outside, they are arrays that live from one call to the next; made within, they are part of the
kernel that reads them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from lowtide.analysis.value_numbers import text_key
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Parameter
from lowtide.ir.traversal import computation_post_order
from lowtide.passes.call_sites import SMALL, count_references
from lowtide.passes.editing import remove_with_operands, substitute
from lowtide.passes.interface import Pass, example

MOST: Final = 16
"""Instructions that make an operand, at most: what is called makes it each time."""

_CHEAP: Final = frozenset(
    {
        *(Opcode.BROADCAST, Opcode.CONSTANT, Opcode.IOTA, Opcode.RESHAPE, Opcode.TRANSPOSE),
        *(Opcode.ADD, Opcode.MULTIPLY, Opcode.NEGATE, Opcode.SUBTRACT),
        *(Opcode.AND, Opcode.NOT, Opcode.OR, Opcode.XOR),
        *(Opcode.SHIFT_LEFT, Opcode.SHIFT_RIGHT_ARITHMETIC, Opcode.SHIFT_RIGHT_LOGICAL),
        *(Opcode.BITCAST_CONVERT, Opcode.COMPARE, Opcode.CONVERT, Opcode.SELECT),
        *(Opcode.MAXIMUM, Opcode.MINIMUM),
    }
)
"""What a kernel computes anew in no more time than it takes to read it."""


def make_operands_within(module: Module) -> int:
    """Have what is called make what all calls pass alike; return how many parameters went.

    That is what a few cheap operations make of iotas and of constants of at most `SMALL` bytes.
    Computations that something else than calls runs, too, are left alone.
    """
    references = count_references(module)
    calls: dict[Computation, list[Instruction]] = {}
    for x in _instructions(module):
        if x.opcode is Opcode.CALL:
            calls.setdefault(x.called_computations[0], []).append(x)
    changes = 0
    for callee in reversed(list(computation_post_order(module))):  # Callers come first.
        found = calls.get(callee, [])
        if found and references[callee] == len(found):
            for number in reversed(range(len(callee.parameters))):
                changes += _make_within(callee, number, found)
    return changes


def _instructions(module: Module) -> Iterable[Instruction]:
    for computation in module.computations.values():
        yield from computation.instructions.values()


def _make_within(callee: Computation, number: int, calls: list[Instruction]) -> int:
    """Have a computation make one of its parameters, if its calls allow it; return 1 if so."""
    parameter = callee.parameters[number]
    values = list(dict.fromkeys([x.operands[number] for x in calls]))
    if parameter.has_control_edges or any(x.shape is not parameter.shape for x in values):
        return 0
    made = _made_of_nothing(values[0])
    if made is None:
        return 0
    key = _key(made)
    if any((other := _made_of_nothing(x)) is None or _key(other) != key for x in values[1:]):
        return 0
    copies: dict[Instruction, Instruction] = {}
    for x in made:
        copies[x] = callee.add_like(x, tuple([copies[y] for y in x.operands]))
    substitute(parameter, copies[values[0]])
    callee.remove(parameter)
    for later, x in enumerate(callee.parameters[number:], number):
        x.set_attributes(Parameter(later))
    for call in calls:
        call.set_operands((*call.operands[:number], *call.operands[number + 1 :]))
    for x in values:
        remove_with_operands(x)
    return 1


def _made_of_nothing(value: Instruction) -> list[Instruction] | None:
    """All that makes a value, operands first; None where it is too much, or depends on more."""
    made: dict[Instruction, None] = {}
    stack = [value]
    while stack:
        x = stack[-1]
        waiting = [y for y in x.operands if y not in made]
        if waiting:
            stack += waiting
            if len(stack) > MOST:
                return None
            continue
        stack.pop()
        is_large = x.opcode is Opcode.CONSTANT and x.shape.nbytes > SMALL
        if x.opcode not in _CHEAP or x.has_control_edges or is_large:
            return None
        made[x] = None
        if len(made) > MOST:
            return None
    return list(made)


def _key(made: list[Instruction]) -> Hashable:
    """What values have in common that are made in the same way."""
    numbers: dict[Instruction, int] = {}
    keys = []
    for x in made:
        keys.append(text_key(x, numbers))
        numbers[x] = len(numbers)
    return tuple(keys)


PASSES: Final = (
    Pass(
        "call-operands",
        make_operands_within,
        "Makes within what is called the operands that all its calls make alike, of nothing.",
        *example(
            """
HloModule m

drawn {
- n = s32[4] parameter(1)
  key = s32[] parameter(0)
  keys = s32[4] broadcast(key), dimensions={}
- ROOT y = s32[4] xor(keys, n)
+ i.1 = s32[4] iota(), iota_dimension=0
+ ROOT y = s32[4] xor(keys, i.1)
}

ENTRY main {
  k = s32[] parameter(0)
- i = s32[4] iota(), iota_dimension=0
- a = s32[4] call(k, i), to_apply=drawn
+ a = s32[4] call(k), to_apply=drawn
  h = s32[] negate(k)
- j = s32[4] iota(), iota_dimension=0
- b = s32[4] call(h, j), to_apply=drawn
+ b = s32[4] call(h), to_apply=drawn
  ROOT c = s32[4] add(a, b)
}
"""
        ),
    ),
)
