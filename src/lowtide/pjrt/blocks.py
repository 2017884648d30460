"""Blocks of memory that machine code and Python share; every field is a word of eight bytes.

A counted block (storage, launch) begins with its references. When the last one goes it is freed,
or, where Python holds something in its name, put on the list of what Python has to let go.
"""

from __future__ import annotations

import ctypes
from typing import Final

WORD: Final = 8


def _words(names: str) -> list[tuple[str, type[ctypes.c_int64]]]:
    return [(name, ctypes.c_int64) for name in names.split()]


class HandleCell(ctypes.Structure):
    """The block that a handle points to: a buffer, a program, a device, or what only Python reads.

    `of` is the storage of a buffer, the launch of a program, the queue of a device; `number` and
    `nbytes` are the element type and size of a buffer. `is_deleted` is 1 once it was deleted, and 2
    for moments while somebody takes a reference to the storage. Of a memory, `dimensions` and
    `rank` are the text of its kind; of a program, `rank` is one more than the number of its
    results: 0 until C++ asked. `held` says whether Python has something in its name.
    """

    _fields_ = _words(
        "table next held device memory dimensions rank event is_deleted of number nbytes"
    )


class BufferStorage(ctypes.Structure):
    """The memory of an array, counted. `data` is where it begins, 0 until it is there.

    `block` is to be freed with it, `parent` is a storage that has the memory, `queue` is the one of
    the device where its bytes count. `is_odd` says that its elements are not in row-major order.
    Pages that were moved out of an arena begin at `home`: `pages` bytes, of which the `inner_bytes`
    from `inner` on moved.
    """

    _fields_ = _words(
        "refs next held data nbytes parent block queue is_odd home pages inner inner_bytes"
    )


class WaitingHome(ctypes.Structure):
    """What the first page of a stretch of memory begins with that waits for the next result.

    It has `pages` bytes in all, and the `inner_bytes` from `inner` on may move into an arena.
    """

    _fields_ = _words("next pages inner inner_bytes")


HELD_STORAGE: Final = 3
HELD_LAUNCH: Final = 4
"""What `held` says of a counted block for which Python keeps something."""


FRAMES: Final = 2
"""How many frames with an arena of their own a launch may have."""


class Launch(ctypes.Structure):
    """The way a program is run, counted.

    `arguments` and `results` are lists of the records below, `donated` is one of numbers, and
    `places` has pairs of a base and an offset into an arena. The frames of `frame0` and the rest
    have arenas of their own; that of `bare` gets the arena of the queue. `is_native` says that no
    Python is needed, `elsewhere` that Python says where the results are, `is_inline` that a thread
    which calls loses nothing by running it, `is_shared` that several devices run it together;
    `moved` is how many bytes of pages results take out of the arena.
    """

    _fields_ = _words(
        "refs next held device argument_count arguments result_count results donated_count donated "
        "is_native is_inline is_shared arena_bytes place_count places run nbytes elsewhere moved "
        "bare " + " ".join([f"frame{i}" for i in range(FRAMES)])
    )


class ArgumentRecord(ctypes.Structure):
    """An argument: the base that its address becomes, its bytes, bits the address may not have."""

    _fields_ = _words("base nbytes odd_bits")


class ResultRecord(ctypes.Structure):
    """A result: how it is made (a `Fill` or one of those below), its base and offset, its type.

    `argument` is the one that it takes the place of, or -1. The rest is for pages that move: bytes
    ahead of the result in them, the first whole page and the bytes of whole pages, all bytes, where
    these begin modulo a huge page; and stretches of addresses whose pages moved away.
    """

    _fields_ = _words(
        "fill base offset nbytes dimensions rank number argument "
        "data inner inner_bytes pages remainder hollow0 hollow1"
    )


HOMES: Final = 2
"""How many stretches of addresses without pages wait for the next result of a place."""

CONSUME: Final = 4
"""The result is the argument, where that was donated and nobody else has it; else a copy of it."""

MOVE: Final = 5
"""The result is the pages of the arena, which move, and others come in their place."""


class QueuedCall(ctypes.Structure):
    """A call, with lists behind the block.

    They have the storages of the arguments, the events to wait for or 0, whether an argument was
    donated, and the storages of the results. `waits` is how many events there are, `is_queued` says
    whether the call counts as in flight, `is_full` whether there was no memory for its results.
    """

    _fields_ = _words(
        "next launch device event queue argument_count result_count waits is_queued is_full "
        "inputs events taken outputs"
    )


class Queue(ctypes.Structure):
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

    _fields_ = _words(
        "pushed first signal asleep jobs bytes most_bytes finished waiting worker ended sweep "
        "arena arena_bytes used peak count largest peak_pool extent hollow idle homes guard "
        "watched seconds nanoseconds mapped unsettled text text_bytes rested compiled"
    )


def offset(block: type[ctypes.Structure], name: str) -> int:
    """Return where a field of a block lies, in bytes."""
    found: int = getattr(block, name).offset
    return found


def read_words(address: int, count: int) -> list[int]:
    """Return the words at an address, which may be null for none."""
    return list((ctypes.c_int64 * count).from_address(address)) if count else []
