"""The watch on global memory as native functions: each access of a kernel goes through one.

Each byte of an allocation has words of 64 bits: who wrote it last, and who has read it since, of up
to three pieces of work that do not come after each other. A word is the number of the work in
streams (20 bits), the block (18), how often threads of the block had waited for others (14), the
thread (10), and what other readers of the same work there were: some of other blocks, some of other
threads without a wait between (a bit each). An access races with an earlier one if one of them
writes, and they are of different blocks of one launch, or of different threads of a block that did
not wait for each other between, at a barrier or within their warp, or of two pieces of work neither
of which waits for the other.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from lowtide.codegen.emulated.products import WARP
from lowtide.emulator.state import READERS, STATE, ByteWords, Memory, WatchedRange
from lowtide.native import (
    Address,
    NativeItems,
    NativeRecord,
    address_of,
    array_at,
    inline,
    native,
    on_stack,
    shared,
    the,
)


class WatchedFault(IntEnum):
    """What an access did that a device leaves undefined."""

    NONE = 0
    NOWHERE = 1
    MISALIGNED = 2
    RACE = 3


WORK_SHIFT, BLOCK_SHIFT, PASSED_SHIFT, THREAD_SHIFT = 44, 26, 12, 2
"""Where the parts of a word begin."""

WORDS: Final = 1 + READERS
"""Words of a byte: its last writer, and readers."""

OTHER_BLOCKS, OTHER_THREADS = 2, 1
"""Of a reader's word: others of the same work have read the byte, too."""

_BLOCKS, _WAITS = 1 << 18, 1 << 14
_THREADS: Final = (1 << 10) - 1
_NOWHERE_ALIGNMENT: Final = 64

MOST_WORK: Final = 1 << 20
"""Pieces of work that have numbers of their own."""

STACK_REACH: Final = 1 << 20
"""How far from the frame of a function a thread's own variables lie, in bytes."""


class Nowhere(NativeRecord):
    """256 bytes, and some to align them, that are accessed in place of what may not be."""

    memory: NativeItems[int] = inline((256 + _NOWHERE_ALIGNMENT) // 8)


class StackMark(NativeRecord):
    """What lies on the stack to tell where that is."""

    word: int


NOWHERE: Final = shared(Nowhere)


@native
def gpu_me() -> int:
    """Return the word of an access by the running thread."""
    state = the(STATE)
    block = (state.block & (_BLOCKS - 1)) << BLOCK_SHIFT
    passed = (state.passed & (_WAITS - 1)) << PASSED_SHIFT
    return state.work << WORK_SHIFT | block | passed | state.thread << THREAD_SHIFT


@native
def gpu_nowhere() -> Memory:
    """Return memory that any access may have."""
    first = address_of(the(NOWHERE)) + _NOWHERE_ALIGNMENT - 1
    return array_at(int, first & -_NOWHERE_ALIGNMENT)


@native
def gpu_fault(kind: int, address: Address, other: int) -> None:
    """Note a fault, if it is the first one."""
    state = the(STATE)
    if not state.fault:
        state.fault = kind
        state.fault_at = address
        state.fault_other = other
        state.fault_me = gpu_me()


@native
def gpu_is_passed(other: int, me: int) -> bool:
    """Return whether a thread has waited for another one of its block since an access of that."""
    state = the(STATE)
    since = state.barrier
    if not (other ^ me) >> THREAD_SHIFT & _THREADS & -WARP:
        in_step = state.in_step[state.thread // WARP]
        if in_step > since:  # Not by `max`: kernels may declare its intrinsic, too.
            since = in_step
    return state.passed - (other >> PASSED_SHIFT) & (_WAITS - 1) > state.passed - since


@native
def gpu_conflict(other: int, me: int) -> bool:
    """Return whether an access races with an earlier one if one of them writes."""
    if not other:
        return False
    change = other ^ me
    if change >> WORK_SHIFT:
        state = the(STATE)
        work = other >> WORK_SHIFT & (MOST_WORK - 1)
        return state.clock[state.streams[work]] < work
    if change >> BLOCK_SHIFT or other & OTHER_BLOCKS:
        return True
    if gpu_is_passed(other, me):
        return False
    return change >> THREAD_SHIFT & _THREADS != 0 or other & OTHER_THREADS != 0


@native
def gpu_range(address: Address, end: Address) -> WatchedRange | None:
    """Return the memory that bytes lie in, of what the launch may access."""
    state = the(STATE)
    for number in range(state.range_count):
        found = state.ranges[number]
        if found.first <= address and end <= found.end:
            return found
    return None


@native
def gpu_is_own(address: Address, end: Address) -> bool:
    """Return whether bytes are variables of the thread, or lie in a constant of the kernel."""
    if -STACK_REACH <= address - address_of(on_stack(StackMark)) < STACK_REACH:
        return True
    constants, number = the(STATE).constants, 0
    while constants[number].first:
        if constants[number].first <= address and end <= constants[number].end:
            return True
        number += 1
    return False


@native
def gpu_global(place: Memory, nbytes: int, align: int, is_write: int) -> Memory:
    """Note an access; return where it is to be made: there, or nowhere."""
    address = address_of(place)
    if not the(STATE).range_count:
        return place
    watched = gpu_range(address, address + nbytes)
    if watched is None:
        if gpu_is_own(address, address + nbytes):
            return place
        gpu_fault(WatchedFault.NOWHERE, address, nbytes)
        return gpu_nowhere()
    if address & (align - 1):
        gpu_fault(WatchedFault.MISALIGNED, address, align)
        return gpu_nowhere()
    if watched.bytes:
        me = gpu_me()
        for byte in range(nbytes):
            gpu_mark(watched.bytes[address - watched.first + byte], address, me, is_write)
    return place


@native
def gpu_mark(byte: ByteWords, address: Address, me: int, is_write: int) -> None:
    """Note an access to a byte, and a fault where it races with an earlier one."""
    if gpu_conflict(byte.writer, me):
        gpu_fault(WatchedFault.RACE, address, byte.writer)
    if not is_write:
        gpu_mark_reader(byte, me)
        return
    for number in range(READERS):
        if gpu_conflict(byte.readers[number], me):
            gpu_fault(WatchedFault.RACE, address, byte.readers[number])
        byte.readers[number] = 0
    byte.writer = me


@native
def gpu_mark_reader(byte: ByteWords, me: int) -> None:
    """Note who reads a byte: with others of the work, else in place of one that came before."""
    for number in range(READERS):
        known = byte.readers[number]
        if known >> WORK_SHIFT == me >> WORK_SHIFT:
            change = known ^ me
            blocks = OTHER_BLOCKS if change >> BLOCK_SHIFT else known & OTHER_BLOCKS
            threads = OTHER_THREADS if change >> THREAD_SHIFT & _THREADS else known & OTHER_THREADS
            byte.readers[number] = me | blocks | (0 if gpu_is_passed(known, me) else threads)
            return
    for number in range(READERS):
        if not gpu_conflict(byte.readers[number], me):
            byte.readers[number] = me
            return
    byte.readers[0] = me


@native
def gpu_lanes(
    place: Memory, nbytes: int, lanes: int, mask: int, align: int, is_write: int
) -> Memory:
    """Note accesses to elements one behind the other, those of a mask; return where to make them.

    After any fault that is nowhere.
    """
    for lane in range(lanes):
        if mask >> lane & 1:
            element = array_at(int, address_of(place) + lane * nbytes)
            gpu_global(element, nbytes, align, is_write)
    return gpu_nowhere() if the(STATE).fault else place
