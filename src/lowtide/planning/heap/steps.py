"""Input and output of a heap simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from lowtide.records import dataclass


class HeapStepKind(StrEnum):
    """Events of a buffer in one step."""

    ALLOCATE = "alloc"
    FREE = "free"
    SHARE = "share"
    """The buffer takes over the place of another one, or shares it."""


class HeapStep(NamedTuple):
    """One event: `buffer` is a number, which breaks ties; `shares_with` is that of another."""

    kind: HeapStepKind
    buffer: int
    nbytes: int
    shares_with: int = -1


class Chunk(NamedTuple):
    """`nbytes` bytes of a heap, from `offset` on."""

    offset: int
    nbytes: int

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True)
class Heap:
    """The places of buffers in one heap, and its size in bytes."""

    chunks: Mapping[int, Chunk]
    nbytes: int


@dataclass(frozen=True, slots=True)
class HeapLayout:
    """One heap, or several where their size was limited."""

    heaps: tuple[Heap, ...]

    @property
    def nbytes(self) -> int:
        """The size of all heaps."""
        return sum([heap.nbytes for heap in self.heaps])


HeapAlgorithm = Callable[[Sequence[HeapStep], int], HeapLayout]
"""Lays out the buffers of events at offsets that are multiples of the second argument."""

UNLIMITED: Final = -1
"""In place of a limit in bytes: one heap, as large as need be."""


def round_up(offset: int, alignment: int) -> int:
    """Return the least multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment
