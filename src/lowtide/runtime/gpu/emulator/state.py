"""The table of words by which the scheduler and the kernels of an emulated device talk."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

SLOTS: Final = 20
"""Words in which a thread hands values to its warp, and gets some back."""


class StateField(IntEnum):
    """The places in `@gpu_state`, each an i64."""

    THREAD = 0
    BLOCK = 1
    ARGUMENTS = 2
    """The address of the addresses that the kernel takes."""
    FIBER = 3
    SCHEDULER = 4
    """Where the contexts of the running thread and of the scheduler are kept."""
    WAITS_FOR = 5
    """The `Wait` of the thread that stopped last."""
    LANES = 6
    """The address of `SLOTS` words for each thread."""
    LOG = 7
    """The address of two i64 for each access to shared memory."""
    LOGGED = 8
    CAPACITY = 9
    """How many accesses are there, and for how many there is room; more are counted only."""
    PASSED = 10
    """How many barriers the block has passed."""
    WORK = 11
    """The number of the launch among all work in streams."""
    STREAMS = 12
    """The address of the stream of each piece of work, a byte each."""
    CLOCK = 13
    """The address of the last work of each stream that this launch comes after, an i64 each."""
    RANGES = 14
    """The address of three i64 for each piece of memory that the launch may access: its first
    address, the one behind its last, and the address of the words on each of its bytes."""
    RANGE_COUNT = 15
    """How many there are; 0 where accesses are not watched."""
    FAULT = 16
    FAULT_AT = 17
    FAULT_OTHER = 18
    FAULT_ME = 19
    """The first `WatchedFault`, its address, the word of the other access, and that of this one."""
    COPIES = 20
    """The address of a list of copies for each thread; see `copies_text`."""
    SUMS = 21
    """The address of sums of each thread that go to its warpgroup and back."""


class Wait(IntEnum):
    """What a thread waits for: nothing, as it has ended, or other threads."""

    ENDED = 0
    BARRIER = 1
    EXCHANGE = 2
    BFLOAT_PRODUCT = 3
    HALF_PRODUCT = 4
    MATRICES = 5
    TURNED_MATRICES = 6
    WARPGROUP = 7
    SIGNED_PRODUCT = 8
    UNSIGNED_PRODUCT = 9
    SMALL_DOUBLE_PRODUCT = 10
    DOUBLE_PRODUCT = 11


def field(field_: StateField) -> str:
    """Return the address of a word in IR."""
    return f"getelementptr (i64, ptr @gpu_state, i64 {int(field_)})"
