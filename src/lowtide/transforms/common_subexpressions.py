"""One instruction where several compute the same from the same operands."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.traversal import post_order
from lowtide.ops.effects import has_side_effect
from lowtide.ops.table import TABLE
from lowtide.passes.interface import Pass


def merge_common_subexpressions(module: Module) -> int:
    """Make users of equal instructions read the first of them; return how many were removed.

    Instructions are equal that have the same opcode, attributes, called computations, shape with
    layout, annotations and operands, these in any order where the operation commutes. What draws
    random numbers, has side effects or control edges is not merged, nor are constants whose value
    is not in the text, nor optimization barriers: they stand for a wish to compute twice.
    """
    return sum([_merge_in(computation) for computation in module.computations.values()])


def _merge_in(computation: Computation) -> int:
    first: dict[Hashable, Instruction] = {}
    merged = 0
    for instruction in post_order(computation):
        if not _may_merge(instruction):
            continue
        kept = first.setdefault(_key(instruction), instruction)
        if kept is not instruction:
            instruction.replace_all_uses_with(kept)
            computation.remove(instruction)
            merged += 1
    return merged


_NEVER: Final = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.OPTIMIZATION_BARRIER,
        Opcode.RNG,
        Opcode.RNG_GET_AND_UPDATE_STATE,
    }
)


def _may_merge(instruction: Instruction) -> bool:
    attributes = instruction.attributes
    return not (
        instruction.opcode in _NEVER
        or (isinstance(attributes, Constant) and attributes.literal.elided)
        or instruction.control_predecessors
        or instruction.control_successors
        or has_side_effect(instruction)
    )


def _key(instruction: Instruction) -> Hashable:
    operands = instruction.operands
    if TABLE[instruction.opcode].commutative:
        operands = tuple(sorted(operands, key=lambda x: x.id))
    return (
        instruction.opcode,
        operands,
        instruction.attributes,
        instruction.called_computations,
        instruction.shape,
        instruction.annotations,
    )


PASSES: Final = (
    Pass(
        "cse",
        merge_common_subexpressions,
        "Computes what several instructions compute from the same operands once.",
        before="""
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] multiply(x, y)
  b = f32[4] multiply(y, x)
  ROOT sum = f32[4] add(a, b)
}
""",
        after="""
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] multiply(x, y)
  ROOT sum = f32[4] add(a, a)
}
""",
    ),
)
