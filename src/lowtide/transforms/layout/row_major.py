"""Row-major layouts everywhere inside: what lies otherwise is a transpose, which can be fused.

A layout says nothing about values, so those of a program that was not compiled yet are free. The
layouts of arguments and results are kept, and those of what gives bytes a meaning of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode, Shape, tuple_shape
from lowtide.ir.attributes import CustomCall, GetTupleElement
from lowtide.ir.traversal import fused_computations
from lowtide.passes.editing import make
from lowtide.passes.interface import Pass, example


def make_row_major(module: Module) -> int:
    """Give all values row-major layouts; return how many changed.

    Copies change the layout of arguments behind them and of results before them, and around
    bitcasts, fusions, custom calls with layouts of their own, and what talks to the world.
    """
    fused = fused_computations(module)
    changes = 0
    for computation in list(module.computations.values()):
        if computation not in fused:
            changes += _rewrite(computation)
    return changes


_FIXED: Final = frozenset(
    {
        Opcode.BITCAST,
        Opcode.FUSION,
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.SEND,
        Opcode.SEND_DONE,
    }
)


def _rewrite(computation: Computation) -> int:
    instructions = list(computation.instructions.values())
    readers = {x for x in instructions if x.opcode in _FIXED or _has_own_layouts(x)}
    readers |= _tuples_of_results(computation)
    fixed = _fixed(computation, instructions, readers)
    wanted = {x: x.shape for x in instructions}
    result = computation.root.shape
    changes = 0
    for x in instructions:
        shape = row_major(x.shape)
        if shape is not x.shape and x not in fixed:
            x.set_shape(shape)
            changes += 1
    for x in instructions:
        if x in readers:
            changes += _keep_operands(x, wanted)
    for x in instructions:
        if x in fixed and row_major(x.shape) is not x.shape:
            changes += _copy_behind(x, fixed | readers)
    given_back = result if computation.is_entry else row_major(result)  # As callers take it.
    if computation.root.shape is not given_back:
        computation.root = with_layouts(computation.root, given_back)
        changes += 1
    return changes


def _tuples_of_results(computation: Computation) -> set[Instruction]:
    """The tuple that an entry returns, and the tuples in there."""
    if not computation.is_entry:
        return set()
    found = set()
    waiting = [computation.root]
    for x in waiting:
        if x.opcode is Opcode.TUPLE:
            found.add(x)
            waiting += x.operands
    return found


def _fixed(
    computation: Computation, instructions: list[Instruction], readers: set[Instruction]
) -> set[Instruction]:
    """What keeps its shape; the elements of a tuple that does, too."""
    fixed = set(readers)
    if computation.is_entry:
        fixed.update(computation.parameters)
    for x in instructions:
        is_element = x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0] in fixed
        is_last = x.opcode is Opcode.COPY and all(user in readers for user in x.users)
        if is_element or (is_last and (x.users or (x.is_root and computation.is_entry))):
            fixed.add(x)
    return fixed


def _has_own_layouts(x: Instruction) -> bool:
    return isinstance(x.attributes, CustomCall) and x.attributes.operand_layouts is not None


def _keep_operands(x: Instruction, wanted: dict[Instruction, Shape]) -> int:
    """Copy the operands of an instruction back to the layouts that it had them in."""
    changes = 0
    for number, operand in enumerate(x.operands):
        shape = wanted.get(operand, operand.shape)
        if shape is not operand.shape:
            x.replace_operand(number, with_layouts(operand, shape))
            changes += 1
    return changes


def with_layouts(x: Instruction, shape: Shape) -> Instruction:
    """Return a value in another layout: a copy, or a tuple of them."""
    if x.shape is shape:
        return x
    if not shape.is_tuple:
        return make(x.parent, Opcode.COPY, shape, (x,), x)
    elements = []
    for number, wanted in enumerate(shape.tuple_shapes):
        have = x.shape.tuple_shapes[number]
        element = make(x.parent, Opcode.GET_TUPLE_ELEMENT, have, (x,), x, GetTupleElement(number))
        elements.append(with_layouts(element, wanted))
    return x.parent.add(Opcode.TUPLE, shape, tuple(elements))


def with_layouts_of(shape: Shape, model: Shape) -> Shape:
    """Return a shape whose arrays are laid out as those of a model with the same tuples."""
    if shape.is_tuple:
        pairs = zip(shape.tuple_shapes, model.tuple_shapes, strict=True)
        return tuple_shape([with_layouts_of(x, y) for x, y in pairs])
    if not shape.is_array or model.layout is None:
        return shape
    return shape.with_layout(model.layout)


def _copy_behind(x: Instruction, fixed: set[Instruction]) -> int:
    """Let the users of what keeps its layout read a row-major copy, but for those that keep too."""
    shape = row_major(x.shape)
    copies = {y: None for y in x.users if y.opcode is Opcode.COPY and y.shape is shape}
    users = [y for y in x.users if y not in fixed and y not in copies]
    if not users:
        return 0
    copy = next(iter(copies), None) or with_layouts(x, shape)
    for user in users:
        for number, operand in enumerate(user.operands):
            if operand is x:
                user.replace_operand(number, copy)
    return 1


def row_major(shape: Shape) -> Shape:
    """Return a shape with its dimensions in row-major order; tiled arrays stay as they are."""
    return shape.with_leaves(_row_major)


def _row_major(shape: Shape) -> Shape:
    if shape.layout is None or not shape.is_array or shape.layout.tiles:
        return shape
    order = tuple(range(shape.rank - 1, -1, -1))
    if shape.layout.minor_to_major == order:
        return shape
    return shape.with_layout(replace(shape.layout, minor_to_major=order))


PASSES: Final = (
    Pass(
        "row-major",
        make_row_major,
        "Gives all values row-major layouts, with copies where arguments or results have others.",
        *example(
            """
HloModule m, entry_computation_layout={(f32[2,3]{1,0})->f32[3,2]{1,0}}

ENTRY main {
  x = f32[2,3]{1,0} parameter(0)
- y = f32[3,2]{0,1} transpose(x), dimensions={1,0}
+ y = f32[3,2]{1,0} transpose(x), dimensions={1,0}
  ROOT z = f32[3,2]{1,0} negate(y)
}
"""
        ),
    ),
)
