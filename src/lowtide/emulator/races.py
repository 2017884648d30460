"""Races in shared memory: two threads, one place, no barrier between, and one of them writes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass

Log = npt.NDArray[np.uint64]
"""Of each access its address, and thread * 65536 + bytes * 2 + (1 where it writes)."""


Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Race:
    """A byte of shared memory that `first` and `second`, two threads, accessed; one of them wrote.

    `place` counts from the lowest address that was accessed.
    """

    place: int
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A byte of shared memory that a thread reads and nobody has written; see `Race.place`."""

    place: int
    thread: int


def race_in(log: Log) -> Race | None:
    """Return a race among the accesses between two barriers, None where there is none.

    Threads of one warp count as any two threads: nothing orders what they do.
    """
    if not len(log):
        return None
    start = log[:, 0].astype(np.int64)
    nbytes = (log[:, 1] >> np.uint64(1)).astype(np.int64) & 0x7FFF
    start = start - start.min()
    thread = (log[:, 1] >> np.uint64(16)).astype(np.int64)
    is_write = (log[:, 1] & np.uint64(1)).astype(bool)
    places = np.repeat(start, nbytes) + _counted(nbytes)
    threads, writes = np.repeat(thread, nbytes), np.repeat(is_write, nbytes)
    size = int(places.max()) + 1
    lowest = np.full(size, np.iinfo(np.int64).max)
    highest = np.full(size, -1)
    np.minimum.at(lowest, places, threads)
    np.maximum.at(highest, places, threads)
    written = np.zeros(size, bool)
    written[places[writes]] = True
    found = np.flatnonzero(written & (lowest < highest))
    if not len(found):
        return None
    place = int(found[0])
    return Race(place, int(lowest[place]), int(highest[place]))


def unwritten_in(log: Log, known: Addresses) -> tuple[Unwritten | None, Addresses]:
    """Return a read of what was not written, or None, and the addresses written by now, in order.

    The log is that between two barriers, each thread's accesses in turn; `known` are the addresses
    that were written before.
    """
    if not len(log):
        return None, known
    nbytes = (log[:, 1] >> np.uint64(1)).astype(np.int64) & 0x7FFF
    is_write = (log[:, 1] & np.uint64(1)).astype(bool)
    places = np.repeat(log[:, 0].astype(np.int64), nbytes) + _counted(nbytes)
    writes, number = np.repeat(is_write, nbytes), np.repeat(np.arange(len(log)), nbytes)
    start = int(places.min())
    first = np.full(int(places.max()) - start + 1, len(log))
    np.minimum.at(first, places[writes] - start, number[writes])
    before = known.astype(np.int64) - start
    first[before[(before >= 0) & (before < len(first))]] = -1
    missing = np.flatnonzero(~writes & (first[places - start] >= number))
    after = np.union1d(known, places[writes].astype(np.uint64))
    if not len(missing):
        return None, after
    worst = int(missing[0])
    thread = int(log[number[worst], 1] >> np.uint64(16))
    return Unwritten(int(places[worst]) - start, thread), after


def _counted(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 0 to size - 1 for each size, one after the other."""
    ends = np.cumsum(sizes)
    counted: npt.NDArray[np.int64] = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    return counted
