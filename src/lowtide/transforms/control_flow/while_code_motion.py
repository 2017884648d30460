"""Work that every step of a loop repeats, done once before it."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.traversal import post_order
from lowtide.passes.dead_code import sweep
from lowtide.passes.editing import element_index, settle, substitute
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.hoisting import WORK, Marks, copy_out, frontier, may_move
from lowtide.transforms.control_flow.loops import WhileLoop, add_invariants, loops_of


def move_invariant_code(module: Module) -> int:
    """Do before a loop what all of its steps do alike; return how many values moved.

    Those move that take work, such as products, reductions and sorts, and are no larger than what
    they are made from or have at most `SMALL` bytes; and what leads to them along with them. So no
    relayout, conversion or broadcast of a large array of the loop is ever held beside it.
    """
    return settle(lambda module: sum([_move(loop) for loop in loops_of(module)]), module)


def _move(loop: WhileLoop) -> int:
    passed = set(loop.invariants())
    carried = {
        x: element_index(x) for x in loop.body.parameters[0].users if element_index(x) in passed
    }
    marks = _marks(loop, carried)
    wanted = frontier(marks, carried.__contains__)
    if not wanted:
        return 0
    starts = loop.starts
    given = {x: starts[index] for x, index in carried.items()}
    values = copy_out(wanted, marks, loop.instruction.parent, given)
    for x, element in zip(wanted, add_invariants(loop, values), strict=True):
        substitute(x, element)
    sweep(loop.body)
    return len(wanted)


def _marks(loop: WhileLoop, carried: dict[Instruction, int]) -> Marks:
    marks: Marks = {}
    for x in post_order(loop.body):
        if x in carried or (x.opcode is Opcode.CONSTANT and not x.has_control_edges):
            marks[x] = False
        elif may_move(x) and all(y in marks for y in x.operands):
            marks[x] = x.opcode in WORK or any(marks[y] for y in x.operands)
    return marks


PASSES: Final = (
    Pass(
        "while-code-motion",
        move_invariant_code,
        "Does once before a loop what all of its steps repeat, where that takes no more memory.",
        *example(
            """
HloModule m

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

condition {
- c = (s32[], f32[4], f32[4]) parameter(0)
+ c = (s32[], f32[4], f32[4], f32[]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
- b = (s32[], f32[4], f32[4]) parameter(0)
+ b = (s32[], f32[4], f32[4], f32[]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  x = f32[4] get-tuple-element(b), index=1
  w = f32[4] get-tuple-element(b), index=2
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
- none = f32[] constant(0)
- total = f32[] reduce(w, none), dimensions={0}, to_apply=sum
+ total = f32[] get-tuple-element(b), index=3
  totals = f32[4] broadcast(total), dimensions={}
  y = f32[4] multiply(x, totals)
- ROOT r = (s32[], f32[4], f32[4]) tuple(next, y, w)
+ ROOT r = (s32[], f32[4], f32[4], f32[]) tuple(next, y, w, total)
}

ENTRY main {
  x.1 = f32[4] parameter(0)
  w.1 = f32[4] parameter(1)
  zero = s32[] constant(0)
- start = (s32[], f32[4], f32[4]) tuple(zero, x.1, w.1)
- loop = (s32[], f32[4], f32[4]) while(start), condition=condition, body=body
+ none = f32[] constant(0)
+ total.1 = f32[] reduce(w.1, none), dimensions={0}, to_apply=sum
+ start = (s32[], f32[4], f32[4], f32[]) tuple(zero, x.1, w.1, total.1)
+ loop = (s32[], f32[4], f32[4], f32[]) while(start), condition=condition, body=body
  ROOT last = f32[4] get-tuple-element(loop), index=1
}
"""
        ),
    ),
)
