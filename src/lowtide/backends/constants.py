"""The constants of a program as they lie in memory."""

from __future__ import annotations

import numpy as np

from lowtide.compiler import ModulePlan
from lowtide.ir import Instruction
from lowtide.ir.attributes import Constant
from lowtide.ir.buffer import AllocationKind
from lowtide.runtime.cpu.program import Bytes


def constant_bytes(plan: ModulePlan) -> tuple[tuple[int, Bytes], ...]:
    """Return of each allocation that is a constant its index and its bytes."""
    found = [
        (x.index, _bytes(x.constant))
        for x in plan.assignment.allocations
        if x.kind is AllocationKind.CONSTANT and x.constant is not None
    ]
    return tuple(found)


def _bytes(instruction: Instruction) -> Bytes:
    """The bytes of a constant as they lie in memory."""
    array = instruction.attributes_as(Constant).literal.array
    order = instruction.shape.physical_order
    return np.ascontiguousarray(array.transpose(order)).reshape(-1).view(np.uint8)
