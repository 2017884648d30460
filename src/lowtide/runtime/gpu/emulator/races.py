"""Races in shared memory: two threads, one place, no barrier between, and one of them writes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass

Log = npt.NDArray[np.uint64]
"""Of each access its address, and thread * 65536 + bytes * 2 + (1 where it writes)."""


@dataclass(frozen=True, slots=True)
class Race:
    """A byte of shared memory that `first` and `second`, two threads, accessed; one of them wrote.

    `place` counts from the lowest address that was accessed.
    """

    place: int
    first: int
    second: int


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


def _counted(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 0 to size - 1 for each size, one after the other."""
    ends = np.cumsum(sizes)
    counted: npt.NDArray[np.int64] = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    return counted
