"""Roles of instructions in the partitioner: an operation to split, a loop, a mark of users."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ops.effects import has_side_effect
from lowtide.spmd.annotations import (
    BARRIER_TARGETS,
    CONSTRAINT_TARGETS,
    GROUP_TARGET,
    INSPECTION_TARGET,
)
from lowtide.spmd.manual import is_entrance, is_exit


class Role(StrEnum):
    """What is decided of an instruction, and what is written for it.

    A mark has its operands as results, or has none; an inspection asks about its operand. A border
    leads into a manual region or out of one, whose collectives are written as they are. What talks
    to a host in other ways than by calls is not partitioned.
    """

    PARAMETER = "parameter"
    MARK = "mark"
    ELEMENT = "element"
    GROUP = "group"
    INSPECTION = "inspection"
    CONSTANT = "constant"
    BORDER = "border"
    EFFECT = "effect"
    COLLECTIVE = "collective"
    LOOP = "loop"
    BRANCHES = "branches"
    DRAWN = "drawn"
    HOST = "host"
    OPERATION = "operation"


_BY_OPCODE: Final = {
    Opcode.ALL_GATHER: Role.COLLECTIVE,
    Opcode.ALL_REDUCE: Role.COLLECTIVE,
    Opcode.ALL_TO_ALL: Role.COLLECTIVE,
    Opcode.COLLECTIVE_BROADCAST: Role.COLLECTIVE,
    Opcode.COLLECTIVE_PERMUTE: Role.COLLECTIVE,
    Opcode.REDUCE_SCATTER: Role.COLLECTIVE,
    Opcode.RAGGED_ALL_TO_ALL: Role.COLLECTIVE,
    Opcode.RNG: Role.DRAWN,
    Opcode.RNG_GET_AND_UPDATE_STATE: Role.DRAWN,
    Opcode.CONDITIONAL: Role.BRANCHES,
    Opcode.CONSTANT: Role.CONSTANT,
    Opcode.GET_TUPLE_ELEMENT: Role.ELEMENT,
    Opcode.OPTIMIZATION_BARRIER: Role.MARK,
    Opcode.PARAMETER: Role.PARAMETER,
    Opcode.TUPLE: Role.MARK,
    Opcode.WHILE: Role.LOOP,
}

_BY_TARGET: Final = {
    **dict.fromkeys((*CONSTRAINT_TARGETS, *BARRIER_TARGETS), Role.MARK),
    GROUP_TARGET: Role.GROUP,
    INSPECTION_TARGET: Role.INSPECTION,
}


def role_of(x: Instruction) -> Role:
    """Return what an instruction of a module without calls is."""
    if x.opcode is not Opcode.CUSTOM_CALL:
        role = _BY_OPCODE.get(x.opcode)
        return role or (Role.HOST if has_side_effect(x) else Role.OPERATION)
    role = _BY_TARGET.get(x.attributes_as(CustomCall).target)
    if role is not None:
        return role
    if is_entrance(x) or is_exit(x):
        return Role.BORDER
    return Role.EFFECT if has_side_effect(x) else Role.OPERATION
