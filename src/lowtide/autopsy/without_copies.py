"""A module without the copies that a compiler has put into it."""

from __future__ import annotations

from lowtide.ir import Instruction, Module, Opcode, Schedule
from lowtide.ir.clone import clone_module


def without_copies(module: Module) -> Module:
    """Return a copy of a module in which readers of a `copy` read its operand.

    Copies that change the layout stay. The order is kept; copies that execution needs are missing.
    """
    module = clone_module(module)
    removed: set[Instruction] = set()
    for computation in module.computations.values():
        for instruction in list(computation.instructions.values()):
            if _is_plain_copy(instruction):
                instruction.replace_all_uses_with(instruction.operands[0])
                computation.remove(instruction)
                removed.add(instruction)
    if module.schedule is not None:
        module.schedule = Schedule(
            {
                computation: tuple([x for x in order if x not in removed])
                for computation, order in module.schedule.sequences.items()
            }
        )
    return module


def _is_plain_copy(instruction: Instruction) -> bool:
    if instruction.opcode is not Opcode.COPY:
        return False
    return instruction.shape is instruction.operands[0].shape
