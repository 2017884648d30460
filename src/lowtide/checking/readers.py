"""Readers of values within a fusion: only those that a result is made of ever run."""

from __future__ import annotations

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.kept import kept


def readers(x: Instruction) -> list[Instruction]:
    """Return the users of a value on which the result of its computation depends, in order."""
    needed = kept(x.parent, "checking: needed", lambda: _needed(x.parent))
    return [user for user in x.users if user in needed]


def _needed(computation: Computation) -> set[Instruction]:
    found = {computation.root}
    stack = [computation.root]
    while stack:
        for operand in _run_for(stack.pop()):
            if operand not in found:
                found.add(operand)
                stack.append(operand)
    return found


def _run_for(x: Instruction) -> tuple[Instruction, ...]:
    """The operands that run for a value: of a tuple that is made there, the element that it is."""
    if x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0].opcode is Opcode.TUPLE:
        return (x.operands[0].operands[x.attributes_as(GetTupleElement).index],)
    return x.operands
