"""Conditionals of which one knows the outcome."""

from __future__ import annotations

from collections import Counter
from typing import Final

from lowtide.analysis.value_numbers import ValueNumbers
from lowtide.ir import Computation, ElementType, Instruction, Module, Opcode
from lowtide.ir.attributes import Conditional, Constant
from lowtide.ir.traversal import computation_post_order
from lowtide.passes.call_sites import count_references, drop_unreferenced, is_present
from lowtide.passes.editing import remove_with_operands, substitute
from lowtide.passes.embedding import embed, may_copy, may_embed
from lowtide.passes.interface import Pass, example


def simplify_conditionals(module: Module) -> int:
    """Write out the branch that is always taken; return how many changes were made.

    That is the one that a constant chooses, the only one, or any where all do the same with the
    same operand. A choice by `not p`, or by p as 0 or 1, becomes one by p. Conditionals with
    control edges stay.
    """
    references = count_references(module)
    numbers = ValueNumbers()
    left: list[Computation] = []
    changes = 0
    for computation in computation_post_order(module):
        for x in list(computation.instructions.values()):
            if x.opcode is not Opcode.CONDITIONAL or x.has_control_edges or not is_present(x):
                continue
            changes += _choose_directly(x)
            left += x.called_computations
            changes += _simplify(x, references, numbers)
    if changes:
        drop_unreferenced(module, left)
    return changes


def _simplify(x: Instruction, references: Counter[Computation], numbers: ValueNumbers) -> bool:
    chosen = _chosen(x, numbers)
    if chosen is None:
        return False
    branch, operand = x.called_computations[chosen], x.operands[1 + chosen]
    once = references[branch] == 1
    if branch.root.shape is not x.shape or not may_embed(branch, x, [operand]):
        return False
    if not once and not may_copy(branch):
        return False
    substitute(x, embed(branch, x, [operand], once=once))
    operands = x.operands
    x.parent.remove(x)
    for y in dict.fromkeys(operands):
        remove_with_operands(y)
    return True


def _chosen(x: Instruction, numbers: ValueNumbers) -> int | None:
    """Return the number of the branch that is taken; None where it cannot be told."""
    branches = x.called_computations
    if len(branches) == 1:
        return 0
    selector = x.operands[0]
    if selector.opcode is Opcode.CONSTANT:
        literal = selector.attributes_as(Constant).literal
        if literal.elided:
            return None
        index = int(literal.array[()])
        if x.attributes_as(Conditional).is_predicated:
            return 1 - index
        return index if 0 <= index < len(branches) else len(branches) - 1
    if any(y is not x.operands[1] for y in x.operands[1:]):
        return None
    return 0 if len({numbers.of_computation(y) for y in branches}) == 1 else None


def _choose_directly(x: Instruction) -> int:
    """Choose by p itself instead of by `not p`, or by p as a number."""
    changes = 0
    while True:
        selector = x.operands[0]
        if not _is_turned_round(x, selector):
            return changes
        if selector.opcode is Opcode.CONVERT:
            x.set_attributes(Conditional(is_predicated=True))
        x.set_operands((selector.operands[0], *x.operands[:0:-1]))
        x.set_called_computations(x.called_computations[::-1])
        remove_with_operands(selector)
        changes += 1


def _is_turned_round(x: Instruction, selector: Instruction) -> bool:
    """Whether the selector is `not p`, or p as 0 or 1 where there are two branches."""
    if x.attributes_as(Conditional).is_predicated:
        return selector.opcode is Opcode.NOT
    if selector.opcode is not Opcode.CONVERT or len(x.called_computations) != 2:
        return False
    return selector.operands[0].shape.element_type is ElementType.PRED


PASSES: Final = (
    Pass(
        "conditional-simplifier",
        simplify_conditionals,
        "Writes out the branch of a conditional that is always taken.",
        *example(
            """
HloModule m

-first {
- p = f32[4] parameter(0)
- ROOT a = f32[4] sine(p)
+ENTRY main {
+ x = f32[4] parameter(0)
+ ROOT a = f32[4] sine(x)
}

-second {
- q = f32[4] parameter(0)
- ROOT b = f32[4] cosine(q)
-}
-
-ENTRY main {
- x = f32[4] parameter(0)
- yes = pred[] constant(true)
- ROOT y = f32[4] conditional(yes, x, x), true_computation=first, false_computation=second
-}
-"""
        ),
    ),
)
