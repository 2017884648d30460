"""Loops that run never or once, and what loops count up to."""

from __future__ import annotations

from typing import Final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.builder.literals import literal_of
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.traversal import computation_post_order
from lowtide.passes.call_sites import count_references, drop_unreferenced, is_present
from lowtide.passes.editing import (
    element_index,
    read_elements_at_once,
    remove_with_operands,
    substitute,
)
from lowtide.passes.embedding import embed, may_copy, may_embed
from lowtide.passes.interface import Pass, example


def simplify_loops(module: Module) -> int:
    """Remove loops that run never, write out bodies that run once; return how many changes.

    What reads the induction variable of another loop after it reads its last value, a constant.
    Loops with control edges stay.
    """
    references = count_references(module)
    left: list[Computation] = []
    changes = 0
    for computation in computation_post_order(module):
        for x in list(computation.instructions.values()):
            if x.opcode is not Opcode.WHILE or x.has_control_edges or not is_present(x):
                continue
            once = all(references[callee] == 1 for callee in x.called_computations)
            left += x.called_computations
            changes += _simplify(x, once=once)
    if changes:
        drop_unreferenced(module, left)
    return changes


def _simplify(loop: Instruction, *, once: bool) -> int:
    never = _is_false(loop.called_computations[0].root)
    found = None if never else trip_count(loop)
    if not never and found is None:
        return 0
    count = 0 if never or found is None else found.count
    if count > 1 and found is not None and found.induction is not None:
        return _read_last_value(loop, found.induction, found.final)
    if count > 1:
        return 0
    result = loop.operands[0]
    if count:
        body = loop.called_computations[1]
        if not may_embed(body, loop, loop.operands) or not (once or may_copy(body)):
            return 0
        result = embed(body, loop, loop.operands, once=once)
    if result.shape is not loop.shape:
        return 0
    substitute(loop, result)
    start = loop.operands[0]
    loop.parent.remove(loop)
    remove_with_operands(start)
    read_elements_at_once(result)
    return 1


def _is_false(root: Instruction) -> bool:
    if root.opcode is not Opcode.CONSTANT:
        return False
    literal = root.attributes_as(Constant).literal
    return not literal.elided and not bool(literal.array[()])


def _read_last_value(loop: Instruction, index: int, value: int) -> int:
    """Make all that reads the induction variable after the loop read a constant."""
    changes = 0
    for x in list(loop.users):
        if x.opcode is not Opcode.GET_TUPLE_ELEMENT or element_index(x) != index:
            continue
        if x.has_control_edges or not (x.users or x.is_root):
            continue
        literal = literal_of(value, x.shape.element_type)
        constant = x.parent.add(Opcode.CONSTANT, x.shape, (), Constant(literal))
        constant.set_metadata(x.raw_metadata)
        substitute(x, constant)
        x.parent.remove(x)
        changes += 1
    return changes


PASSES: Final = (
    Pass(
        "while-simplifier",
        simplify_loops,
        "Removes loops that never run, and writes out the bodies of those that run once.",
        *example(
            """
HloModule m

-condition {
- c = (s32[], f32[4]) parameter(0)
- i = s32[] get-tuple-element(c), index=0
- n = s32[] constant(1)
- ROOT more = pred[] compare(i, n), direction=LT
+ENTRY main {
+ x.1 = f32[4] parameter(0)
+ ROOT y = f32[4] sine(x.1)
}

-body {
- b = (s32[], f32[4]) parameter(0)
- i.1 = s32[] get-tuple-element(b), index=0
- x = f32[4] get-tuple-element(b), index=1
- one = s32[] constant(1)
- next = s32[] add(i.1, one)
- y = f32[4] sine(x)
- ROOT r = (s32[], f32[4]) tuple(next, y)
-}
-
-ENTRY main {
- x.1 = f32[4] parameter(0)
- zero = s32[] constant(0)
- start = (s32[], f32[4]) tuple(zero, x.1)
- loop = (s32[], f32[4]) while(start), condition=condition, body=body
- ROOT last = f32[4] get-tuple-element(loop), index=1
-}
-"""
        ),
    ),
)
