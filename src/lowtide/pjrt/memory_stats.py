"""`memory_stats()` of a device, by the names that JAX's users know."""

from __future__ import annotations

import os
from ctypes import c_bool, c_int64, c_void_p
from typing import Any, Final

from lowtide.pjrt.devices import card
from lowtide.pjrt.handles import sweep, value_of
from lowtide.pjrt.queues import queue_of
from lowtide.pjrt.table import serves

_NAMES: Final = (
    "peak_bytes_in_use",
    "num_allocs",
    "largest_alloc_size",
    "bytes_limit",
    "bytes_reserved",
    "peak_bytes_reserved",
    "bytes_reservable_limit",
    "largest_free_block_bytes",
    "pool_bytes",
    "peak_pool_bytes",
)
"""The fields behind the bytes in use; each is followed by whether it is set."""


def _fields() -> dict[str, Any]:
    found: dict[str, Any] = {"device": c_void_p, "bytes_in_use": c_int64}
    for name in _NAMES:
        found |= {name: c_int64, f"{name}_is_set": c_bool}
    return found


@serves("Device_MemoryStats", **_fields())
def _memory_stats(arguments: Any) -> None:
    """What arrays and arenas of running calls take, and what is resident beyond that.

    The pool is the pages of arenas, in use or not, and those that wait for results; code and
    constants of programs are reserved. On a card the pool is all memory that was taken of it.
    """
    queue = queue_of(value_of(arguments.device))
    sweep()
    known: Any = queue.block
    pool = queue.pool_bytes
    values = {
        "peak_bytes_in_use": known.peak,
        "num_allocs": known.count,
        "largest_alloc_size": known.largest,
        "bytes_limit": _physical_bytes(),
        "bytes_reserved": queue.reserved,
        "largest_free_block_bytes": known.extent - known.hollow if known.arena else 0,
        "peak_bytes_reserved": queue.peak_reserved,
        "pool_bytes": pool,
        "peak_pool_bytes": max(known.peak_pool, pool),
    }
    place = card()
    if place is not None:
        values |= {"bytes_limit": place.nbytes, **place.memory.stats()}
    arguments.bytes_in_use = known.used
    for name in _NAMES:
        setattr(arguments, f"{name}_is_set", name in values)
        setattr(arguments, name, values.get(name, 0))


def _physical_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
