"""Machine code for the pages of large results, as in `runtime.cpu.handover`.

A result gets a stretch of memory, its home. The program writes there, or in the arena, from where
the pages then move into the home. The hole that they leave is filled before the next run, with the
pages of a home that waits: none is ever cleared again.
"""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    ACQUIRE,
    I32,
    RELEASE,
    Address,
    address_of,
    copy_bytes,
    external,
    native,
    variadic,
)
from lowtide.pjrt.blocks import HOMES, BufferStorage, Queue, ResultRecord
from lowtide.pjrt.native_idle import account, find_home, madvise, munmap
from lowtide.runtime.cpu.pages import (
    HUGE_PAGE,
    KEEP_PLACE,
    MAY_BE_HUGE,
    PRIVATE,
    READ_WRITE,
    UNRESERVED,
)

NO_MEMORY: Final = -1


@external
def mmap(start: Address, nbytes: int, access: I32, flags: I32, file: I32, at: int) -> Address:
    """Return new pages, or -1."""
    raise NotImplementedError


@variadic(4)
def mremap(start: Address, old: int, new: int, flags: I32, target: Address) -> Address:
    """Move pages."""
    raise NotImplementedError


@native
def move_pages(source: Address, nbytes: int, target: Address) -> Address:
    """Have pages lie elsewhere; the place that they leave stays mapped. It is -1 if they do not."""
    return mremap(source, nbytes, nbytes, KEEP_PLACE, target)


@native
def refill(queue: Queue, record: ResultRecord, begin: Address) -> None:
    """Move pages that wait to where a result will lie in an arena, ahead of a run."""
    home = find_home(queue, record.inner_bytes, 0)
    if home is not None:
        hole = begin + (record.inner - record.data)
        pages, inner = home.pages, home.inner
        move_pages(address_of(home) + inner, record.inner_bytes, hole)
        keep_hollow(record, address_of(home), pages, inner)


@native
def keep_hollow(record: ResultRecord, home: Address, pages: int, inner: int) -> None:
    """Have addresses whose pages moved away wait for the next result of this place.

    They go back to the system if they do not suit it, or there is no room.
    """
    remainder = home & (HUGE_PAGE - 1) if record.nbytes >= HUGE_PAGE else 0
    if remainder == record.remainder and pages == record.pages and inner == record.inner:
        for number in range(HOMES):
            if not record.hollow[number].compare_exchange(0, home, RELEASE):
                return
    munmap(home, pages)


@native
def new_pages(nbytes: int, remainder: int, flags: int) -> Address:
    """Return new pages, or -1; from a huge page on they begin at `remainder` modulo one."""
    if nbytes < HUGE_PAGE:
        return mmap(0, nbytes, READ_WRITE, flags, -1, 0)
    start = mmap(0, nbytes + HUGE_PAGE, READ_WRITE, flags, -1, 0)
    if start == NO_MEMORY:
        return start
    ahead = (remainder - start) & (HUGE_PAGE - 1)
    if ahead:
        munmap(start, ahead)
    munmap(start + ahead + nbytes, HUGE_PAGE - ahead)
    return start + ahead


@native
def settle_in(record: ResultRecord, storage: BufferStorage) -> Address:
    """Give a storage a home for a result that is written there; return where it begins.

    It is one that waits, or a new one; 0 where there is no memory.
    """
    waiting = find_home(storage.queue, record.inner_bytes, record.pages)
    if waiting is not None:
        home = address_of(waiting)
        storage.pages, storage.inner = waiting.pages, waiting.inner
        storage.inner_bytes = waiting.inner_bytes
    else:
        home = new_pages(record.pages, 0, PRIVATE)
        if home == NO_MEMORY:
            return 0
        if record.pages >= HUGE_PAGE:
            madvise(home, record.pages, MAY_BE_HUGE)
        storage.pages, storage.inner, storage.inner_bytes = record.pages, 0, record.inner_bytes
    storage.home, storage.data = home, home
    account(storage.queue, record.nbytes)
    return home


@native
def hollow_home(record: ResultRecord) -> Address:
    """Return addresses for a result: those that wait, or new ones; -1 where there are none."""
    for number in range(HOMES):
        found = record.hollow[number].exchange(0, ACQUIRE)
        if found:
            return found
    return new_pages(record.pages, record.remainder, UNRESERVED)


@native
def take_over(record: ResultRecord, storage: BufferStorage, begin: Address) -> bool:
    """Have the result at `begin` in an arena be the storage's; whether there was memory for it."""
    home = hollow_home(record)
    if home == NO_MEMORY:
        return False
    inner, inner_bytes = record.inner, record.inner_bytes
    start = begin - record.data
    if move_pages(start + inner, inner_bytes, home + inner) == NO_MEMORY:
        munmap(home, record.pages)
        return False
    data = home + record.data
    copy_bytes(data, begin, inner - record.data)
    end = inner + inner_bytes
    copy_bytes(home + end, start + end, record.data + record.nbytes - end)
    storage.home = home
    storage.pages, storage.inner, storage.inner_bytes = record.pages, inner, inner_bytes
    storage.data = data
    account(storage.queue, record.nbytes)
    return True
