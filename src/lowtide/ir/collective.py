"""Collective operations as runs on several devices need them: who meets, what each one does."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lowtide.ir.shape import Shape
from lowtide.records import dataclass


class Whose(StrEnum):
    """The device, of those that meet, of which a buffer is meant, or the number that is meant."""

    EVERY = "every"
    """A buffer of each device, in order of the group."""
    OWN = "own"
    FIRST = "first"
    """The first device of the group."""
    SOURCE = "source"
    """The device from which the own one is sent something."""
    DEALT = "dealt"
    """The device at place `slot` of the group; the buffer is the one numbered by the own place."""
    PLACE = "place"
    """An s32: the own place in the group times `slot`."""
    PARTITION = "partition"
    REPLICA = "replica"
    """A u32: the number of the own partition or replica."""


NUMBERS: Final = frozenset({Whose.PLACE, Whose.PARTITION, Whose.REPLICA})
"""Numbers, which are in no buffer of a device."""


@dataclass(frozen=True, slots=True)
class CollectiveBuffer:
    """A buffer of a kernel: number `slot` of those that a device has at the collective."""

    whose: Whose
    slot: int = 0


@dataclass(frozen=True, slots=True)
class CollectiveStep:
    """One kernel that a device runs when all have met.

    It is for groups of `size` devices (0: of any), and for devices that are `sent` something or
    nothing (None: either). Where it is `shared`, each device does its part of the units.
    """

    kernel: int
    buffers: tuple[CollectiveBuffer, ...]
    size: int = 0
    sent: bool | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class DeviceCollective:
    """What the devices of a group do together at one instruction.

    `operands` are the shapes of what a device brings, `results` of what it receives; its buffers
    are numbered in that order. `groups` has the numbers of the devices that meet, in order of the
    group: each device is in one, or there are none and each device is by itself. `pairs` are
    sources and targets of a collective-permute, as places in the group.
    """

    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    steps: tuple[CollectiveStep, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()

    def group_of(self, device: int) -> tuple[int, ...]:
        """Return the group that has a device, which may be alone."""
        return next((group for group in self.groups if device in group), (device,))
