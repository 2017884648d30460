"""Elements that a loop carries for nobody."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ops.effects import has_side_effect
from lowtide.passes.dead_code import sweep
from lowtide.passes.editing import element_index, read_elements, settle
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.loops import WhileLoop, keep_carries, loops_of


def remove_dead_carries(module: Module) -> int:
    """Remove carried elements on which nothing that is read depends; return how many changes.

    Read is what the condition needs, what is read after the loop, and what has side effects;
    elements that only feed each other are not. Dead instructions of the loops go too.
    """
    return settle(lambda module: sum([_shrink(loop) for loop in loops_of(module)]), module)


def _shrink(loop: WhileLoop) -> int:
    changes = sweep(loop.condition) + sweep(loop.body)
    live = _live(loop)
    if len(live) == len(loop.shapes):
        return changes
    keep_carries(loop, sorted(live))
    return changes + 1


def _live(loop: WhileLoop) -> set[int]:
    """Return the elements that something which is read depends on."""
    everything = set(range(len(loop.shapes)))
    read_after = read_elements(loop.instruction)
    if read_after is None:
        return everything
    live = {i for i, found in read_after.items() if any(_is_read(x) for x in found)}
    live |= {element_index(x) for x in loop.condition.parameters[0].users}
    waiting = [x for x in loop.body.instructions.values() if _has_to_run(x)]
    waiting += [loop.results[i] for i in sorted(live)]
    parameter, seen = loop.body.parameters[0], set(waiting)
    while waiting:
        x = waiting.pop()
        fresh = [y for y in x.operands if y not in seen]
        if x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0] is parameter:
            fresh = _newly_live(loop, element_index(x), live, seen)
        seen.update(fresh)
        waiting += fresh
    return live


def _newly_live(
    loop: WhileLoop, index: int, live: set[int], seen: set[Instruction]
) -> list[Instruction]:
    """Note that an element is live; return what it depends on in the step before."""
    if index in live:
        return []
    live.add(index)
    result = loop.results[index]
    return [] if result in seen else [result]


def _is_read(x: Instruction) -> bool:
    return bool(x.users) or x.is_root or x.has_control_edges


def _has_to_run(x: Instruction) -> bool:
    return x.has_control_edges or has_side_effect(x)


PASSES: Final = (
    Pass(
        "while-dead-carries",
        remove_dead_carries,
        "Removes what loops carry and nobody reads.",
        *example(
            """
HloModule m

condition {
- c = (s32[], f32[4], f32[4], f32[4]) parameter(0)
+ c = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
- b = (s32[], f32[4], f32[4], f32[4]) parameter(0)
+ b = (s32[], f32[4]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  x = f32[4] get-tuple-element(b), index=1
- u = f32[4] get-tuple-element(b), index=2
- v = f32[4] get-tuple-element(b), index=3
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
  y = f32[4] sine(x)
- w = f32[4] add(u, y)
- ROOT r = (s32[], f32[4], f32[4], f32[4]) tuple(next, y, v, w)
+ ROOT r = (s32[], f32[4]) tuple(next, y)
}

ENTRY main {
  x.1 = f32[4] parameter(0)
  zero = s32[] constant(0)
- start = (s32[], f32[4], f32[4], f32[4]) tuple(zero, x.1, x.1, x.1)
- loop = (s32[], f32[4], f32[4], f32[4]) while(start), condition=condition, body=body
+ start = (s32[], f32[4]) tuple(zero, x.1)
+ loop = (s32[], f32[4]) while(start), condition=condition, body=body
  ROOT last = f32[4] get-tuple-element(loop), index=1
}
"""
        ),
    ),
)
