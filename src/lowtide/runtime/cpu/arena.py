"""The memory of a call: one stretch for all that a call provides, used again by later calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Final
from weakref import finalize

import numpy as np

from lowtide.ir.buffer import AllocationKind
from lowtide.ir.literal import in_lines
from lowtide.records import dataclass
from lowtide.runtime.cpu import pages
from lowtide.runtime.cpu.program import Memory

LINE: Final = 64
"""What the address of each allocation is a multiple of."""

PROVIDED: Final = (AllocationKind.ARENA, AllocationKind.OUTPUT, AllocationKind.THREAD_LOCAL)
"""The allocations that a call provides."""


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Where allocations lie in an arena: pairs of index and offset; all bytes, in whole pages."""

    places: tuple[tuple[int, int], ...]
    nbytes: int


def arena_plan(memories: Sequence[Memory], elsewhere: Set[int] = frozenset()) -> ArenaPlan:
    """Return where the allocations that a call provides lie, but for those that lie elsewhere."""
    places, end = [], 0
    for index, memory in enumerate(memories):
        if memory.kind in PROVIDED and index not in elsewhere:
            places.append((index, end))
            end += -(-memory.nbytes // LINE) * LINE
    return ArenaPlan(tuple(places), pages.whole_pages(end))


class Arena:
    """Memory of `nbytes` bytes at `address`, given back when this is no longer used."""

    def __init__(self, nbytes: int, *, huge: bool) -> None:
        self.nbytes = nbytes
        self.address = pages.take(nbytes, huge=huge) if nbytes else 0
        self._given: Callable[[], object] = _nothing
        if nbytes:
            # When the process ends, the system takes the memory; modules may be gone by then.
            finalizer = finalize(self, pages.give, self.address, nbytes)
            finalizer.atexit = False
            self._given = finalizer

    def close(self) -> None:
        """Give the memory back."""
        self._given()
        self.address = 0


def _nothing() -> None:
    """What gives back no memory."""


NO_ARENA: Final = Arena(0, huge=False)
"""The arena of frames that have none at the moment."""


def aligned(
    values: np.ndarray[tuple[int], np.dtype[np.uint8]],
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return bytes at a multiple of 64: these if they lie so, else a copy."""
    if values.ctypes.data % LINE == 0:
        return values
    return in_lines(values)
