"""Barriers of several values as barriers of one each, through which a dimension leads."""

from __future__ import annotations

from lowtide.ir import Instruction, Module, Opcode
from lowtide.passes.editing import element_index, make, remove_with_operands


def take_barriers_apart(module: Module) -> int:
    """Give each value of a barrier a barrier of its own; return how many were taken apart.

    What is computed again behind the barrier still is not found to be what was computed before it.
    Barriers with control edges, and those read as a whole, stay.
    """
    found = [
        x
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode is Opcode.OPTIMIZATION_BARRIER and _can_be_taken_apart(x)
    ]
    for barrier in found:
        _take_apart(barrier)
    return len(found)


def _can_be_taken_apart(x: Instruction) -> bool:
    if x.operands[0].opcode is not Opcode.TUPLE or x.is_root or x.has_control_edges:
        return False
    return all(y.opcode is Opcode.GET_TUPLE_ELEMENT for y in x.users)


def _take_apart(barrier: Instruction) -> None:
    values = barrier.operands[0].operands
    made: dict[int, Instruction] = {}
    for user in list(barrier.users):
        index = element_index(user)
        if index not in made:
            value = (values[index],)
            shape = values[index].shape
            made[index] = make(barrier.parent, barrier.opcode, shape, value, barrier)
        user.replace_all_uses_with(made[index])
        barrier.parent.remove(user)
    remove_with_operands(barrier)
