"""The record by which the scheduler and the kernels of an emulated device talk."""

from __future__ import annotations

from typing import Final, TypeAlias

from lowtide.native import (
    I32,
    U8,
    Address,
    NativeItems,
    NativeRecord,
    NativeRecords,
    inline,
    shared,
)

SLOTS: Final = 20
"""Words in which a thread hands values to its warp, and gets some back."""

MOST_SUMS: Final = 256
"""Sums that a thread passes to its warpgroup at once, at most."""

MOST_COPIES: Final = 512
"""Copies of a thread that go on at once, at most."""

COPY_WORDS: Final = 3
"""Words of a copy; see `native_copies.CopyRecord`."""

MOST_WARPS: Final = 32
"""Warps of a block, at most."""

READERS: Final = 3
"""Readers of a byte that are known at once."""

Memory: TypeAlias = NativeItems[int]
"""The address of a byte, as kernels have it."""


class LaneWords(NativeRecord):
    """The words of a thread that its warp exchanges."""

    words: NativeItems[I32] = inline(SLOTS)


class ThreadSums(NativeRecord):
    """Sums of a thread, f32, that go to its warpgroup and back."""

    sums: NativeItems[I32] = inline(MOST_SUMS)


class CopyList(NativeRecord):
    """A thread's copies that go on: how many, how many groups were made, and the copies."""

    count: int
    groups: int
    copies: NativeItems[int] = inline(COPY_WORDS * MOST_COPIES)


class LoggedAccess(NativeRecord):
    """An access to shared memory, as `races.Log` has them."""

    address: Address
    what: int


class ByteWords(NativeRecord):
    """Who wrote a byte last, and who has read it since; see `native_watch`."""

    writer: int
    readers: NativeItems[int] = inline(READERS)


class WatchedRange(NativeRecord):
    """Memory that a launch may access; without words, nobody notes who does."""

    first: Address
    end: Address
    bytes: NativeRecords[ByteWords]


class ConstantRange(NativeRecord):
    """A constant of a kernel, from its first byte to behind its last; the last row has none."""

    first: Address
    end: Address


class EmulatedState(NativeRecord):
    """What kernels and their scheduler tell each other."""

    thread: int
    block: int
    arguments: Memory
    """The addresses that the kernel takes."""
    fiber: Address
    scheduler: Address
    """Where the contexts of the running thread and of the scheduler are kept."""
    waits_for: int
    """The `Wait` of the thread that stopped last."""
    lanes: NativeRecords[LaneWords]
    """Of each thread."""
    log: NativeRecords[LoggedAccess]
    logged: int
    capacity: int
    """How many accesses are there, and for how many there is room; more are counted only."""
    passed: int
    """How often threads of the block have waited for each other, all or those of warps."""
    barrier: int
    """What `passed` was after the last time that all of them did."""
    in_step: NativeItems[int] = inline(MOST_WARPS)
    """And after the last time that those of each warp did."""
    work: int
    """The number of the launch among all work in streams."""
    streams: NativeItems[U8]
    """The stream of each piece of work."""
    clock: NativeItems[int]
    """The last work of each stream that this launch comes after."""
    ranges: NativeRecords[WatchedRange]
    range_count: int
    """How many there are; 0 where accesses are not watched."""
    constants: NativeRecords[ConstantRange]
    fault: int
    fault_at: Address
    fault_other: int
    fault_me: int
    """The first `WatchedFault`, its address, the word of the other access, and that of this one."""
    copies: NativeRecords[CopyList]
    """Of each thread."""
    sums: NativeRecords[ThreadSums]
    """Of each thread."""


STATE: Final = shared(EmulatedState)
