"""Collective operations as runs on several devices need them: who meets, what is exchanged."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective operation, or the question for the number of the device's part.

    `kind` is the opcode of the operation in one step. `operands` are the shapes of what a device
    brings, `results` of what it receives; those that nothing is received for are filled with zeros.
    `groups` has the numbers of the devices that meet, in order of the group: each device is in one.
    `pairs` are the sources and targets of a collective-permute, as places in the group. `reducer`
    is the operation by which values are combined.
    """

    kind: Opcode
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    dimension: int | None = None
    reducer: Opcode | None = None
    pairs: tuple[tuple[int, int], ...] = ()

    def group_of(self, device: int) -> tuple[int, ...]:
        """Return the group that has a device; raises StopIteration where none has."""
        return next(group for group in self.groups if device in group)
