"""One operation on tiles that is to be written."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir import Instruction, Shape
from lowtide.ir.attributes import Attributes
from lowtide.ops.factors.record import OpFactors
from lowtide.ops.resizing import attributes_at
from lowtide.records import dataclass
from lowtide.spmd.choice import OperationSplit


@dataclass(frozen=True, slots=True)
class LocalOp:
    """One operation to write: the whole one, its factors and split, its operands on this device.

    `shape` is that of the tile of the result, a tuple of tiles where there are several.
    """

    instruction: Instruction
    rule: OpFactors
    split: OperationSplit
    operands: Sequence[Instruction]
    shape: Shape

    def attributes(self) -> Attributes:
        """Return the attributes at the sizes of the tiles."""
        result = self.shape.tuple_shapes[0] if self.shape.is_tuple else self.shape
        sizes = [y.shape.dimensions for y in self.operands]
        return attributes_at(self.instruction, sizes, result.dimensions)

    def axes_of(self, operand: int, dimension: int) -> tuple[int, ...]:
        """Return the axes that split a dimension of an operand."""
        return self.split.operands[operand].axes[dimension]
