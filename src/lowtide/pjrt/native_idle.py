"""Machine code for memory that no call uses: it waits for the next one, or goes to the system.

What waits is the pages of results that are gone, which never come to more than is in use and
`LEAST_KEPT` bytes, and those of the arena. They go where a device would otherwise have more
resident than it ever used at once, and where no call comes for a while.
"""

from __future__ import annotations

from typing import Final

from lowtide.llvm.file_pages import NOT_NEEDED
from lowtide.native import (
    ACQUIRE,
    I32,
    RELAXED,
    RELEASE,
    SEQ_CST,
    Address,
    address_of,
    at,
    external,
    native,
)
from lowtide.pjrt.blocks import Queue, WaitingHome
from lowtide.pjrt.native_events import wake

LEAST_KEPT: Final = 32 << 20
"""Bytes of results' pages that may wait beyond what is in use."""

LARGE_USE: Final = 16 << 20
"""Where so many bytes come into use at once LLVM's pages go: the system needs about as long to read
these from the file again as to give so many new ones."""

SLACK_SHIFT: Final = 5
"""One part in so many powers of two of the most that was in use may be resident beyond it."""


@external
def munmap(start: Address, nbytes: int) -> I32:
    """Give pages back."""
    raise NotImplementedError


@external
def madvise(start: Address, nbytes: int, advice: I32) -> I32:
    """Tell the system of the use of pages."""
    raise NotImplementedError


@external
def malloc_trim(kept: int) -> I32:
    """Have the C library give back what nobody uses."""
    raise NotImplementedError


@external
def sched_yield() -> I32:
    """Let another thread have the core."""
    raise NotImplementedError


# -- signs to the worker -------------------------------------------------------------------------


@native
def signal(queue: Queue) -> None:
    """Have the worker of a queue look again."""
    queue.signal.add(1, SEQ_CST)
    if queue.asleep.load(SEQ_CST):
        wake(queue.signal, 1)


@native
def notice(queue: Queue) -> None:
    """Tell the worker that memory waits, and that it is to look after it."""
    if not queue.watched.load(SEQ_CST):
        signal(queue)


@native
def unsettle(queue: Queue) -> None:
    """Note that the C library may have memory that nobody uses."""
    queue.unsettled.store(1, SEQ_CST)
    notice(queue)


# -- the homes of results ------------------------------------------------------------------------


@native
def guard(queue: Queue) -> None:
    """Take the lock of the homes of a queue."""
    while queue.guard.compare_exchange(0, 1, ACQUIRE):
        sched_yield()


@native
def unguard(queue: Queue) -> None:
    """Give the lock back."""
    queue.guard.store(0, RELEASE)


@native
def most_kept(queue: Queue) -> int:
    """Return the bytes of homes that may wait."""
    return queue.used.load(SEQ_CST) + LEAST_KEPT


@native
def keep_home(queue: Queue, home: Address, pages: int, inner: int, inner_bytes: int) -> None:
    """Have the memory of a result that is gone wait for the next one.

    It goes to the system where enough does.
    """
    most = most_kept(queue)
    guard(queue)
    come = queue.idle.load(SEQ_CST) + pages
    if come > most:
        unguard(queue)
        munmap(home, pages)
        return
    waiting = at(WaitingHome, home)
    waiting.next = queue.homes
    waiting.pages, waiting.inner, waiting.inner_bytes = pages, inner, inner_bytes
    queue.homes = waiting
    queue.idle.add(pages, SEQ_CST)
    queue.peak_pool.raise_to(come + queue.mapped.load(SEQ_CST), RELAXED)
    unguard(queue)
    notice(queue)


@native
def find_home(queue: Queue, inner_bytes: int, pages: int) -> WaitingHome | None:
    """Return a home with as many bytes that may move, which no longer waits, or None.

    It has at least that many bytes of pages.
    """
    if not queue.idle.load(SEQ_CST):
        return None
    guard(queue)
    before: WaitingHome | None = None
    home = queue.homes
    while home is not None and (home.inner_bytes != inner_bytes or home.pages < pages):
        before = home
        home = home.next
    if home is not None:
        if before is None:
            queue.homes = home.next
        else:
            before.next = home.next
        queue.idle.add(-home.pages, SEQ_CST)
    unguard(queue)
    return home


@native
def drop_homes(queue: Queue, most: int) -> None:
    """Let homes go until so many bytes wait at most."""
    while queue.idle.load(SEQ_CST) > most:
        guard(queue)
        home = queue.homes
        if home is None:
            unguard(queue)
            return
        pages = home.pages
        queue.homes = home.next
        queue.idle.add(-pages, SEQ_CST)
        unguard(queue)
        munmap(address_of(home), pages)


@native
def fall(queue: Queue) -> None:
    """Let homes go where less is in use, and so less may wait."""
    most = most_kept(queue)
    if queue.idle.load(SEQ_CST) > most:
        drop_homes(queue, most)


# -- the arena -----------------------------------------------------------------------------------


@native
def drop_pages(queue: Queue, arena: Address, kept: int) -> None:
    """Let the pages of an arena that its caller has go, but for those of its first bytes."""
    more = queue.extent.load(SEQ_CST) - kept
    if more > 0:
        madvise(arena + kept, more, NOT_NEEDED)
        queue.extent.store(kept, SEQ_CST)
        queue.hollow.store(0, RELAXED)


@native
def drop_arena(queue: Queue) -> None:
    """Let the pages of an arena go that no run has."""
    arena = queue.arena.exchange(0, ACQUIRE)
    if arena:
        drop_pages(queue, arena, 0)
        queue.arena.store(arena, RELEASE)


@native
def most_resident(peak: int) -> int:
    """Return how many bytes may be resident, in use or not, where that many were in use at once."""
    return peak + (peak >> SLACK_SHIFT) + (1 << 20)


@native
def use_extent(queue: Queue, arena: Address, needed: int) -> None:
    """Note what a run needs of an arena, ahead of it.

    Pages behind that go where more would be resident than ever was in use.
    """
    extent = queue.extent.load(SEQ_CST)
    queue.hollow.store(0, RELAXED)
    if extent > needed:
        come = queue.used.load(SEQ_CST) + extent + queue.idle.load(SEQ_CST)
        if come > most_resident(queue.peak.load(SEQ_CST)):
            drop_pages(queue, arena, needed)
    else:
        queue.extent.store(needed, SEQ_CST)
        notice(queue)


# -- all of it -----------------------------------------------------------------------------------


@native
def make_room(queue: Queue, used: int, peak: int) -> None:
    """Let what waits go where it would have more resident than was ever in use.

    So many bytes come into use.
    """
    left = most_resident(max(peak, used)) - used
    extent = 0
    if queue.arena.load(SEQ_CST):
        extent = queue.extent.load(SEQ_CST) - queue.hollow.load(SEQ_CST)
    if queue.idle.load(SEQ_CST) + extent > left:
        drop_homes(queue, max(left - extent, 0))
        if queue.idle.load(SEQ_CST) + extent > left:
            drop_arena(queue)


@native
def forget_code(queue: Queue, nbytes: int) -> None:
    """Let LLVM's pages go where much comes into use, if something was compiled since they went."""
    if nbytes >= LARGE_USE and queue.compiled.exchange(0, SEQ_CST):
        drop_code(queue)


@native
def drop_code(queue: Queue) -> None:
    """Let LLVM's pages go to the system; those that are used again come from the file."""
    madvise(queue.text, queue.text_bytes, NOT_NEEDED)


@native
def account(queue: Queue, nbytes: int) -> None:
    """Note that so many bytes more are in use on a device."""
    now = queue.used.add(nbytes, SEQ_CST) + nbytes
    if nbytes > 0:
        # What is raised to is compared first: most calls raise nothing, and to write is dear.
        if now > queue.peak.load(RELAXED):
            queue.peak.raise_to(now, RELAXED)
        make_room(queue, now, queue.peak.load(RELAXED))
        forget_code(queue, nbytes)
        queue.count.add(1, SEQ_CST)
        if nbytes > queue.largest.load(RELAXED):
            queue.largest.raise_to(nbytes, RELAXED)


@native
def settle(queue: Queue) -> None:
    """Let all that waits go to the system, Python's at its turn."""
    queue.unsettled.store(0, SEQ_CST)
    drop_homes(queue, 0)
    drop_arena(queue)
    malloc_trim(0)
    drop_code(queue)
    queue.rested = 1
    queue.sweep.store(1, RELAXED)
