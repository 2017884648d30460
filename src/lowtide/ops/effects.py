"""Side effects: which instructions must run even if nobody reads their result."""

from __future__ import annotations

from typing import Final

from lowtide.ir.attributes import Collective, CollectivePermute, CustomCall
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ops.table import TABLE


def has_side_effect(instruction: Instruction) -> bool:
    """Whether an instruction, or anything that it calls, does more than compute its result."""
    if instruction.opcode in _MAY_HAVE_EFFECT and _effect_of_its_own(instruction):
        return True
    if not instruction.called_computations:
        return False
    seen: set[Computation] = set(instruction.called_computations)
    stack = list(instruction.called_computations)
    while stack:
        for inner in stack.pop().instructions.values():
            if inner.opcode in _MAY_HAVE_EFFECT and _effect_of_its_own(inner):
                return True
            if inner.called_computations:
                fresh = [callee for callee in inner.called_computations if callee not in seen]
                seen.update(fresh)
                stack.extend(fresh)
    return False


_MAY_HAVE_EFFECT: Final = frozenset(
    {
        opcode
        for opcode, definition in TABLE.items()
        if definition.has_side_effect
        or issubclass(definition.attributes, (CustomCall, Collective, CollectivePermute))
    }
)


def _effect_of_its_own(instruction: Instruction) -> bool:
    """Whether one of the operations that may have an effect has one."""
    if TABLE[instruction.opcode].has_side_effect:
        return True
    attributes = instruction.attributes
    if isinstance(attributes, CustomCall):
        return attributes.has_side_effect
    if isinstance(attributes, (Collective, CollectivePermute)):
        # Without partitions, other programs may take part in what has a channel.
        alone = instruction.parent.module.num_partitions == 1
        return attributes.channel_id is not None and alone
    return False
