"""Groups of consecutive thunks that run at once: none touches bytes that another one writes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from lowtide.ir.buffer import BufferSlice
from lowtide.records import dataclass

LARGEST_GROUP: Final = 24
"""Members of a group. Claiming a piece takes time in proportion, and each has a piece at least."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A phase as it is linked: the address of its function, its units, the seconds of a unit."""

    function: int
    units: int
    unit_seconds: float

    @property
    def seconds(self) -> float:
        """How long it takes on one thread."""
        return self.units * self.unit_seconds


@dataclass(frozen=True, slots=True)
class ThunkWork:
    """A thunk without control flow: its number, stages, and what it reads and writes.

    `buffers` are what its functions get, `literal` a number that follows them.
    """

    number: int
    stages: tuple[Stage, ...]
    buffers: tuple[BufferSlice, ...]
    reads: tuple[BufferSlice, ...]
    writes: tuple[BufferSlice, ...]
    scratch: BufferSlice | None = None
    literal: int | None = None


@dataclass(slots=True)
class Bytes:
    """A set of bytes of one allocation, as disjoint stretches in order, ends excluded."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def meets(self, begin: int, end: int) -> bool:
        """Whether one of the bytes is in the set."""
        after = bisect_right(self.ends, begin)
        return after < len(self.begins) and self.begins[after] < end

    def add(self, begin: int, end: int) -> None:
        """Add a stretch of bytes."""
        first, last = bisect_left(self.ends, begin), bisect_right(self.begins, end)
        if first < last:
            begin = min(begin, self.begins[first])
            end = max(end, self.ends[last - 1])
        self.begins[first:last] = [begin]
        self.ends[first:last] = [end]


@dataclass(slots=True)
class Footprint:
    """What a group reads and writes so far, by allocation."""

    reads: dict[int, Bytes] = field(default_factory=dict)
    writes: dict[int, Bytes] = field(default_factory=dict)

    def clashes(self, work: ThunkWork) -> bool:
        """Whether the order between the group and another member matters."""
        return (
            _meet(self.writes, work.reads)
            or _meet(self.writes, work.writes)
            or _meet(self.reads, work.writes)
        )

    def add(self, work: ThunkWork) -> None:
        """Take in what a member touches."""
        _join(self.reads, work.reads)
        _join(self.writes, work.writes)


def _meet(known: dict[int, Bytes], slices: Iterable[BufferSlice]) -> bool:
    for x in slices:
        found = known.get(x.allocation)
        if x.nbytes and found is not None and found.meets(x.offset, x.offset + x.nbytes):
            return True
    return False


def _join(known: dict[int, Bytes], slices: Iterable[BufferSlice]) -> None:
    for x in slices:
        if not x.nbytes:
            continue
        if x.allocation not in known:
            known[x.allocation] = Bytes()
        known[x.allocation].add(x.offset, x.offset + x.nbytes)


def groups(works: Iterable[ThunkWork], threads: int) -> Iterator[list[ThunkWork]]:
    """Split works into groups of neighbours that run at once; one by one for one thread."""
    if threads == 1:
        yield from [[work] for work in works]
        return
    group: list[ThunkWork] = []
    footprint = Footprint()
    for work in works:
        if group and (len(group) == LARGEST_GROUP or footprint.clashes(work)):
            yield group
            group, footprint = [], Footprint()
        group.append(work)
        footprint.add(work)
    if group:
        yield group
