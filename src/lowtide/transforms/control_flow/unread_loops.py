"""Loops of which only what they pass on unchanged is read: nothing that is read needs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.analysis.call_graph import while_body
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.schedule import Schedule
from lowtide.ir.traversal import computation_post_order
from lowtide.ops.effects import has_side_effect
from lowtide.passes.call_sites import drop_unreferenced, is_present
from lowtide.passes.editing import (
    element_index,
    read_elements_at_once,
    remove_with_operands,
    settle,
    substitute,
)
from lowtide.passes.interface import Pass, example


def remove_unread_loops(module: Module) -> int:
    """Read what a loop passes on from before it, if all else that it makes is unread; drop it.

    Returns how many loops went. So does what only they read; all else stays, in the order that it
    has where the module is scheduled. A loop with side effects stays; one that would never end goes
    like any other.
    """
    schedule, module.schedule = module.schedule, None
    changes = settle(_sweep, module)
    if changes and schedule is not None:
        left = [x for x in module.computations.values() if x in schedule.sequences]
        schedule = Schedule({x: tuple(filter(is_present, schedule.sequences[x])) for x in left})
    module.schedule = schedule
    return changes


def _sweep(module: Module) -> int:
    passed: dict[Instruction, frozenset[int]] = {}
    gone: list[Instruction] = []
    for computation in computation_post_order(module):
        for x in list(computation.instructions.values()):
            if x.opcode is Opcode.WHILE and x.shape.is_tuple:
                passed[x] = _passed_on(x, passed)
                if _is_unread(x, passed[x]):
                    gone.append(x)
    for x in gone:
        if is_present(x):
            _drop(x)
    if gone:
        drop_unreferenced(module, [y for x in gone for y in x.called_computations])
    return len(gone)


def _passed_on(loop: Instruction, passed: Mapping[Instruction, frozenset[int]]) -> frozenset[int]:
    """The elements that each step passes on; `passed` has those of the loops within."""
    body = while_body(loop)
    given = body.parameters[0]
    numbers = range(len(loop.shape.tuple_shapes))
    return frozenset([i for i in numbers if _origin(body.root, i, passed) == (given, i)])


def _origin(
    x: Instruction, index: int, passed: Mapping[Instruction, frozenset[int]]
) -> tuple[Instruction, int] | None:
    """The tuple, and which element of it, that an element of a tuple is; None for a new value."""
    while True:
        if x.opcode is Opcode.TUPLE:
            element = x.operands[index]
            if element.opcode is not Opcode.GET_TUPLE_ELEMENT:
                return None
            x, index = element.operands[0], element_index(element)
        elif x.opcode is Opcode.WHILE and index in passed[x]:
            x = x.operands[0]
        else:
            return x, index


def _is_unread(loop: Instruction, passed: frozenset[int]) -> bool:
    """Whether nothing that a loop makes is read, and it can go."""
    start = loop.operands[0]
    if loop.has_control_edges or start.shape is not loop.shape or has_side_effect(loop):
        return False
    if len(passed) == len(loop.shape.tuple_shapes):
        return True
    return not loop.is_root and all(
        user.opcode is Opcode.GET_TUPLE_ELEMENT and element_index(user) in passed
        for user in loop.users
    )


def _drop(loop: Instruction) -> None:
    start = loop.operands[0]
    substitute(loop, start)
    loop.parent.remove(loop)
    read_elements_at_once(start)
    remove_with_operands(start)


PASSES: Final = (
    Pass(
        "unread-loops",
        remove_unread_loops,
        "Removes loops of which only what they pass on unchanged is read.",
        *example(
            """
HloModule m

-condition {
- c = (f32[4], f32[4], s32[]) parameter(0)
- i = s32[] get-tuple-element(c), index=2
- n = s32[] constant(3)
- ROOT more = pred[] compare(i, n), direction=LT
+ENTRY main {
+ w.1 = f32[4] parameter(0)
+ ROOT z = f32[4] negate(w.1)
}

-body {
- b = (f32[4], f32[4], s32[]) parameter(0)
- x = f32[4] get-tuple-element(b), index=0
- w = f32[4] get-tuple-element(b), index=1
- i.1 = s32[] get-tuple-element(b), index=2
- y = f32[4] sine(x)
- next = s32[] add(i.1, i.1)
- ROOT r = (f32[4], f32[4], s32[]) tuple(y, w, next)
-}
-
-ENTRY main {
- w.1 = f32[4] parameter(0)
- one = s32[] constant(1)
- start = (f32[4], f32[4], s32[]) tuple(w.1, w.1, one)
- loop = (f32[4], f32[4], s32[]) while(start), condition=condition, body=body
- same = f32[4] get-tuple-element(loop), index=1
- ROOT z = f32[4] negate(same)
-}
-"""
        ),
    ),
)
