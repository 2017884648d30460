"""One instruction where several compute the same from the same operands."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from lowtide.analysis.value_numbers import ValueNumbers, plain_form
from lowtide.ir import Computation, Instruction, Module
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.traversal import computation_post_order, post_order
from lowtide.ops.effects import has_side_effect
from lowtide.passes.interface import Pass, example


def merge_common_subexpressions(module: Module) -> int:
    """Make users of equal instructions read the first of them; return how many were removed.

    Instructions are equal that have the same opcode, attributes, shape with layout, annotations and
    operands, these in any order where the operation commutes. What they call is the same too, or
    computes the same. What draws random numbers, has side effects or control edges is not merged,
    nor are optimization barriers: they stand for a wish to compute twice. A call of what has such
    instructions is not merged either. Two constants whose values are not in the text differ.
    """
    numbers = ValueNumbers(form=_form, inside=False)
    merged = 0
    for computation in computation_post_order(module):
        found: dict[Instruction, int] = {}
        merged += _merge_in(computation, numbers, found)
        if computation.is_entry:  # Nobody calls it.
            continue
        if not any(x.has_control_edges or has_side_effect(x) for x in found):
            numbers.set_computation(computation, found)
    return merged


def _form(x: Instruction) -> Hashable:
    """What equal instructions agree in: one that goes takes its annotations with it."""
    annotations = x.annotations
    if annotations is NO_ANNOTATIONS or annotations == NO_ANNOTATIONS:
        return plain_form(x)
    return (x.attributes, x.shape, annotations)


def _merge_in(
    computation: Computation, numbers: ValueNumbers, found: dict[Instruction, int]
) -> int:
    """Merge in a computation, and note the numbers of its instructions as `found`.

    Each reader of merged instructions is changed once, however many these are.
    """
    first: dict[int, Instruction] = {}
    merged: dict[Instruction, Instruction] = {}
    for instruction in post_order(computation):
        operands = instruction.operands
        if merged and any(x in merged for x in operands):
            instruction.set_operands(tuple([merged.get(x, x) for x in operands]))
        number = found[instruction] = numbers.of(instruction, found)
        kept = first.setdefault(number, instruction)
        if kept is not instruction:
            merged[instruction] = kept
    if computation.root in merged:
        computation.root = merged[computation.root]
    for instruction in reversed(merged):
        computation.remove(instruction)
    return len(merged)


PASSES: Final = (
    Pass(
        "cse",
        merge_common_subexpressions,
        "Computes only once what several instructions compute from the same operands.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] multiply(x, y)
- b = f32[4] multiply(y, x)
- ROOT sum = f32[4] add(a, b)
+ ROOT sum = f32[4] add(a, a)
}
"""
        ),
    ),
)
