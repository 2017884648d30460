"""Calls replaced by what they call, where that costs little or no code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final, final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.traversal import computation_post_order, post_order
from lowtide.ops.effects import has_side_effect
from lowtide.ops.table import TABLE
from lowtide.passes.call_sites import count_references, drop_unreferenced, is_marked, mark
from lowtide.passes.editing import substitute
from lowtide.passes.embedding import embed, may_copy, may_embed, may_stand_for
from lowtide.passes.interface import Pass, example

KEPT: Final = "inlineable"
"""The frontend attribute that, being `false`, keeps a call as it is."""


def inline_calls(module: Module, *, small: int = 32, light: int = 256, growth: float = 2.0) -> int:
    """Write out what calls call where they alone do, or where it is small; return how many.

    A computation that several calls share, such as a layer, stays called unless it has at most
    `small` instructions besides parameters, or `light` ones that are all elementwise or move
    elements, and so fuse with what surrounds the call. The module grows to at most `growth` times
    its size; small calls beyond that get the frontend attribute `inlineable="false"`, which keeps a
    call from being inlined, whoever set it. Composites are calls like others. Calls with control
    edges, and those on another thread, stay, unless all that the edges order is side effects.
    """
    inlining = _Inlining(module, small, light, growth)
    for computation in computation_post_order(module):
        inlining.inline_in(computation)
    drop_unreferenced(module, inlining.left)
    return inlining.changes


_LIGHT: Final = frozenset(
    {
        *(Opcode.BROADCAST, Opcode.CONCATENATE, Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT),
        *(Opcode.IOTA, Opcode.PAD, Opcode.PARAMETER, Opcode.RESHAPE, Opcode.REVERSE),
        *(Opcode.SLICE, Opcode.TRANSPOSE, Opcode.TUPLE),
    }
    | {opcode for opcode, row in TABLE.items() if row.elementwise and opcode is not Opcode.MAP}
)


@final
class _Inlining:
    def __init__(self, module: Module, small: int, light: int, growth: float) -> None:
        self.changes = 0
        self.left: dict[Computation, None] = {}
        """The computations that may be called no more."""
        self._small = small
        self._light = light
        self._budget = int(module.instruction_count * (growth - 1))
        self._references: Counter[Computation] = count_references(module)

    def inline_in(self, computation: Computation) -> None:
        """Inline what a computation calls; what that calls in turn is inlined already."""
        if not any(x.opcode is Opcode.CALL for x in computation.instructions.values()):
            return
        for call in post_order(computation):
            if call.opcode is not Opcode.CALL or is_marked(call, KEPT):
                continue
            if call.has_control_edges and not _orders_effects(call):
                continue
            callee = call.called_computations[0]
            if may_embed(callee, call, call.operands) and may_stand_for(callee.root, call):
                self._consider(call, callee)

    def _consider(self, call: Instruction, callee: Computation) -> None:
        if self._references[callee] == 1:
            self._inline(call, callee, once=True)
            return
        size = len(callee.instructions) - len(callee.parameters)
        if not self._is_wanted(callee, size) or not may_copy(callee):
            return
        if size > self._budget:
            mark(call, KEPT)
            self.changes += 1
            return
        self._budget -= size
        self._inline(call, callee, once=False)

    def _is_wanted(self, callee: Computation, size: int) -> bool:
        if size <= self._small:
            return True
        return size <= self._light and all(x.opcode in _LIGHT for x in callee.instructions.values())

    def _inline(self, call: Instruction, callee: Computation, *, once: bool) -> None:
        known = len(call.parent.instructions)
        result = embed(callee, call, call.operands, once=once)
        if call.has_control_edges:
            instructions = call.parent.instructions
            _hand_on_edges(call, islice(reversed(instructions.values()), len(instructions) - known))
        substitute(call, result)
        call.parent.remove(call)
        self._references[callee] -= 1
        if not once:
            for x in callee.instructions.values():
                self._references.update(x.called_computations)
        self.left[callee] = None
        self.changes += 1


def _orders_effects(call: Instruction) -> bool:
    """Whether the control edges of a call are between instructions with side effects only."""
    return all(
        has_side_effect(x) for x in (call, *call.control_predecessors, *call.control_successors)
    )


def _hand_on_edges(call: Instruction, inside: Iterable[Instruction]) -> None:
    """Give what has side effects in a call that is written out the edges of the call."""
    for x in inside:
        if has_side_effect(x):
            for predecessor in list(call.control_predecessors):
                x.add_control_predecessor(predecessor)
            for successor in list(call.control_successors):
                successor.add_control_predecessor(x)
    for successor in list(call.control_successors):
        successor.drop_control_predecessors([call])
    call.drop_control_predecessors(list(call.control_predecessors))


PASSES: Final = (
    Pass(
        "inline",
        inline_calls,
        "Writes out computations that are called once, and small ones wherever they are called.",
        *example(
            """
HloModule m

-relu {
- x = f32[4] parameter(0)
+ENTRY main {
+ x.1 = f32[4] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[4] broadcast(zero), dimensions={}
- ROOT y = f32[4] maximum(x, zeros)
+ y = f32[4] maximum(x.1, zeros)
+ ROOT b = f32[4] negate(y)
}

-ENTRY main {
- x.1 = f32[4] parameter(0)
- a = f32[4] call(x.1), to_apply=relu
- ROOT b = f32[4] negate(a)
-}
-"""
        ),
        meanings=(
            ("small", "what is called several times is written out up to so many instructions"),
            ("light", "and up to so many where all of them fuse with what surrounds the call"),
            ("growth", "how many times its size the module may have at the end"),
        ),
    ),
)
