"""Collective operations as ranks run them: who takes part, and what becomes of the arrays."""

from __future__ import annotations

from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Trade:
    """A collective operation of a program, or the question for the number of the device.

    `name` is that of its instruction, and `place` says where that comes from. `kind` is the opcode
    of the operation in one step. `operands` are the shapes of what a rank brings, `results` of what
    it receives. `groups` has the numbers of the devices that meet, in order of the group: each
    device is in one. `pairs` are sources and targets of a collective-permute, as places in the
    group. `reducer` is the operation by which values are combined.
    """

    name: str
    place: str
    kind: Opcode
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] = ()
    dimension: int | None = None
    reducer: Opcode | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.kind.value} (%{self.name})"

    def group_of(self, device: int) -> tuple[int, ...]:
        """Return the group that has a device, which may be alone."""
        return next((group for group in self.groups if device in group), (device,))
