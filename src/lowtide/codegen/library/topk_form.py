"""The form of a top-k: its rows, and the integers in whose order elements are."""

from __future__ import annotations

from math import prod

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import TopK
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False)
class TopKForm:
    """A top-k of rows of `size` elements, the last dimension of the operand."""

    instruction: Instruction

    @property
    def numbers(self) -> TopK:
        """How many elements, and which: the greatest, as many as the result has, of a call."""
        if self.instruction.opcode is Opcode.TOPK:
            return self.instruction.attributes_as(TopK)
        return TopK(self.instruction.shape.tuple_shapes[0].dimensions[-1])

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Those of the operand."""
        return self.instruction.operands[0].shape.dimensions

    @property
    def size(self) -> int:
        """The elements of a row."""
        return self.dimensions[-1]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return prod(self.dimensions[:-1])

    @property
    def key_bits(self) -> int:
        """The bits of the integers in whose order elements are."""
        type_ = self.instruction.operands[0].shape.element_type
        return max(32, type_.bits) if type_.is_floating else max(8, type_.bits)
