"""Arrays that their readers could compute again from next to nothing."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ops.table import TABLE
from lowtide.report.peak import Peak

_FREE: Final = frozenset(
    {
        Opcode.BITCAST,
        Opcode.BROADCAST,
        Opcode.CONSTANT,
        Opcode.IOTA,
        Opcode.PARAMETER,
        Opcode.RESHAPE,
        Opcode.TRANSPOSE,
    }
)
_LEAST_RATIO: Final = 8


def repeatable_bytes(module: Module, peak: Peak) -> int:
    """Return the bytes of temporaries at the peak that are cheap to repeat: broadcasts, iotas.

    Such an array has at least eight times the bytes of what it is computed from, element by
    element.
    """
    instructions = {
        x.name: x for c in module.computations.values() for x in c.instructions.values()
    }
    temporaries = [x for x in peak.buffers if x.kind == "temporary"]
    return sum([x.nbytes for x in temporaries if _is_repeatable(instructions[x.instruction])])


def _is_repeatable(instruction: Instruction) -> bool:
    inside = [instruction]
    if instruction.opcode is Opcode.FUSION:
        inside = list(instruction.called_computations[0].instructions.values())
    elif instruction.opcode not in (Opcode.BROADCAST, Opcode.IOTA):
        return False
    if not all(x.opcode in _FREE or TABLE[x.opcode].elementwise for x in inside):
        return False
    read = sum([operand.shape.leaf_nbytes for operand in instruction.operands])
    return read * _LEAST_RATIO <= instruction.shape.leaf_nbytes
