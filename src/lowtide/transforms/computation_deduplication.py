"""One computation where several are the same: reducers, and the bodies of kernels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from lowtide.analysis.value_numbers import text_key
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.opcode import CALLERS
from lowtide.ir.traversal import computation_post_order, post_order
from lowtide.passes.interface import Pass, example


def deduplicate_computations(module: Module) -> int:
    """Call the first of several equal computations; return how many calls were changed.

    Names and source lines do not matter. What while, conditional and call run is left alone: these
    own buffers, and passes specialize them for the place they are called from.
    """
    first: dict[Hashable, Computation] = {}
    kept: dict[Computation, Computation] = {}
    owned = _owned(module)
    changes = 0
    for computation in computation_post_order(module):
        for instruction in computation.instructions.values():
            changes += _call_first(instruction, kept)
        if computation not in owned:
            kept[computation] = first.setdefault(_key(computation), computation)
    if changes:
        _remove_uncalled(module, kept)
    return changes


def _owned(module: Module) -> set[Computation]:
    """What runs by itself: nothing else may call it."""
    return {module.entry} | {
        callee
        for computation in module.computations.values()
        for instruction in computation.instructions.values()
        if instruction.opcode in _OWNERS
        for callee in instruction.called_computations
    }


def _call_first(instruction: Instruction, kept: Mapping[Computation, Computation]) -> int:
    callees = instruction.called_computations
    if not callees or instruction.opcode in _OWNERS:
        return 0
    wanted = tuple([kept.get(x, x) for x in callees])
    if wanted == callees:
        return 0
    instruction.set_called_computations(wanted)
    return 1


_OWNERS: Final = CALLERS | {Opcode.CUSTOM_CALL}


def _key(computation: Computation) -> Hashable:
    """What a computation does."""
    number: dict[Instruction, int] = {}
    rows: list[Hashable] = []
    for instruction in (*computation.parameters, *post_order(computation)):
        if instruction not in number:
            number[instruction] = len(number)
            rows.append(text_key(instruction, number))
    return tuple(rows), number[computation.root]


def _remove_uncalled(module: Module, kept: Mapping[Computation, Computation]) -> None:
    called = {
        callee
        for computation in module.computations.values()
        for instruction in computation.instructions.values()
        for callee in instruction.called_computations
    }
    for computation in reversed(list(kept)):
        if kept[computation] is not computation and computation not in called:
            module.remove_computation(computation)


PASSES: Final = (
    Pass(
        "computation-deduplication",
        deduplicate_computations,
        "Keeps one of several reducers or kernel bodies that are the same.",
        *example(
            """
HloModule m

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

-total {
- x = f32[] parameter(0)
- y = f32[] parameter(1)
- ROOT z = f32[] add(x, y)
-}
-
ENTRY main {
  v = f32[4,2] parameter(0)
  zero = f32[] constant(0)
  columns = f32[2] reduce(v, zero), dimensions={0}, to_apply=sum
- rows = f32[4] reduce(v, zero), dimensions={1}, to_apply=total
+ rows = f32[4] reduce(v, zero), dimensions={1}, to_apply=sum
  ROOT both = (f32[2], f32[4]) tuple(columns, rows)
}
"""
        ),
    ),
)
