"""Work that one branch of a conditional alone needs, done in that branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.passes.editing import substitute
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.choices import (
    Branch,
    add_operands,
    branches_of,
    choices_of,
    keep_operands,
)
from lowtide.transforms.control_flow.hoisting import WORK, may_move


def sink_work(module: Module) -> int:
    """Do in a branch the work that it alone reads; return how many values moved.

    Those move that take work, such as products and reductions, with what surrounds them, where the
    branch then holds no more bytes in its operands than before; arguments of the program count for
    nothing, since they are there anyway.
    """
    return sum([_sink(branch) for x in choices_of(module) for branch in branches_of(x)])


def _sink(branch: Branch) -> int:
    given = _given(branch)
    if given is None:
        return 0
    owner, values = given
    region = _region(owner, values)
    if not any(x.opcode in WORK for x in region):
        return 0
    outside = {y: None for x in region for y in x.operands if y not in region}
    copies = dict(zip(outside, add_operands(branch, list(outside)), strict=True))
    computation = branch.computation
    for x in reversed(region):
        copies[x] = computation.add_like(x, tuple([copies[y] for y in x.operands]))
    _read_copies(branch, values, copies)
    return len(region)


def _given(branch: Branch) -> tuple[Instruction, Sequence[Instruction]] | None:
    """Who reads the values that a branch gets, and these; None where others read them, too."""
    operand, conditional = branch.operand, branch.conditional
    if list(operand.users) != [conditional] or conditional.operands.count(operand) != 1:
        return None
    if branch.parameter.shape.is_array:
        return conditional, (operand,)
    if operand.opcode is not Opcode.TUPLE or operand.has_control_edges:
        return None
    return None if branch.elements() is None else (operand, operand.operands)


def _region(owner: Instruction, values: Sequence[Instruction]) -> list[Instruction]:
    """What the values are made from and nobody else reads, as far as that pays; users first."""
    region: dict[Instruction, None] = {}
    held = set(values)
    waiting = list(reversed(values))
    while waiting:
        x = waiting.pop()
        if x in region or not x.operands or not may_move(x):
            continue
        if any(user is not owner and user not in region for user in x.users):
            continue
        needed = [y for y in dict.fromkeys(x.operands) if y not in held]
        if sum([_held_bytes(y) for y in needed]) > _held_bytes(x):
            continue
        region[x] = None
        held.update(needed)
        waiting += reversed(needed)
    return list(region)


def _held_bytes(x: Instruction) -> int:
    is_argument = x.opcode is Opcode.PARAMETER and x.parent.is_entry
    return 0 if is_argument or x.opcode is Opcode.CONSTANT else x.shape.leaf_nbytes


def _read_copies(
    branch: Branch, values: Sequence[Instruction], copies: dict[Instruction, Instruction]
) -> None:
    """Make the branch read what it computes now, and take no longer what it does not read."""
    elements = branch.elements()
    assert elements is not None, "new operands are read one by one"
    for number, x in enumerate(values):
        if x in copies:
            for reader in elements.pop(number, []):
                substitute(reader, copies[x])
                branch.computation.remove(reader)
    keep_operands(branch, sorted(elements))


PASSES: Final = (
    Pass(
        "conditional-code-sinking",
        sink_work,
        "Does in a branch of a conditional the work that it alone needs.",
        *example(
            """
HloModule m

first {
- p = (f32[4,4], f32[4,4]) parameter(0)
- a = f32[4,4] get-tuple-element(p), index=0
- b = f32[4,4] get-tuple-element(p), index=1
- ROOT r = f32[4,4] add(a, b)
+ p = (f32[4,4]) parameter(0)
+ get-tuple-element = f32[4,4] get-tuple-element(p), index=0
+ xx.1 = f32[4,4] dot(get-tuple-element, get-tuple-element), lhs_contracting_dims={1},
+   rhs_contracting_dims={0}
+ ROOT r = f32[4,4] add(get-tuple-element, xx.1)
}

second {
  q = f32[4,4] parameter(0)
  ROOT s = f32[4,4] sine(q)
}

ENTRY main {
  i = pred[] parameter(0)
  x = f32[4,4] parameter(1)
- xx = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
- pair = (f32[4,4], f32[4,4]) tuple(x, xx)
- ROOT z = f32[4,4] conditional(i, pair, x), true_computation=first, false_computation=second
+ tuple.1 = (f32[4,4]) tuple(x)
+ ROOT z = f32[4,4] conditional(i, tuple.1, x), true_computation=first, false_computation=second
}
"""
        ),
    ),
)
