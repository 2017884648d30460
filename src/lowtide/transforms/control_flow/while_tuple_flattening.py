"""Loops that carry tuples in their tuple made to carry the elements themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lowtide.ir import Instruction, Module, Opcode, Shape
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.shape import ShapeIndex, tuple_shape
from lowtide.passes.editing import (
    TupleElements,
    element_index,
    make,
    make_tuple,
    remove_with_operands,
    set_elements,
    substitute,
    take_apart,
)
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.loops import WhileLoop, loops_of, renumber_config


def flatten_carries(module: Module) -> int:
    """Make loops carry one tuple of arrays; return how many loops changed.

    What read a nested tuple reads a new tuple of its elements. Empty tuples within go.
    """
    changes = 0
    for loop in loops_of(module):
        if any(shape.is_tuple for shape in loop.shapes) and _leaf_count(loop.shapes):
            _flatten(loop)
            changes += 1
    return changes


def _leaf_count(shapes: tuple[Shape, ...]) -> int:
    return sum([1 for shape in shapes for _ in shape.leaves()])


def _flatten(loop: WhileLoop) -> None:
    x = loop.instruction
    wholes = [user for user in x.users if user.opcode is not Opcode.GET_TUPLE_ELEMENT]
    if wholes or x.is_root:
        take_apart(x)
    shapes = loop.shapes
    starts, operand = loop.starts, x.operands[0]
    first = [leaf for i in range(len(shapes)) for leaf in _leaves_of(starts[i])]
    x.set_operands((make_tuple(x.parent, first, operand),))
    remove_with_operands(operand)
    results = [leaf for result in loop.results for leaf in _leaves_of(result)]
    set_elements(loop.body.root, results)
    flat = tuple_shape([leaf for shape in shapes for _, leaf in shape.leaves()])
    offsets = _offsets(shapes)
    for source in (x, *loop.parameters):
        source.set_shape(flat)  # A sharding has an entry for each leaf, before as after.
        _rebuild_readers(source, shapes, offsets)
    renumber_config(x, dict(enumerate(offsets)))


def _offsets(shapes: tuple[Shape, ...]) -> list[int]:
    """Return at which leaf each element begins."""
    offsets, total = [], 0
    for shape in shapes:
        offsets.append(total)
        total += sum([1 for _ in shape.leaves()])
    return offsets


def _leaves_of(value: Instruction) -> Iterator[Instruction]:
    """Yield instructions for the leaves of a value."""
    if not value.shape.is_tuple:
        yield value
        return
    elements: dict[ShapeIndex, TupleElements] = {(): TupleElements(value)}
    for index, shape in value.shape.subshapes():
        if not index:
            continue
        element = elements[index[:-1]][index[-1]]
        if shape.is_tuple:
            elements[index] = TupleElements(element)
        else:
            yield element


def _rebuild_readers(source: Instruction, shapes: tuple[Shape, ...], offsets: list[int]) -> None:
    """Make what reads old elements read the new ones, nested ones put together again."""
    for user in list(source.users):
        index = element_index(user)
        if not shapes[index].is_tuple:
            user.set_attributes(GetTupleElement(offsets[index]))
            continue
        built = _built(user, shapes[index], offsets[index])
        substitute(user, built)
        source.parent.remove(user)
        _read_at_once(built)


def _read_at_once(built: Instruction) -> None:
    """Take no elements from a tuple that stands beside its reader."""
    waiting = [built]
    for made in waiting:
        if made.opcode is not Opcode.TUPLE:
            continue
        for user in list(made.users):
            if user.opcode is Opcode.GET_TUPLE_ELEMENT and not user.has_control_edges:
                element = made.operands[element_index(user)]
                substitute(user, element)
                user.parent.remove(user)
                waiting.append(element)
    for made in waiting:
        remove_with_operands(made)


def _built(user: Instruction, shape: Shape, offset: int) -> Instruction:
    """Return the nested tuple of the leaves from `offset` on of what `user` reads."""
    source = user.operands[0]
    parent = source.parent
    made: dict[ShapeIndex, Instruction] = {}
    number = offset
    for index, leaf in shape.leaves():
        made[index] = make(
            parent, Opcode.GET_TUPLE_ELEMENT, leaf, (source,), user, GetTupleElement(number)
        )
        number += 1
    tuples = [(index, part) for index, part in shape.subshapes() if part.is_tuple]
    for index, part in reversed(tuples):
        elements = [made[(*index, i)] for i in range(len(part.tuple_shapes))]
        made[index] = make(parent, Opcode.TUPLE, part, tuple(elements), user)
    return made[()]


PASSES: Final = (
    Pass(
        "while-tuple-flattening",
        flatten_carries,
        "Makes loops carry arrays in place of tuples of arrays.",
        *example(
            """
HloModule m

condition {
- c = (s32[], (f32[4], f32[2])) parameter(0)
+ c = (s32[], f32[4], f32[2]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
- b = (s32[], (f32[4], f32[2])) parameter(0)
+ b = (s32[], f32[4], f32[2]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
- pair = (f32[4], f32[2]) get-tuple-element(b), index=1
- ROOT r = (s32[], (f32[4], f32[2])) tuple(next, pair)
+ u = f32[4] get-tuple-element(b), index=1
+ v = f32[2] get-tuple-element(b), index=2
+ ROOT r = (s32[], f32[4], f32[2]) tuple(next, u, v)
}

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[2] parameter(1)
- pair.1 = (f32[4], f32[2]) tuple(x, y)
  zero = s32[] constant(0)
- start = (s32[], (f32[4], f32[2])) tuple(zero, pair.1)
- loop = (s32[], (f32[4], f32[2])) while(start), condition=condition, body=body
- ROOT last = (f32[4], f32[2]) get-tuple-element(loop), index=1
+ start = (s32[], f32[4], f32[2]) tuple(zero, x, y)
+ loop = (s32[], f32[4], f32[2]) while(start), condition=condition, body=body
+ u.1 = f32[4] get-tuple-element(loop), index=1
+ v.1 = f32[2] get-tuple-element(loop), index=2
+ ROOT last = (f32[4], f32[2]) tuple(u.1, v.1)
}
"""
        ),
    ),
)
