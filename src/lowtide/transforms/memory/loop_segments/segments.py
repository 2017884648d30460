"""Loops run once more, segment by segment, for the loops that read what they stack.

    first loop      0 1 2   3 4 5   6 7 8      keeps what steps 0, 3 and 6 start with
    second loop     6 7 8, then 8 7 6          runs a segment of the first loop again, which
                    3 4 5, then 5 4 3          stacks residuals of this segment only, and then
                    0 1 2, then 2 1 0          its own steps, which read them

With segments as long as there are segments, memory grows with the square root of the number of
steps (T. Chen, B. Xu, C. Zhang, C. Guestrin, 2016, "Training deep nets with sublinear memory
cost"). It takes the time of one more run of the first loop.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

from lowtide.ir import Instruction, Module
from lowtide.passes.editing import element_index, read_elements
from lowtide.passes.interface import Pass
from lowtide.passes.matching import is_plain
from lowtide.transforms.control_flow.loops import loops_of
from lowtide.transforms.control_flow.while_dead_carries import remove_dead_carries
from lowtide.transforms.memory.loop_residuals.choice import is_pure
from lowtide.transforms.memory.loop_residuals.stacks import Residuals, Walk, residuals_of
from lowtide.transforms.memory.loop_residuals.steps import StepAffine
from lowtide.transforms.memory.loop_segments.rewrite import Segments, run_in_segments
from lowtide.transforms.memory.stacked_loops import STACKED_LOOPS


def segment_loops(module: Module, *, length: int = 0) -> int:
    """Run loops again in segments for what reads their stacks in reverse; return for how many.

    `length` steps make a segment, or, for 0, about the square root of all. It has to divide the
    number of steps; loops in which it does not stay as they are, and so do those that would hold
    more afterwards, have side effects, or are read by several loops or not step by step in reverse.
    """
    found = [(loop.instruction, Walk.of(loop)) for loop in loops_of(module)]
    walks = {x: walk for x, walk in found if walk is not None}
    taken: set[Instruction] = set()
    changes = 0
    for x, walk in walks.items():
        residuals = None if x in taken else residuals_of(walk, walks)
        segments = None if residuals is None else _segments(residuals, length)
        if segments is None or segments.later.loop.instruction in taken:
            continue
        taken |= {x, segments.later.loop.instruction}
        run_in_segments(segments)
        changes += 1
    if changes:
        remove_dead_carries(module)
    return changes


def _segments(residuals: Residuals, length: int) -> Segments | None:
    """How to run a loop in segments; None where that cannot be done or does not pay."""
    walk, readers = residuals.walk, residuals.readers
    length = length or _near_root(walk.steps)
    if len(readers) > 1 or length < 2 or walk.steps % length or walk.steps == length:
        return None
    later, reverse = readers[0].walk, StepAffine(-1, walk.steps - 1)
    if later.steps != walk.steps or any(x.source != reverse for x in readers[0].reads):
        return None
    if read_elements(later.loop.instruction) is None or not is_pure(walk.loop.instruction):
        return None
    state = _state(residuals)
    if state is None or not all(is_plain(x.update.shape) for x in residuals.stacks):
        return None
    segments = Segments(residuals, tuple(state), length)
    return segments if segments.held_bytes() < segments.stacked_bytes() else None


def _near_root(steps: int) -> int:
    """The divisor of a number that is nearest to its square root; 1 where there is no other."""
    root = isqrt(steps)
    divisors = [n for n in range(2, steps) if steps % n == 0]
    return min(divisors, key=lambda n: (abs(n - root), n), default=1)


def _state(residuals: Residuals) -> list[int] | None:
    """The elements that steps hand on to the next one, besides counts and stacks."""
    walk = residuals.walk
    written = {x.element for x in (*residuals.stacks, *residuals.kept, *residuals.others)}
    counted = {element_index(x) for x in walk.loop.body.parameters[0].users if x in walk.affines}
    invariants = set(walk.loop.invariants())
    state = [
        i
        for i in range(len(walk.loop.shapes))
        if i not in written and i not in counted and i not in invariants
    ]
    reads = {element_index(x) for x in walk.loop.body.parameters[0].users}
    state = [i for i in state if i in reads]
    return state if all(is_plain(walk.loop.shapes[i]) for i in state) else None


PASSES: Final = (
    Pass(
        "loop-segments",
        segment_loops,
        "Runs loops again in segments for the loops that read their stacks, which hold a segment.",
        before=STACKED_LOOPS,
        after="""
HloModule m

forward {
  b = (s32[], f32[4], f32[3,4]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
  x = f32[4] get-tuple-element(b), index=1
  y = f32[4] sine(x)
  e = f32[3,4] get-tuple-element(b), index=2
  h = f32[1,4] reshape(x)
  k_1 = s32[] constant(1)
  add = s32[] add(i.1, k_1)
  k_2 = s32[] constant(2)
  divide = s32[] divide(add, k_2)
  k_3 = s32[] constant(0)
  d = f32[3,4] dynamic-update-slice(e, h, divide, k_3)
  ROOT t_12 = (s32[], f32[4], f32[3,4]) tuple(next, y, d)
}

more {
  c = (s32[], f32[4], f32[3,4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(4)
  ROOT go = pred[] compare(i, n), direction=LT
}

forward.1 {
  b.2 = (f32[4], f32[2,4], f32[2,4], s32[]) parameter(0)
  x.4 = f32[4] get-tuple-element(b.2), index=0
  y.4 = f32[4] sine(x.4)
  xs.4 = f32[2,4] get-tuple-element(b.2), index=1
  x.5 = f32[1,4] reshape(x.4)
  e_4 = s32[] get-tuple-element(b.2), index=3
  zero.2 = s32[] constant(0)
  xs.5 = f32[2,4] dynamic-update-slice(xs.4, x.5, e_4, zero.2)
  ys.4 = f32[2,4] get-tuple-element(b.2), index=2
  y.5 = f32[1,4] reshape(y.4)
  ys.5 = f32[2,4] dynamic-update-slice(ys.4, y.5, e_4, zero.2)
  k_11 = s32[] constant(1)
  add.2 = s32[] add(e_4, k_11)
  ROOT t_10 = (f32[4], f32[2,4], f32[2,4], s32[]) tuple(y.4, xs.5, ys.5, add.2)
}

condition {
  parameter.1 = (f32[4], f32[2,4], f32[2,4], s32[]) parameter(0)
  e_5 = s32[] get-tuple-element(parameter.1), index=3
  k_12 = s32[] constant(2)
  ROOT compare = pred[] compare(e_5, k_12), direction=LT
}

back {
  b.3 = (s32[], f32[4], f32[2,4], f32[2,4], s32[]) parameter(0)
  i.5 = s32[] get-tuple-element(b.3), index=0
  one.3 = s32[] constant(1)
  next.3 = s32[] add(i.5, one.3)
  d.3 = f32[4] get-tuple-element(b.3), index=1
  xs.6 = f32[2,4] get-tuple-element(b.3), index=2
  k_15 = s32[] constant(1)
  e_10 = s32[] get-tuple-element(b.3), index=4
  u_1 = s32[] subtract(k_15, e_10)
  zero.3 = s32[] constant(0)
  x.6 = f32[1,4] dynamic-slice(xs.6, u_1, zero.3), dynamic_slice_sizes={1,4}
  ys.6 = f32[2,4] get-tuple-element(b.3), index=3
  k_16 = s32[] constant(1)
  u_2 = s32[] subtract(k_16, e_10)
  y.6 = f32[1,4] dynamic-slice(ys.6, u_2, zero.3), dynamic_slice_sizes={1,4}
  xy.2 = f32[1,4] multiply(x.6, y.6)
  xy.3 = f32[4] reshape(xy.2)
  d.4 = f32[4] multiply(d.3, xy.3)
  k_14 = s32[] constant(1)
  add.3 = s32[] add(e_10, k_14)
  ROOT t_6 = (s32[], f32[4], f32[2,4], f32[2,4], s32[]) tuple(next.3, d.4, xs.6, ys.6, add.3)
}

more.2 {
  parameter.2 = (s32[], f32[4], f32[2,4], f32[2,4], s32[]) parameter(0)
  e_11 = s32[] get-tuple-element(parameter.2), index=4
  k_17 = s32[] constant(2)
  ROOT compare.1 = pred[] compare(e_11, k_17), direction=LT
}

segment {
  parameter = (s32[], s32[], f32[4], f32[3,4]) parameter(0)
  e_2 = s32[] get-tuple-element(parameter), index=0
  k_18 = s32[] constant(1)
  add.4 = s32[] add(e_2, k_18)
  e_6 = s32[] get-tuple-element(parameter), index=1
  e_7 = f32[4] get-tuple-element(parameter), index=2
  e_3 = f32[3,4] get-tuple-element(parameter), index=3
  k_4 = s32[] constant(1)
  u = s32[] subtract(k_4, e_2)
  k_7 = s32[] constant(0)
  s = f32[1,4] dynamic-slice(e_3, u, k_7), dynamic_slice_sizes={1,4}
  h_1 = f32[4] reshape(s)
  k_8 = f32[] constant(0)
  f_1 = f32[2,4] broadcast(k_8), dimensions={}
  k_9 = f32[] constant(0)
  f_2 = f32[2,4] broadcast(k_9), dimensions={}
  k_10 = s32[] constant(0)
  t_9 = (f32[4], f32[2,4], f32[2,4], s32[]) tuple(h_1, f_1, f_2, k_10)
  while = (f32[4], f32[2,4], f32[2,4], s32[]) while(t_9), condition=condition, body=forward.1
  e_8 = f32[2,4] get-tuple-element(while), index=1
  e_9 = f32[2,4] get-tuple-element(while), index=2
  k_13 = s32[] constant(0)
  t_5 = (s32[], f32[4], f32[2,4], f32[2,4], s32[]) tuple(e_6, e_7, e_8, e_9, k_13)
  while.1 = (s32[], f32[4], f32[2,4], f32[2,4], s32[]) while(t_5), condition=more.2, body=back
  e_12 = s32[] get-tuple-element(while.1), index=0
  e_13 = f32[4] get-tuple-element(while.1), index=1
  ROOT t_7 = (s32[], s32[], f32[4], f32[3,4]) tuple(add.4, e_12, e_13, e_3)
}

condition.2 {
  parameter.3 = (s32[], s32[], f32[4], f32[3,4]) parameter(0)
  e_14 = s32[] get-tuple-element(parameter.3), index=0
  k_20 = s32[] constant(2)
  ROOT compare.2 = pred[] compare(e_14, k_20), direction=LT
}

ENTRY main {
  k_19 = s32[] constant(0)
  start = s32[] constant(0)
  x.3 = f32[4] parameter(0)
  k = f32[] constant(0)
  f = f32[3,4] broadcast(k), dimensions={}
  t_11 = (s32[], f32[4], f32[3,4]) tuple(start, x.3, f)
  loop = (s32[], f32[4], f32[3,4]) while(t_11), condition=more, body=forward
  y.3 = f32[4] get-tuple-element(loop), index=1
  e_1 = f32[3,4] get-tuple-element(loop), index=2
  t_8 = (s32[], s32[], f32[4], f32[3,4]) tuple(k_19, start, y.3, e_1)
  while.2 = (s32[], s32[], f32[4], f32[3,4]) while(t_8), condition=condition.2, body=segment
  ROOT e_15 = f32[4] get-tuple-element(while.2), index=2
}
""",
        meanings=(("length", "the steps of a segment; 0: about the square root of all"),),
    ),
)
