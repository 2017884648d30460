"""Results that may lie over an operand that is read in the very same step.

The question is about one kernel: may it store results into the bytes from which it still reads the
operand? It may where it is one that changes its operand, and where each element is read, for the
last time, no later than it is overwritten.
"""

from __future__ import annotations

from lowtide.checking.fused_overwriting import fusion_may_overwrite
from lowtide.checking.in_place import in_place_pairs
from lowtide.checking.storage_order import same_places
from lowtide.ir import Instruction, Opcode, ShapeIndex
from lowtide.ops.table import TABLE


def may_overwrite(
    instruction: Instruction, operand: int, index: ShapeIndex, output: ShapeIndex
) -> bool:
    """Whether result element `output` may lie exactly over element `index` of an operand.

    Every operand that lies there has to be asked for by itself.
    """
    if (operand, index, output) in in_place_pairs(instruction):
        return True
    opcode = instruction.opcode
    if opcode is Opcode.FUSION:
        return fusion_may_overwrite(instruction, operand, index, output)
    if index:
        return False
    if opcode is Opcode.SORT:
        wanted = (operand,) if instruction.shape.is_tuple else ()
    else:
        elementwise = TABLE[opcode].elementwise
        if not elementwise and (opcode, operand) != (Opcode.TRIANGULAR_SOLVE, 1):
            return False
        wanted = ()
    source = instruction.operands[operand].shape
    return output == wanted and same_places(source, instruction.shape.at(output))
