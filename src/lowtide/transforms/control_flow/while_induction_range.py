"""Comparisons that an induction variable decides, whichever step a loop is in."""

from __future__ import annotations

from typing import Final

from lowtide.analysis.loop_trip_count import COMPARISONS, TripCount, trip_count
from lowtide.builder.literals import literal_of
from lowtide.ir import ElementType, Instruction, Module, Opcode
from lowtide.ir.attributes import Compare, Constant
from lowtide.passes.editing import make, substitute
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import scalar_value
from lowtide.transforms.control_flow.loops import WhileLoop, loops_of


def decide_comparisons(module: Module) -> int:
    """Make constants of comparisons in bodies that come out alike in all steps; return how many.

    They compare the induction variable of a loop whose trip count is known with a constant, as
    frameworks do before they read element i, to see whether i counts from the end.
    """
    changes = 0
    for loop in loops_of(module):
        found = trip_count(loop.instruction)
        if found is not None and found.induction is not None and found.count:
            changes += _decide(loop, found)
    return changes


def _decide(loop: WhileLoop, found: TripCount) -> int:
    assert found.induction is not None
    last = found.start + (found.count - 1) * found.step
    low, high = min(found.start, last), max(found.start, last)
    changes = 0
    for counter in loop.read_inside(found.induction):
        for x in list(counter.users) if counter.parent is loop.body else []:
            answer = _answer(x, counter, low, high)
            if answer is not None:
                attributes = Constant(literal_of(answer, ElementType.PRED))
                substitute(x, make(loop.body, Opcode.CONSTANT, x.shape, (), x, attributes))
                loop.body.remove(x)
                changes += 1
    return changes


def _answer(x: Instruction, counter: Instruction, low: int, high: int) -> bool | None:
    """What a comparison of a counter from `low` to `high`, both included, always says."""
    if x.opcode is not Opcode.COMPARE or x.has_control_edges:
        return None
    left, right = x.operands
    bound = scalar_value(right if left is counter else left)
    if bound is None or (left is counter) == (right is counter):
        return None
    compare = COMPARISONS[x.attributes_as(Compare).direction]
    limit = int(bound)
    pairs = [(i, limit) if left is counter else (limit, i) for i in (low, high)]
    first, last = [compare(*pair) for pair in pairs]
    crosses = low < limit < high and x.attributes_as(Compare).direction in ("EQ", "NE")
    return first if first == last and not crosses else None


PASSES: Final = (
    Pass(
        "while-induction-range",
        decide_comparisons,
        "Makes constants of comparisons that the range of an induction variable decides.",
        *example(
            """
HloModule m
+
+body {
+ zero = s32[] constant(0)
+ b = (s32[], f32[4]) parameter(0)
+ i.1 = s32[] get-tuple-element(b), index=0
+ one = s32[] constant(1)
+ next = s32[] add(i.1, one)
+ constant = pred[] constant(false)
+ x = f32[4] get-tuple-element(b), index=1
+ y = f32[4] sine(x)
+ z = f32[4] select(constant, x, y)
+ ROOT r = (s32[], f32[4]) tuple(next, z)
+}

condition {
  c = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(9)
  ROOT more = pred[] compare(i, n), direction=LT
}

-body {
- b = (s32[], f32[4]) parameter(0)
- i.1 = s32[] get-tuple-element(b), index=0
- zero = s32[] constant(0)
- is_negative = pred[] compare(i.1, zero), direction=LT
- x = f32[4] get-tuple-element(b), index=1
- y = f32[4] sine(x)
- z = f32[4] select(is_negative, x, y)
- one = s32[] constant(1)
- next = s32[] add(i.1, one)
- ROOT r = (s32[], f32[4]) tuple(next, z)
-}
-
ENTRY main {
+ zero.1 = s32[] constant(0)
  x.1 = f32[4] parameter(0)
- zero.1 = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero.1, x.1)
  ROOT loop = (s32[], f32[4]) while(start), condition=condition, body=body
}
"""
        ),
    ),
)
