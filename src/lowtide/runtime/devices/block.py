"""Memory of a rendezvous and of its collectives, which machine code and Python share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.native import (
    I32,
    Address,
    Atomic,
    NativeItems,
    NativeRecord,
    at,
    behind,
    inline,
    native,
    size_of,
)

COME, DONE = 1, 2
"""How far a device is let go: all have come, or all have done what they share."""

BY_PYTHON, BY_TIME, BY_DEADLOCK = 1, 2, 3
"""Why a rendezvous failed: something else did, nobody came in time, or all wait for one another."""

NOBODY: Final = -1
"""In place of a device: what follows is an address."""

Kernel: TypeAlias = Callable[[NativeItems[Address], Address, int, int, int], None]
"""A kernel, given its buffers, its scratch, the units that it does, and the thread."""


class RendezvousRecord(NativeRecord):
    """A rendezvous, behind which its participants lie: 128 bytes each, so that no two share a line.

    It has its lock, why it failed (0: not), how many devices there are, the nanoseconds that one
    waits for others, how many devices wait for others to come, and how many have ended.
    """

    lock: Atomic[I32]
    failed: Atomic[int]
    count: int
    patience: int
    waiting: int
    ended: int
    unused: NativeItems[int] = inline(10)


class ParticipantRecord(NativeRecord):
    """A device that takes part.

    It has how far those that it met have let the device go, its buffers, the collective at which it
    waits for others to come, how many devices of the group have not done their part (that of the
    first one counts), the rendezvous, the number of the device, and the collective at which it
    waited when the rendezvous failed.
    """

    released: Atomic[I32]
    workspace: NativeItems[Address]
    waits_at: CollectiveRecord | None
    pending: Atomic[I32]
    rendezvous: RendezvousRecord
    number: int
    waited_at: CollectiveRecord | None
    unused: NativeItems[int] = inline(9)


class CollectiveRecord(NativeRecord):
    """A collective, behind which lies what each device has to do.

    It has the word of the workspace from which on there is room for the buffers of a kernel, the
    word with the scratch, and whether each device does its part (0: the last one to come does all).
    """

    area: int
    scratch: int
    divided: int


class DeviceWork(NativeRecord):
    """What a device has to do: its group, a number of devices and these; and its runs."""

    group: NativeItems[int]
    runs: RunsRecord


class RunsRecord(NativeRecord):
    """How many runs of kernels lie behind it."""

    count: int


class KernelRun(NativeRecord):
    """A run of a kernel: the first of its units, the end, and its buffers, which lie behind it."""

    function: Kernel
    begin: int
    end: int
    count: int


class BufferPick(NativeRecord):
    """A buffer: a device and a word of its workspace; or NOBODY and the address."""

    device: int
    slot: int


@native
def participant_of(rendezvous: RendezvousRecord, number: int) -> ParticipantRecord:
    """Return a device by its number."""
    return at(ParticipantRecord, behind(rendezvous) + number * size_of(ParticipantRecord))


@native
def work_of(collective: CollectiveRecord, number: int) -> DeviceWork:
    """Return what a device has to do in a collective."""
    return at(DeviceWork, behind(collective) + number * size_of(DeviceWork))


@native
def pick_of(run: KernelRun, number: int) -> BufferPick:
    """Return a buffer of a run; the one behind the last is the next run."""
    return at(BufferPick, behind(run) + number * size_of(BufferPick))
