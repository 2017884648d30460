"""Tiny conditionals made selections: both branches run, and one result is taken."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Computation, ElementType, Instruction, Module, Opcode, Shape, array_shape
from lowtide.ir.attributes import NO_ATTRIBUTES, Conditional, Dimensions
from lowtide.ops.table import TABLE
from lowtide.passes.call_sites import SMALL, drop_unreferenced
from lowtide.passes.editing import TupleElements, make, make_tuple, remove_with_operands, substitute
from lowtide.passes.embedding import embed, may_embed
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.choices import array_shapes, branches_of, choices_of

_FREE: Final = frozenset(
    {Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE}
)
_LIGHT: Final = frozenset(
    {Opcode.BROADCAST, Opcode.IOTA, Opcode.RESHAPE, Opcode.SLICE}
    | {opcode for opcode, row in TABLE.items() if row.elementwise}
)


def select_results(module: Module, *, instructions: int = 8) -> int:
    """Make selections of conditionals with two tiny branches; return of how many.

    Each branch has at most `instructions` elementwise or reshaping operations, on arrays of at most
    `SMALL` bytes, as are the results. A larger array is selected where only small slices of it are
    read, and the branches do nothing but to hand a value on or to spread one.
    """
    left: list[Computation] = []
    changes = 0
    for x in choices_of(module):
        if x.attributes_as(Conditional).is_predicated and _is_tiny(x, instructions):
            left += x.called_computations
            _select(x)
            changes += 1
    if changes:
        drop_unreferenced(module, left)
    return changes


def _is_tiny(x: Instruction, instructions: int) -> bool:
    shapes = array_shapes(x.shape)
    if shapes is None:
        return False
    is_small = sum([shape.nbytes for shape in shapes]) <= SMALL
    if not is_small and not _is_read_in_slices(x):
        return False
    return all(
        (
            _is_light(branch.computation, instructions)
            if is_small
            else _is_spread(branch.computation)
        )
        and may_embed(branch.computation, x, [branch.operand])
        for branch in branches_of(x)
    )


def _is_read_in_slices(x: Instruction) -> bool:
    """Whether no more is read of an array than small slices, in which a selection can be fused."""
    slices = (Opcode.SLICE, Opcode.DYNAMIC_SLICE)
    return (
        x.shape.is_array
        and not x.is_root
        and all(y.opcode in slices and y.shape.nbytes <= SMALL for y in x.users)
    )


def _is_spread(computation: Computation) -> bool:
    """Whether a computation returns what it gets, or a number in all places."""
    return all(
        x.opcode in _FREE or (x.opcode is Opcode.BROADCAST and not x.operands[0].shape.rank)
        for x in computation.instructions.values()
    )


def _is_light(computation: Computation, instructions: int) -> bool:
    work = [x for x in computation.instructions.values() if x.opcode not in _FREE]
    return len(work) <= instructions and all(
        x.opcode in _LIGHT and x.shape.is_array and x.shape.nbytes <= SMALL for x in work
    )


def _select(x: Instruction) -> None:
    values = [
        embed(branch.computation, x, [branch.operand], once=True) for branch in branches_of(x)
    ]
    if x.shape.is_tuple:
        pairs = [TupleElements(value) for value in values]
        places = range(len(x.shape.tuple_shapes))
        chosen = [_chosen(x, pairs[0][i], pairs[1][i]) for i in places]
        result = make_tuple(x.parent, chosen, x)
    else:
        result = _chosen(x, values[0], values[1])
    operands = x.operands
    substitute(x, result)
    x.parent.remove(x)
    for y in dict.fromkeys((*values, *operands)):
        remove_with_operands(y)


def _chosen(x: Instruction, a: Instruction, b: Instruction) -> Instruction:
    if a is b:
        return a
    predicate = x.operands[0]
    if a.shape.rank:
        predicate = _spread(predicate, a.shape, x)
    return make(x.parent, Opcode.SELECT, a.shape, (predicate, a, b), x, NO_ATTRIBUTES)


def _spread(predicate: Instruction, like: Shape, x: Instruction) -> Instruction:
    layout = like.layout
    shape = array_shape(ElementType.PRED, like.dimensions, layout)
    return make(x.parent, Opcode.BROADCAST, shape, (predicate,), x, Dimensions(()))


PASSES: Final = (
    Pass(
        "conditional-to-select",
        select_results,
        "Runs both branches of tiny conditionals and selects a result.",
        *example(
            """
HloModule m
-
-first {
- p = (f32[], f32[]) parameter(0)
- a = f32[] get-tuple-element(p), index=0
- ROOT r = f32[] sine(a)
-}
-
-second {
- q = (f32[], f32[]) parameter(0)
- b = f32[] get-tuple-element(q), index=1
- ROOT s = f32[] negate(b)
-}

ENTRY main {
  c = pred[] parameter(0)
  x = f32[] parameter(1)
  y = f32[] parameter(2)
- xy = (f32[], f32[]) tuple(x, y)
- ROOT z = f32[] conditional(c, xy, xy), true_computation=first, false_computation=second
+ r = f32[] sine(x)
+ s = f32[] negate(y)
+ ROOT z = f32[] select(c, r, s)
}
"""
        ),
        meanings=(("instructions", "the most operations of a branch"),),
    ),
)
