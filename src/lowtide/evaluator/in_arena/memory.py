"""The memory of a running program: one array of bytes per allocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.evaluator.in_arena.storage import Bytes
from lowtide.ir.buffer import Allocation, AllocationKind, BufferSlice

POISON: Final = 0xFF
"""The byte of memory that holds no value: NaN as a floating point number, -1 as an integer."""

GUARD_BYTES: Final = 64
"""Poisoned bytes behind each allocation."""


class ArenaMemory:
    """The allocations, all poisoned at first, and `GUARD_BYTES` behind each."""

    def __init__(self, allocations: Sequence[Allocation]) -> None:
        self.allocations = allocations
        self.bytes = [np.full(x.nbytes + GUARD_BYTES, POISON, np.uint8) for x in allocations]

    def read(self, place: BufferSlice) -> Bytes:
        """Return a view of the bytes of a slice."""
        return self.bytes[place.allocation][place.offset : place.offset + place.nbytes]

    def write(self, place: BufferSlice, raw: Bytes) -> None:
        """Store bytes at the begin of a slice, which they may not fill."""
        self.read(place)[: raw.size] = raw

    def poison(self, place: BufferSlice) -> None:
        """Make the bytes of a slice hold no value."""
        self.read(place)[:] = POISON


def is_writable(allocation: Allocation) -> bool:
    """Whether the program may write there: not to constants, nor to arguments that it keeps."""
    if allocation.kind is AllocationKind.ARGUMENT:
        return allocation.output is not None
    return allocation.kind is not AllocationKind.CONSTANT
