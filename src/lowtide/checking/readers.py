"""Readers of values within a fusion: only those that a result is made of ever run."""

from __future__ import annotations

from lowtide.ir import Computation, Instruction
from lowtide.ir.kept import kept


def readers(x: Instruction) -> list[Instruction]:
    """Return the users of a value on which the result of its computation depends, in order."""
    needed = kept(x.parent, "checking: needed", lambda: _needed(x.parent))
    return [user for user in x.users if user in needed]


def _needed(computation: Computation) -> set[Instruction]:
    found = {computation.root}
    stack = [computation.root]
    while stack:
        for operand in stack.pop().operands:
            if operand not in found:
                found.add(operand)
                stack.append(operand)
    return found
