"""One instruction while it is read: its message, and what is known of it so far."""

from __future__ import annotations

from typing import Any

from lowtide.frontend.hlo_proto.fields import FieldError, naturals
from lowtide.frontend.hlo_proto.shapes import ShapeReader
from lowtide.frontend.hlo_proto.shardings import ShardingReader
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """What attributes are read from."""

    proto: Any
    opcode: Opcode
    shape: Shape
    operands: tuple[Instruction, ...]
    called: tuple[Computation, ...]
    shapes: ShapeReader
    shardings: ShardingReader

    def required(self, field: str) -> Any:
        """Return the message in a field, which must be there; else raise FieldError."""
        if not self.proto.HasField(field):
            raise FieldError(f"{self.opcode.value} needs this field", field)
        return getattr(self.proto, field)


def read_lists(message: Any, path: str, *fields: str) -> list[tuple[int, ...]]:
    """Return several lists of numbers of at least 0."""
    return [naturals(getattr(message, field), f"{path}.{field}") for field in fields]
