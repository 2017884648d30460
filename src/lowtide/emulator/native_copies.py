"""Copies to shared memory that go on (`cp.async`) as native functions.

A copy is kept in a list of its thread, and made once the thread waits for its group, as late as it
may be. It counts as a write when it begins, at each barrier that it goes on over, and when it ends.
"""

from __future__ import annotations

from lowtide.emulator.native_threads import gpu_note
from lowtide.emulator.native_watch import gpu_lanes
from lowtide.emulator.state import MOST_COPIES, STATE, CopyList, Memory
from lowtide.native import I32, NativeRecord, address_of, at, copy_bytes, native, size_of, the


class CopyRecord(NativeRecord):
    """A copy: where to, where from, and 32 times the number of its group with its bytes."""

    target: Memory
    source: Memory
    what: int


@native
def gpu_copies() -> CopyList:
    """Return the copies of the thread that go on."""
    state = the(STATE)
    return state.copies[state.thread]


@native
def gpu_copy_at(copies: CopyList, number: int) -> CopyRecord:
    """Return a copy of a list."""
    return at(CopyRecord, address_of(copies.copies) + number * size_of(CopyRecord))


@native
def gpu_copy(target: Memory, source: Memory) -> None:
    """Begin a copy of 16 bytes."""
    gpu_copy_part(target, source, 16)


@native
def gpu_copy_part(target: Memory, source: Memory, part: I32) -> None:
    """Begin a copy of the first bytes of 16, behind which zeros are written."""
    gpu_note(target, 16, 1, 16)
    seen = gpu_lanes(source, part, 1, int(part != 0), 16, 0)
    copies = gpu_copies()
    if copies.count < MOST_COPIES:
        copy = gpu_copy_at(copies, copies.count)
        copy.target = target
        copy.source = seen
        copy.what = copies.groups * 32 | part
    copies.count += 1


@native
def gpu_copies_commit() -> None:
    """Make a group of the copies since the last one."""
    gpu_copies().groups += 1


@native
def gpu_copies_wait(pending: I32) -> None:
    """Make the copies of all groups but the last ones, so many."""
    copies = gpu_copies()
    ended = copies.groups - pending
    kept = 0
    for number in range(copies.count):
        copy = gpu_copy_at(copies, number)
        target, source, what = copy.target, copy.source, copy.what
        if what >> 5 < ended:
            gpu_note(target, 16, 1, 16)
            target[0] = 0
            target[1] = 0
            copy_bytes(address_of(target), address_of(source), what & 31)
        else:
            later = gpu_copy_at(copies, kept)
            later.target = target
            later.source = source
            later.what = what
            kept += 1
    copies.count = kept
