"""HloValue: one demand for memory, as XLA's dataflow analysis names it."""

from __future__ import annotations

from lowtide.ir import Instruction, Shape, ShapeIndex
from lowtide.ir.shape import index_text
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class HloPosition:
    """The element `index` of the result of `instruction`; `()` is the whole result."""

    instruction: Instruction
    index: ShapeIndex = ()

    @property
    def shape(self) -> Shape:
        """The shape of that element."""
        return self.instruction.shape.at(self.index)

    def __str__(self) -> str:
        return f"{self.instruction.name} {index_text(self.index)}"


@dataclass(frozen=True, slots=True)
class Use:
    """Operand `operand_number` of `instruction`, whose element `operand_index` is used."""

    instruction: Instruction
    operand_number: int
    operand_index: ShapeIndex = ()

    @property
    def position(self) -> HloPosition:
        """The position in the result of the operand."""
        return HloPosition(self.instruction.operands[self.operand_number], self.operand_index)

    def __str__(self) -> str:
        index = index_text(self.operand_index)
        return f"{self.instruction.name}, operand {self.operand_number} {index}"


@dataclass(frozen=True, eq=False, slots=True)
class HloValue:
    """What one instruction defines at one index: an array, a token, or the table of a tuple.

    `number` is the value's place in `HloDataflow.values`. `positions` are all places in the module
    where it may be, the defining one first; `uses` the operands that read it, in order of
    positions. A phi stands for one of several values: the state or result of a loop, the result
    of a conditional. `colour` is the memory space of its layout, 0 for tuples. `live_out` says that
    it is part of the result of the entry. Values compare by identity.
    """

    number: int
    defining: HloPosition
    is_phi: bool
    positions: tuple[HloPosition, ...]
    uses: tuple[Use, ...]
    colour: int
    live_out: bool

    @property
    def instruction(self) -> Instruction:
        """The instruction that defines the value."""
        return self.defining.instruction

    @property
    def index(self) -> ShapeIndex:
        """The element of the instruction's result that the value is."""
        return self.defining.index

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.defining.shape

    @property
    def nbytes(self) -> int:
        """Bytes of an array; 8 per element of a tuple, for its table; 0 of a token."""
        return self.shape.nbytes

    @property
    def label(self) -> str:
        """The instruction's name, and the index where its result is a tuple."""
        instruction, index = self.instruction, self.index
        return f"{instruction.name}{index_text(index) if instruction.shape.is_tuple else ''}"

    def __str__(self) -> str:
        phi = " (phi)" if self.is_phi else ""
        return f"<{self.number} {self.label}{phi} @{self.colour}>"

    def __repr__(self) -> str:
        return f"<HloValue {self.number} {self.label}>"
