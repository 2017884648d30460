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
        meanings=(("length", "the steps of a segment; 0: about the square root of all"),),
    ),
)
