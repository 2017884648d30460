"""The stream that each step of a program runs in, and the steps that it has to wait for.

Steps of a sequence may run at once where neither writes bytes that the other one touches: so every
plan is kept, whichever buffers share memory in it. A step goes on in the stream of what it waits
for last, if nothing has followed that there; else into the stream that has rested longest. An event
is needed only where the order does not follow from earlier ones, which is told by vector clocks
(Fidge 1988, Timestamps in message-passing systems that preserve the partial ordering).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import final

from lowtide.ir.buffer import BufferSlice
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Touched:
    """The bytes that a step reads, and those that it writes."""

    reads: tuple[BufferSlice, ...]
    writes: tuple[BufferSlice, ...]


@dataclass(frozen=True, slots=True)
class StreamStep:
    """The stream of a step, and the earlier steps whose events it waits for, in order."""

    stream: int
    waits: tuple[int, ...]


def in_streams(steps: Sequence[Touched], streams: int) -> tuple[StreamStep, ...]:
    """Return the streams and waits of steps that stand in an order that is right, one by one."""
    conflicts = _Conflicts()
    clocks = [[-1] * streams for _ in range(streams)]
    """For each stream the last step of every stream that is done before what comes next in it."""
    at_end: list[list[int]] = []
    last = [-1] * streams
    found: list[StreamStep] = []
    for number, step in enumerate(steps):
        before = conflicts.before(number, step)
        stream = _stream(before, found, last)
        clock, waits = clocks[stream], []
        for other in sorted(before, reverse=True):
            where = found[other].stream
            if where != stream and clock[where] < other:
                waits.append(other)
                clock[:] = [max(x, y) for x, y in zip(clock, at_end[other], strict=True)]
        clock[stream] = number
        at_end.append(list(clock))
        last[stream] = number
        found.append(StreamStep(stream, tuple(sorted(waits))))
    return tuple(found)


def _stream(before: Iterable[int], found: Sequence[StreamStep], last: Sequence[int]) -> int:
    latest = max(before, default=-1)
    if latest >= 0 and last[found[latest].stream] == latest:
        return found[latest].stream
    return min(range(len(last)), key=last.__getitem__)


@final
class _Conflicts:
    """Per allocation, pieces of bytes with who wrote them last, and who has read them since."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = defaultdict(lambda: [0])
        self._pieces: dict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(lambda: [(-1, ())])

    def before(self, number: int, step: Touched) -> set[int]:
        """Return the steps that have to be done before a step, and note what it touches."""
        found: set[int] = set()
        for place in step.reads:
            for at in self._at(place):
                writer, readers = self._pieces[place.allocation][at]
                found.add(writer)
                self._pieces[place.allocation][at] = writer, (*readers, number)
        for place in step.writes:
            for at in self._at(place):
                writer, readers = self._pieces[place.allocation][at]
                found.update(readers)
                found.add(writer)
                self._pieces[place.allocation][at] = number, ()
        return found - {-1, number}

    def _at(self, place: BufferSlice) -> range:
        """The pieces that make up a slice exactly."""
        if not place.nbytes:
            return range(0)
        first = self._cut(place.allocation, place.offset)
        return range(first, self._cut(place.allocation, place.offset + place.nbytes))

    def _cut(self, allocation: int, offset: int) -> int:
        """The number of the piece that begins at an offset, which is made where there is none."""
        starts, pieces = self._starts[allocation], self._pieces[allocation]
        at = bisect_left(starts, offset)
        if at == len(starts) or starts[at] != offset:
            at = bisect_right(starts, offset)
            starts.insert(at, offset)
            pieces.insert(at, pieces[at - 1])
        return at
