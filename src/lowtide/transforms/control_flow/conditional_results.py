"""Results of conditionals that nobody needs, or that are known outside."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.passes.call_sites import SMALL
from lowtide.passes.editing import (
    TupleElements,
    element_index,
    read_elements,
    settle,
    substitute,
    take_apart,
)
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.choices import (
    branches_of,
    choices_of,
    keep_results,
    results_by_branch,
)


def simplify_results(module: Module) -> int:
    """Return less from branches; the result is the number of changes.

    What all branches pass on from one value is read there, a small constant that all return is made
    outside, of two elements that all branches return alike one is read, and what nobody reads is
    not returned.
    """
    return settle(lambda module: sum([_simplify(x) for x in choices_of(module)]), module)


def _simplify(x: Instruction) -> int:
    results = results_by_branch(x)
    if results is None:
        return _pass_by(x)
    changes = _read_elsewhere(x, results)
    read = read_elements(x)
    if read is None:
        return changes
    kept = [i for i, xs in sorted(read.items()) if any(_is_read(y) for y in xs)]
    if len(kept) < len(x.shape.tuple_shapes):
        keep_results(x, kept)
        changes += 1
    return changes


def _is_read(x: Instruction) -> bool:
    return bool(x.users) or x.is_root or x.has_control_edges


def _pass_by(x: Instruction) -> int:
    """Read what all branches return as it came, where they return one value."""
    branches = branches_of(x)
    roots = [branch.computation.root for branch in branches]
    origins = {branch.origin(root) for branch, root in zip(branches, roots, strict=True)}
    if len(origins) != 1 or None in origins or not (x.users or x.is_root):
        return 0
    outside = branches[0].outside(roots[0])
    if outside.shape is not x.shape:
        return 0
    substitute(x, outside)
    return 1


def _read_elsewhere(x: Instruction, results: list[tuple[Instruction, ...]]) -> int:
    """Make what reads elements that are known outside read them there."""
    places: dict[tuple[Instruction, ...], int] = {}
    leaders = [places.setdefault(row, i) for i, row in enumerate(zip(*results, strict=True))]
    known = [_is_known(x, row) for row in zip(*results, strict=True)]
    movable = [i for i, leader in enumerate(leaders) if known[i] or leader != i]
    if not movable:
        return 0
    changes = 0
    if x.is_root or any(y.opcode is not Opcode.GET_TUPLE_ELEMENT for y in x.users):
        take_apart(x)
        changes += 1
    for user in list(x.users):
        index = element_index(user)
        if index not in movable or user.has_control_edges or not _is_read(user):
            continue
        row = tuple([result[index] for result in results])
        found = _known(x, row) if known[index] else TupleElements(x)[leaders[index]]
        if found.shape is user.shape and found is not user:
            substitute(user, found)
            x.parent.remove(user)
            changes += 1
    return changes


def _is_known(x: Instruction, row: tuple[Instruction, ...]) -> bool:
    """Whether an element is one value from outside, or one small constant, in all branches."""
    branches = branches_of(x)
    origins = {branch.origin(y) for branch, y in zip(branches, row, strict=True)}
    if len(origins) == 1 and None not in origins:
        return True
    if any(y.opcode is not Opcode.CONSTANT or y.shape.nbytes > SMALL for y in row):
        return False
    literals = {y.attributes_as(Constant).literal for y in row}
    return len(literals) == 1 and not any(literal.elided for literal in literals)


def _known(x: Instruction, row: tuple[Instruction, ...]) -> Instruction:
    if row[0].opcode is Opcode.CONSTANT:
        return x.parent.add_like(row[0], ())
    return branches_of(x)[0].outside(row[0])


PASSES: Final = (
    Pass(
        "conditional-results",
        simplify_results,
        "Returns from branches only what somebody reads and what cannot be known outside of them.",
        *example(
            """
HloModule m

first {
  p = (f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
- b = f32[4] get-tuple-element(p), index=1
  c = f32[4] sine(a)
- ROOT r = (f32[4], f32[4], f32[4]) tuple(b, c, a)
+ ROOT r = (f32[4]) tuple(c)
}

second {
  q = (f32[4], f32[4]) parameter(0)
- d = f32[4] get-tuple-element(q), index=0
  e = f32[4] get-tuple-element(q), index=1
  f = f32[4] negate(e)
- ROOT s = (f32[4], f32[4], f32[4]) tuple(e, f, e)
+ ROOT s = (f32[4]) tuple(f)
}

ENTRY main {
  i = pred[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] parameter(2)
  xy = (f32[4], f32[4]) tuple(x, y)
- z = (f32[4], f32[4], f32[4]) conditional(i, xy, xy), true_computation=first, \
false_computation=second
- z0 = f32[4] get-tuple-element(z), index=0
- z1 = f32[4] get-tuple-element(z), index=1
- ROOT sum = f32[4] add(z0, z1)
+ z = (f32[4]) conditional(i, xy, xy), true_computation=first, false_computation=second
+ z1 = f32[4] get-tuple-element(z), index=0
+ ROOT sum = f32[4] add(y, z1)
}
"""
        ),
    ),
)
