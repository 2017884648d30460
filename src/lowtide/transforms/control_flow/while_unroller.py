"""Tiny loops written out."""

from __future__ import annotations

from typing import Final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.traversal import computation_post_order
from lowtide.passes.call_sites import drop_unreferenced, is_marked, is_present, mark
from lowtide.passes.editing import remove_with_operands, substitute
from lowtide.passes.embedding import embed, may_copy, may_embed
from lowtide.passes.interface import Pass, example

KEPT: Final = "unroll"
"""The frontend attribute that, being `false`, keeps a loop as it is."""

_FREE: Final = frozenset(
    {Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE}
)
_ALWAYS: Final = 1024
_HEAVY: Final = frozenset(
    {
        *(Opcode.CALL, Opcode.CONVOLUTION, Opcode.CUSTOM_CALL, Opcode.DOT, Opcode.FFT),
        *(Opcode.FUSION, Opcode.OPTIMIZATION_BARRIER, Opcode.REDUCE_WINDOW),
        *(Opcode.RNG_BIT_GENERATOR, Opcode.SCAN, Opcode.SCATTER, Opcode.SORT),
        *(Opcode.CHOLESKY, Opcode.TRIANGULAR_SOLVE, Opcode.TOPK),
    }
)
"""What makes a body a layer rather than a line: such a body stays one piece of code."""


def unroll_loops(
    module: Module, *, count: int = 8, instructions: int = 320, growth: float = 2.0
) -> int:
    """Write out loops that run at most `count` times; return how many changes were made.

    All steps together may have `instructions` of them, tuples and constants not counted, and none
    that is work for a kernel of its own, such as a product of matrices. So counted the module grows
    to at most `growth` times its size, or what would be that of one of 1,024 instructions; loops
    beyond that get the frontend attribute `unroll="false"`, which keeps a loop as it is, whoever
    set it.
    """
    budget = int(max(module.instruction_count, _ALWAYS) * (growth - 1))
    left: list[Computation] = []
    changes = 0
    for computation in computation_post_order(module):
        for x in list(computation.instructions.values()):
            if x.opcode is not Opcode.WHILE or x.has_control_edges or is_marked(x, KEPT):
                continue
            if not is_present(x):
                continue
            steps = _steps(x, count, instructions)
            if steps is None:
                continue
            changes += 1
            cost = steps * _size(x.called_computations[1])
            if cost > budget:
                mark(x, KEPT)
                continue
            budget -= cost
            left += x.called_computations
            _unroll(x, steps)
    if changes:
        drop_unreferenced(module, left)
    return changes


def _steps(loop: Instruction, most: int, instructions: int) -> int | None:
    """Return how often a loop runs; None where it should stay a loop."""
    body = loop.called_computations[1]
    opcodes = [x.opcode for x in body.instructions.values()]
    size = _size(body)
    if size > instructions or not _HEAVY.isdisjoint(opcodes):
        return None
    found = trip_count(loop)
    if found is None or not 1 < found.count <= most or found.count * size > instructions:
        return None
    if body.root.shape is not loop.shape or not may_copy(body):
        return None
    return found.count if may_embed(body, loop, loop.operands) else None


def _size(body: Computation) -> int:
    return sum([x.opcode not in _FREE for x in body.instructions.values()])


def _unroll(loop: Instruction, steps: int) -> None:
    body = loop.called_computations[1]
    start = value = loop.operands[0]
    for _ in range(steps):
        previous = value
        value = embed(body, loop, [previous], once=False)
        if previous is not start:
            remove_with_operands(previous)
    substitute(loop, value)
    loop.parent.remove(loop)
    remove_with_operands(start)


PASSES: Final = (
    Pass(
        "while-unroller",
        unroll_loops,
        "Writes out loops of a few steps and a few instructions.",
        *example(
            """
HloModule m
-
-condition {
- c = (s32[], f32[4]) parameter(0)
- i = s32[] get-tuple-element(c), index=0
- n = s32[] constant(2)
- ROOT more = pred[] compare(i, n), direction=LT
-}
-
-body {
- b = (s32[], f32[4]) parameter(0)
- i.1 = s32[] get-tuple-element(b), index=0
- x = f32[4] get-tuple-element(b), index=1
- one = s32[] constant(1)
- next = s32[] add(i.1, one)
- y = f32[4] sine(x)
- ROOT r = (s32[], f32[4]) tuple(next, y)
-}

ENTRY main {
  x.1 = f32[4] parameter(0)
  a = f32[4] cosine(x.1)
  d = f32[4] add(a, x.1)
  e = f32[4] multiply(d, d)
  zero = s32[] constant(0)
- start = (s32[], f32[4]) tuple(zero, e)
- loop = (s32[], f32[4]) while(start), condition=condition, body=body
+ one.1 = s32[] constant(1)
+ next.1 = s32[] add(zero, one.1)
+ y.1 = f32[4] sine(e)
+ one.2 = s32[] constant(1)
+ next.2 = s32[] add(next.1, one.2)
+ y.2 = f32[4] sine(y.1)
+ loop = (s32[], f32[4]) tuple(next.2, y.2)
  last = f32[4] get-tuple-element(loop), index=1
  ROOT z = f32[4] negate(last)
}
"""
        ),
        meanings=(
            ("count", "the most steps of a loop"),
            ("instructions", "the most instructions of all its steps together"),
            ("growth", "how many times its size the module may have at the end"),
        ),
    ),
)
