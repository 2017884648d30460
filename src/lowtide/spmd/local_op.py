"""One operation on tiles that is to be written."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir import Instruction, Shape
from lowtide.records import dataclass
from lowtide.spmd.choice import OperationSplit
from lowtide.spmd.rules.rule import OpRule


@dataclass(frozen=True, slots=True)
class LocalOp:
    """One operation to write: the whole one, its rule and split, its operands on this device.

    `shape` is that of the tile of the result, a tuple of tiles where there are several.
    """

    instruction: Instruction
    rule: OpRule
    split: OperationSplit
    operands: Sequence[Instruction]
    shape: Shape

    def axes_of(self, operand: int, dimension: int) -> tuple[int, ...]:
        """Return the axes that split a dimension of an operand."""
        return self.split.operands[operand].axes[dimension]
