"""Blocks of memory that machine code and Python share.

A counted block (storage, launch) begins with its references. When the last one goes it is freed,
or, where Python holds something in its name, put on the list of what Python has to let go.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.native import Address, Atomic, NativeItems, NativeRecord, NativeRecords, inline

WORD: Final = 8

HELD_STORAGE: Final = 3
HELD_LAUNCH: Final = 4
"""What `held` says of a counted block for which Python keeps something."""

FRAMES: Final = 2
"""How many frames with an arena of their own a launch may have."""

HOMES: Final = 2
"""How many stretches of addresses without pages wait for the next result of a place."""

CONSUME: Final = 4
"""The result is the argument, where that was donated and nobody else has it; else a copy of it."""

MOVE: Final = 5
"""The result is the pages of the arena, which move, and others come in their place."""

Run: TypeAlias = Callable[[Address, NativeItems[Address], Address], int]
"""How a program runs, given its table, the addresses of its allocations, and its control block."""

Answer: TypeAlias = Callable[[Address, Address], None]
"""What is called when an event has happened: with an error or 0, and what was given for it."""


class References(NativeRecord):
    """The begin of what is counted."""

    refs: Atomic[int]


class Counted(References):
    """The begin of a storage and of a launch; of a handle's cell all but the references, too."""

    next: Address
    held: int


class PluginEvent(References):
    """What happens once. The list of those who wait for it ends where it becomes `HAPPENED`.

    `done` says whether it happened to those who sleep until then, of whom there are `sleepers`.
    """

    waiting: Atomic[Address]
    error: PluginErrorBlock | None
    done: Atomic[int]
    sleepers: Atomic[int]


HAPPENED: Final = 1
"""What `waiting` of an event is from then on."""


class Waiter(NativeRecord):
    """One who waits for an event."""

    next: Address
    answer: Answer
    given: Address


class PluginErrorBlock(NativeRecord):
    """An error, with the text behind it; it dies with the one who reads it."""

    table: Address
    unused: int
    nbytes: int
    code: int


class HandleCell(NativeRecord):
    """The block that a handle points to: a buffer, a program, a device, or what only Python reads.

    `of` is the storage of a buffer, the launch of a program, the queue of a device; `number` and
    `nbytes` are the element type and size of a buffer. `is_deleted` is 1 once it was deleted, and 2
    for moments while somebody takes a reference to the storage. Of a memory, `dimensions` and
    `rank` are the text of its kind; of a program, `rank` is one more than the number of its
    results: 0 until C++ asked. `held` says whether Python has something in its name.
    """

    table: Address
    next: Address
    held: int
    device: HandleCell
    memory: HandleCell
    dimensions: Address
    rank: int
    event: PluginEvent | None
    is_deleted: Atomic[int]
    of: Address
    number: int
    nbytes: int


class BufferStorage(Counted):
    """The memory of an array, counted. `data` is where it begins, 0 until it is there.

    `near` is room for a small one behind the record, or 0. `block` is to be freed with it, `parent`
    is a storage that has the memory, `queue` is the one of the device where its bytes count.
    `is_odd` says that its elements are not in row-major order. Pages of its own begin at `home`:
    `pages` bytes, of which the `inner_bytes` from `inner` on may move.
    """

    data: Address
    nbytes: int
    near: Address
    parent: BufferStorage | None
    block: Address
    queue: Queue
    is_odd: int
    home: Address
    pages: int
    inner: int
    inner_bytes: int


class WaitingHome(NativeRecord):
    """What the first page of a stretch of memory begins with that waits for the next result.

    It has `pages` bytes in all, and the `inner_bytes` from `inner` on may move into an arena.
    """

    next: WaitingHome | None
    pages: int
    inner: int
    inner_bytes: int


class ArgumentRecord(NativeRecord):
    """An argument: the base that its address becomes, its bytes, bits the address may not have."""

    base: int
    nbytes: int
    odd_bits: int


class BufferKind(NativeRecord):
    """The type of a buffer."""

    dimensions: Address
    rank: int
    number: int


class ResultRecord(NativeRecord):
    """A result: how it is made (a `Fill` or one of those above), its base and offset, its type.

    `argument` is the one that it takes the place of, or -1. The rest is for results with pages of
    their own, which moved or were written there: bytes ahead of the result in them, the first whole
    page and the bytes of whole pages, all bytes, 0 for other results, where these begin modulo a
    huge page; and stretches of addresses whose pages moved away.
    """

    fill: int
    base: int
    offset: int
    nbytes: int
    dimensions: Address
    rank: int
    number: int
    argument: int
    data: int
    inner: int
    inner_bytes: int
    pages: int
    remainder: int
    hollow: NativeItems[Atomic[Address]] = inline(HOMES)


class ArenaPlace(NativeRecord):
    """Where a base begins in an arena."""

    base: int
    offset: int


class RunFrame(NativeRecord):
    """What a run is given."""

    table: Address
    bases: NativeItems[Address]
    control: Address


class Launch(Counted):
    """The way a program is run, counted.

    `frames` have arenas of their own; the one of `bare` gets the arena of the queue. `is_native`
    says that no Python is needed, `elsewhere` that Python says where the results are, `is_shared`
    that several devices run it together; `moved` is how many bytes of pages results take out of the
    arena. A run takes `expected` nanoseconds: by an estimate, or, where `is_timed`, as the last run
    did.
    """

    device: HandleCell
    argument_count: int
    arguments: NativeRecords[ArgumentRecord]
    result_count: int
    results: NativeRecords[ResultRecord]
    donated_count: int
    donated: NativeItems[int]
    is_native: int
    is_shared: int
    is_timed: int
    expected: Atomic[int]
    arena_bytes: int
    place_count: int
    places: NativeRecords[ArenaPlace]
    run: Run
    nbytes: int
    elsewhere: int
    moved: int
    bare: Atomic[Address]
    frames: NativeItems[Atomic[Address]] = inline(FRAMES)


class QueuedCall(NativeRecord):
    """A call, with lists behind the block.

    They have the storages of the arguments, the events to wait for or null, whether an argument was
    donated, and the storages of the results. `waits` is how many events there are, `is_queued` says
    whether the call counts as in flight, `is_full` whether there was no memory for its results.
    """

    next: QueuedCall | None
    launch: Launch
    device: HandleCell
    event: PluginEvent
    queue: Queue
    argument_count: int
    result_count: int
    waits: int
    is_queued: int
    is_full: int
    inputs: NativeItems[BufferStorage]
    events: NativeItems[PluginEvent | None]
    taken: NativeItems[int]
    outputs: NativeItems[BufferStorage]


class Queue(NativeRecord):
    """The calls of a device that wait for their turn, and what its memory comes to in bytes.

    `pushed` are those that came last, newest first; `first` is the list that the worker takes from.
    `signal` changes when there is something to do, `finished` with each call that ended; `asleep`
    and `waiting` say whether somebody sleeps on these. `worker` is the thread that runs the calls;
    `sweep` asks it to let go of what is no longer used. Arrays and arenas in use come to `used`
    bytes, at most `peak`.

    Memory that nothing uses: the pages of the `arena` all lie in its first `extent` bytes, of which
    `hollow` have none, and `idle` bytes are those of `homes`, a list under the lock `guard`. With
    `unsettled` the C library may have some, too, and LLVM's code at `text`, which is read from its
    file again; `compiled` says that some of that has come since it went. `watched` says that the
    worker looks after all that: it goes back to the system where no call came for `seconds` and
    `nanoseconds`, and `rested` asks Python to give back what it has of it. All arenas have `mapped`
    bytes, with pages or without; these and `idle` came to at most `peak_pool`.
    """

    pushed: Atomic[QueuedCall | None]
    first: QueuedCall | None
    signal: Atomic[int]
    asleep: Atomic[int]
    jobs: Atomic[int]
    bytes: Atomic[int]
    most_bytes: int
    finished: Atomic[int]
    waiting: Atomic[int]
    worker: int
    ended: Atomic[int]
    sweep: Atomic[int]
    arena: Atomic[Address]
    arena_bytes: int
    used: Atomic[int]
    peak: Atomic[int]
    count: Atomic[int]
    largest: Atomic[int]
    peak_pool: Atomic[int]
    extent: Atomic[int]
    hollow: Atomic[int]
    idle: Atomic[int]
    homes: WaitingHome | None
    guard: Atomic[int]
    watched: Atomic[int]
    seconds: int
    nanoseconds: int
    mapped: Atomic[int]
    unsettled: Atomic[int]
    text: Address
    text_bytes: int
    rested: int
    compiled: Atomic[int]


def read_words(address: int, count: int) -> list[int]:
    """Return the words at an address, which may be null for none."""
    return list((ctypes.c_int64 * count).from_address(address)) if count else []
