"""Elements of a loop that are always equal."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from lowtide.analysis.value_numbers import ValueNumbers
from lowtide.ir import Instruction, Module, Opcode
from lowtide.passes.editing import TupleElements, element_index, settle, substitute
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.loops import WhileLoop, loops_of

_MOST_ROUNDS: Final = 16


def merge_duplicate_carries(module: Module) -> int:
    """Read the first of carried elements that are equal in every step; return how many changes.

    Such start equal and, taken for equal, become equal in each step, e.g. the counters of a scan
    and of the loop that it became. Finds all pairs for which value numbers show that. The others
    have no readers then: `while-dead-carries` removes them.
    """
    return settle(lambda module: sum([_merge(loop) for loop in loops_of(module)]), module)


def _merge(loop: WhileLoop) -> int:
    leaders = _leaders(loop)
    if leaders is None:
        return 0
    changes = 0
    for source in (loop.instruction, *loop.parameters):
        for user in list(source.users):
            if user.opcode is not Opcode.GET_TUPLE_ELEMENT:
                continue
            index = element_index(user)
            if leaders[index] != index:
                changes += _read_leader(loop, user, leaders[index])
    return changes


def _read_leader(loop: WhileLoop, user: Instruction, leader: int) -> int:
    """Make what reads an element read an equal one, but for passing it on to the next step."""
    readers = [
        x
        for x in user.users
        if x is not loop.body.root or _places(loop, user) != [element_index(user)]
    ]
    if user.has_control_edges or not (readers or user.is_root):
        return 0
    found = TupleElements(user.operands[0])[leader]
    if readers == list(user.users):
        substitute(user, found)
        user.parent.remove(user)
        return 1
    for reader in readers:
        for number, operand in enumerate(reader.operands):
            if operand is user:
                reader.replace_operand(number, found)
    return 1


def _places(loop: WhileLoop, user: Instruction) -> list[int]:
    return [i for i, x in enumerate(loop.results) if x is user]


def _leaders(loop: WhileLoop) -> list[int] | None:
    """Return for each element the first one equal to it; None where all differ.

    Starts from the elements with equal starts, and splits them until each step keeps them equal.
    """
    numbers = ValueNumbers()
    starts = loop.starts
    classes = [numbers.of_key(_start_key(starts.known(i), i)) for i in range(len(loop.shapes))]
    parameter = loop.body.parameters[0]
    for _ in range(_MOST_ROUNDS):
        if len(set(classes)) == len(classes):
            return None
        given = {
            x: numbers.of_key(("carry", classes[element_index(x)], x.shape))
            for x in parameter.users
        }
        after = numbers.of_instructions(loop.body, given)
        split = [
            numbers.of_key((old, after[x])) for old, x in zip(classes, loop.results, strict=True)
        ]
        if len(set(split)) == len(set(classes)):
            return [split.index(x) for x in split]
        classes = split
    return None


def _start_key(x: Instruction | None, index: int) -> Hashable:
    if x is None:
        return index
    if x.opcode is Opcode.CONSTANT:
        return (x.attributes, x.shape)
    return x


PASSES: Final = (
    Pass(
        "while-duplicate-carries",
        merge_duplicate_carries,
        "Reads only one of several elements that a loop keeps equal.",
        *example(
            """
HloModule m

condition {
  c = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
  b = (s32[], s32[], f32[4]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
- j = s32[] get-tuple-element(b), index=1
  x = f32[4] get-tuple-element(b), index=2
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
- next.1 = s32[] add(j, one)
- f = f32[] convert(j)
+ next.1 = s32[] add(i.1, one)
+ f = f32[] convert(i.1)
  fs = f32[4] broadcast(f), dimensions={}
  y = f32[4] multiply(x, fs)
  ROOT r = (s32[], s32[], f32[4]) tuple(next, next.1, y)
}

ENTRY main {
  x.1 = f32[4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], s32[], f32[4]) tuple(zero, zero, x.1)
  loop = (s32[], s32[], f32[4]) while(start), condition=condition, body=body
  ROOT last = f32[4] get-tuple-element(loop), index=2
}
"""
        ),
    ),
)
