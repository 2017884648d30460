"""Operands of branches that these do not need."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.passes.call_sites import SMALL
from lowtide.passes.dead_code import sweep
from lowtide.passes.editing import settle, substitute
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.choices import (
    Branch,
    branches_of,
    choices_of,
    drop_operand,
    keep_operands,
)


def simplify_operands(module: Module) -> int:
    """Pass less to branches; the result is the number of changes.

    Scalar and other small constants are made in the branch, of two equal elements one is passed,
    and what the branch does not read is not; a branch that reads nothing gets an empty tuple.
    """
    return settle(_simplify_all, module)


def _simplify_all(module: Module) -> int:
    return sum([_simplify(branch) for x in choices_of(module) for branch in branches_of(x)])


def _simplify(branch: Branch) -> int:
    parameter = branch.parameter
    changes = sweep(branch.computation)
    if not parameter.users and not parameter.is_root:
        if parameter.shape.is_tuple and not parameter.shape.tuple_shapes:
            return changes
        if parameter.has_control_edges:
            return changes
        drop_operand(branch)
        return changes + 1
    elements = branch.elements()
    if elements is None:
        return changes
    changes += _merge(branch, elements)
    read = branch.elements()
    assert read is not None, "reading equal elements reads no whole"
    if len(read) < len(parameter.shape.tuple_shapes):
        keep_operands(branch, sorted(read))
        changes += 1
    return changes


def _merge(branch: Branch, elements: dict[int, list[Instruction]]) -> int:
    """Read constants and repeated elements elsewhere in the branch."""
    operand = branch.operand
    if operand.opcode is not Opcode.TUPLE:
        return 0
    first: dict[object, Instruction] = {}
    changes = 0
    for index, readers in sorted(elements.items()):
        value = operand.operands[index]
        found = first.setdefault(branch.origin(readers[0]), readers[0])
        for reader in readers:
            other = found
            if value.opcode is Opcode.CONSTANT and value.shape.nbytes <= SMALL:
                other = branch.computation.add_like(value, ())
            if other is reader or other.shape is not reader.shape:
                continue
            substitute(reader, other)
            reader.parent.remove(reader)
            changes += 1
    return changes


PASSES: Final = (
    Pass(
        "conditional-operands",
        simplify_operands,
        "Passes to branches only what they read: no constants, and no value twice.",
        *example(
            """
HloModule m

first {
- p = (f32[4], f32[4], f32[4]) parameter(0)
+ p = (f32[4]) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
- b = f32[4] get-tuple-element(p), index=2
- ROOT r = f32[4] add(a, b)
+ ROOT r = f32[4] add(a, a)
}

second {
- q = (f32[4], f32[4], f32[4]) parameter(0)
- c = f32[4] get-tuple-element(q), index=1
+ q = (f32[4]) parameter(0)
+ c = f32[4] get-tuple-element(q), index=0
  ROOT s = f32[4] sine(c)
}

ENTRY main {
  i = pred[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] parameter(2)
- xyx = (f32[4], f32[4], f32[4]) tuple(x, y, x)
- ROOT z = f32[4] conditional(i, xyx, xyx), true_computation=first, false_computation=second
+ first.1 = (f32[4]) tuple(x)
+ second.1 = (f32[4]) tuple(y)
+ ROOT z = f32[4] conditional(i, first.1, second.1), true_computation=first, \
false_computation=second
}
"""
        ),
    ),
)
