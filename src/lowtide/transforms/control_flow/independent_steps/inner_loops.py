"""Loops over a few numbers within a step: each number of each step goes on until its loop ends.

Such a loop becomes the function of a `map` over the steps, in which lanes go on together until the
last of them is done; those that are done keep what they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.analysis.call_graph import while_body, while_condition
from lowtide.builder import Builder
from lowtide.builder.values import Op, SubComputation
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions, GetTupleElement
from lowtide.ir.shape import array_shape
from lowtide.ops.table import TABLE
from lowtide.transforms.control_flow.independent_steps.kinds import Kind
from lowtide.transforms.control_flow.independent_steps.lanes import StepLanes

_PLAIN: Final = frozenset(
    {Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE}
)
_ONE_BY_ONE: Final = frozenset({Opcode.DIVIDE, Opcode.REMAINDER})
"""What processors do for one whole number after the other, also in lanes that are done."""


def is_start(x: Instruction, kinds: Mapping[Instruction, Kind]) -> bool:
    """Whether a tuple is only what a loop begins with."""
    return all(user.opcode is Opcode.WHILE for user in x.users) and not x.is_root


def is_of_scalars(x: Instruction, kinds: Mapping[Instruction, Kind]) -> bool:
    """Whether a loop computes single numbers, of which one is read, without calls or effects."""
    if x.operands[0].opcode is not Opcode.TUPLE or len(x.users) != 1:
        return False
    if x.is_root or next(iter(x.users)).opcode is not Opcode.GET_TUPLE_ELEMENT:
        return False
    if any(not leaf.is_array or leaf.rank for leaf in x.shape.tuple_shapes):
        return False
    called = (while_condition(x), while_body(x))
    return all(_is_plain(y) for part in called for y in part.instructions.values())


def _is_plain(x: Instruction) -> bool:
    if x.opcode in _PLAIN:
        return True
    if not x.shape.is_array or not TABLE[x.opcode].elementwise or x.has_control_edges:
        return False
    return not (x.opcode in _ONE_BY_ONE and x.shape.element_type.is_integer)


def is_result(x: Instruction, kinds: Mapping[Instruction, Kind]) -> bool:
    """Whether an element is taken from a loop."""
    return x.operands[0].opcode is Opcode.WHILE


def start(lanes: StepLanes, x: Instruction) -> None:
    """Write nothing: the element that is read has the loop."""


def result(lanes: StepLanes, x: Instruction) -> Op:
    """Return the number with which the loop of each step ends."""
    loop, build = x.operands[0], lanes.build
    state = loop.operands[0].operands
    given = [y for y in dict.fromkeys(state) if y.opcode is not Opcode.CONSTANT]
    module = x.parent.module
    computation = module.add_computation("step_loop")
    inside = Builder.inside(computation)
    values = {
        y: inside.parameter(number, array_shape(y.shape.element_type, ()))
        for number, y in enumerate(given)
    }
    for y in state:
        if y.opcode is Opcode.CONSTANT:
            values.setdefault(y, inside.value(computation.add_like(y, ())))
    first = inside.tuple([values[y] for y in state])
    inner = computation.add_like(loop, (first.instruction,))
    element = x.attributes_as(GetTupleElement).index
    computation.root = inside.get_tuple_element(inside.value(inner), element).instruction
    shape = array_shape(x.shape.element_type, (lanes.count,))
    called = [SubComputation(computation)]
    operands = [lanes.own(y) for y in given]
    return build.emit(Opcode.MAP, operands, Dimensions((0,)), called, shape)
