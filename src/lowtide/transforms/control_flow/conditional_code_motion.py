"""Work that all branches of a conditional do, done before it."""

from __future__ import annotations

from typing import Final

from lowtide.analysis.value_numbers import ValueNumbers
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.traversal import post_order
from lowtide.passes.dead_code import sweep
from lowtide.passes.editing import substitute
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.choices import Branch, add_operands, branches_of, choices_of
from lowtide.transforms.control_flow.hoisting import WORK, Marks, copy_out, frontier, may_move


def move_common_code(module: Module) -> int:
    """Do before a conditional the work that all branches do; return how many values moved.

    Those move that take work, such as products and reductions, and are no larger than what they are
    made from or have at most `SMALL` bytes, with what leads to them.
    """
    numbers = ValueNumbers()
    return sum([_move(x, numbers) for x in choices_of(module)])


def _move(x: Instruction, numbers: ValueNumbers) -> int:
    branches = branches_of(x)
    if len(branches) < 2:
        return 0
    tables = [_numbered(branch, numbers) for branch in branches]
    common = set(tables[0].values()).intersection(*[table.values() for table in tables[1:]])
    first = branches[0]
    marks = _marks(first, tables[0], common)
    wanted = frontier(marks, lambda y: first.origin(y) is not None)
    if not wanted:
        return 0
    given = {y: first.outside(y) for y in marks if first.origin(y) is not None}
    values = copy_out(wanted, marks, x.parent, given)
    wanted_numbers = [tables[0][y] for y in wanted]
    for branch, table in zip(branches, tables, strict=True):
        made = add_operands(branch, values)
        here = dict(zip(wanted_numbers, made, strict=True))
        for y, number in table.items():
            if number in here and may_move(y):
                substitute(y, here[number])
        sweep(branch.computation)
    return len(wanted)


def _numbered(branch: Branch, numbers: ValueNumbers) -> dict[Instruction, int]:
    """Return numbers for the values of a branch that tell where they come from outside."""
    given = {
        y: numbers.of_key(("outside", branch.origin(y), y.shape))
        for y in [branch.parameter, *branch.parameter.users]
        if branch.origin(y) is not None
    }
    return numbers.of_instructions(branch.computation, given)


def _marks(branch: Branch, table: dict[Instruction, int], common: set[int]) -> Marks:
    marks: Marks = {}
    for x in post_order(branch.computation):
        if branch.origin(x) is not None or (
            x.opcode is Opcode.CONSTANT and not x.has_control_edges
        ):
            marks[x] = False
        elif table[x] in common and may_move(x) and all(y in marks for y in x.operands):
            marks[x] = x.opcode in WORK or any(marks[y] for y in x.operands)
    return marks


PASSES: Final = (
    Pass(
        "conditional-code-motion",
        move_common_code,
        "Does before a conditional the work that all of its branches do alike.",
        *example(
            """
HloModule m

first {
- p = (f32[4,4], f32[4,4]) parameter(0)
- a = f32[4,4] get-tuple-element(p), index=0
- b = f32[4,4] get-tuple-element(p), index=1
- ab = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+ p = (f32[4,4], f32[4,4], f32[4,4]) parameter(0)
+ ab = f32[4,4] get-tuple-element(p), index=2
  ROOT r = f32[4,4] sine(ab)
}

second {
- q = (f32[4,4], f32[4,4]) parameter(0)
+ q = (f32[4,4], f32[4,4], f32[4,4]) parameter(0)
  c = f32[4,4] get-tuple-element(q), index=0
- d = f32[4,4] get-tuple-element(q), index=1
- cd = f32[4,4] dot(c, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+ cd = f32[4,4] get-tuple-element(q), index=2
  ROOT s = f32[4,4] add(cd, c)
}

ENTRY main {
  i = pred[] parameter(0)
  x = f32[4,4] parameter(1)
  y = f32[4,4] parameter(2)
- xy = (f32[4,4], f32[4,4]) tuple(x, y)
- ROOT z = f32[4,4] conditional(i, xy, xy), true_computation=first, false_computation=second
+ xy = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+ t = (f32[4,4], f32[4,4], f32[4,4]) tuple(x, y, xy)
+ u = (f32[4,4], f32[4,4], f32[4,4]) tuple(x, y, xy)
+ ROOT z = f32[4,4] conditional(i, t, u), true_computation=first, false_computation=second
}
"""
        ),
    ),
)
