"""The values that may take over the place of an operand, asked many times over."""

from __future__ import annotations

from collections.abc import Container
from typing import final

from lowtide.ir import Instruction, Opcode
from lowtide.ops.in_place import Pair, may_share
from lowtide.xla.analysis.hlo_value import HloPosition
from lowtide.xla.assigners.options import Demand


@final
class OperandSharing:
    """What `ops.in_place.may_share` says; it does not change once said, so it is kept."""

    def __init__(self) -> None:
        self._pairs: dict[Instruction, tuple[Pair, ...]] = {}

    def may_take_over(self, taker: Demand, giver: Container[HloPosition]) -> bool:
        """Whether a value may lie over an operand of its instruction that is read there last.

        `giver` are the positions at which the operand's value is. A copy never does.
        """
        instruction = taker.instruction
        if instruction.opcode is Opcode.COPY:
            return False
        pairs = self._pairs.get(instruction)
        if pairs is None:
            pairs = self._pairs[instruction] = may_share(instruction)
        operands = instruction.operands
        return any(
            output == taker.index and HloPosition(operands[operand], index) in giver
            for (operand, index), output in pairs
        )
