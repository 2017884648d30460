"""Heap simulation: offsets for buffers that come and go, from a list of events.

The algorithms are those of XLA's heap simulator, today's and those of TensorFlow 1.14. Each is a
function from events to a `HeapLayout`; `heap_best_fit.py` and `heap_fast.py` have those which look
at all intervals at once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class HeapStepKind(StrEnum):
    """What happens to a buffer in one step."""

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


class Interval(NamedTuple):
    """A buffer, its size in bytes, and when it is live, both ends included.

    `group` is the number of the buffer that stands for all those in one place.
    """

    buffer: int
    nbytes: int
    first: int
    last: int
    group: int

    @property
    def duration(self) -> int:
        """The steps from the first to the last."""
        return self.last - self.first


HeapAlgorithm = Callable[[Sequence[HeapStep], int], HeapLayout]
"""Lays out the buffers of events at offsets that are multiples of the second argument."""


def round_up(offset: int, alignment: int) -> int:
    """Return the least multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment


def intervals(steps: Iterable[HeapStep]) -> list[Interval]:
    """Return when each buffer is live, in order of first steps.

    Each event takes one step; what is never freed lives one step longer than all events. Buffers
    without bytes have an empty interval, from 0 to -1, and take no step. Raises ValueError where a
    buffer is allocated twice, or freed or shared without being there.
    """
    first: dict[int, HeapStep] = {}
    born: dict[int, int] = {}
    died: dict[int, int] = {}
    group: dict[int, int] = {}
    clock = 0
    for step in steps:
        _check_step(step, born, died)
        if step.kind is HeapStepKind.FREE:
            died[step.buffer] = clock
        else:
            first[step.buffer] = step
            born[step.buffer] = clock
            shared = step.kind is HeapStepKind.SHARE
            group[step.buffer] = group[step.shares_with] if shared else step.buffer
        clock += step.nbytes > 0
    return [
        Interval(buffer, step.nbytes, born[buffer], died.get(buffer, clock), group[buffer])
        if step.nbytes
        else Interval(buffer, 0, 0, -1, group[buffer])
        for buffer, step in first.items()
    ]


def _check_step(step: HeapStep, born: Mapping[int, int], died: Mapping[int, int]) -> None:
    if step.kind is HeapStepKind.FREE:
        if step.buffer not in born or step.buffer in died:
            raise ValueError(f"buffer {step.buffer} is freed but not allocated")
        return
    if step.buffer in born:
        raise ValueError(f"buffer {step.buffer} is allocated twice")
    if step.kind is HeapStepKind.SHARE and step.shares_with not in born:
        raise ValueError(f"buffer {step.buffer} shares with {step.shares_with}, which is not there")


def most_live_bytes(steps: Iterable[HeapStep]) -> int:
    """Return the most bytes live at once, which no layout of these events can do without.

    Buffers in one place count once while any of them is live, each time with the largest size.
    """
    found = intervals(steps)
    size: dict[int, int] = {}
    for interval in found:
        size[interval.group] = max(size.get(interval.group, 0), interval.nbytes)
    changes = sorted(
        [(x.first, 0, x.group) for x in found if x.nbytes]
        + [(x.last, 1, x.group) for x in found if x.nbytes]
    )
    members: dict[int, int] = dict.fromkeys(size, 0)
    live = most = 0
    for _, ends, group in changes:
        members[group] += -1 if ends else 1
        if ends and not members[group]:
            live -= size[group]
        elif not ends and members[group] == 1:
            live += size[group]
        most = max(most, live)
    return most


def lazy_best_fit(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
    """Return a layout found while going through the events once, without looking ahead.

    A buffer goes to the smallest free chunk that holds it, the lowest of equal ones. If there is
    none, its place is left open until it is freed, and is then the end of the heap. A buffer that
    shares is not an event of its own: the chunk is free once all that share it are.
    """
    heap = _LazyHeap(alignment)
    for step in steps:
        heap.take(step)
    return HeapLayout((heap.finish(),))


class _LazyHeap:
    """Free chunks sorted by size, then offset; offsets of what is allocated, -1 while open."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.free: list[tuple[int, int]] = []
        self.offset: dict[int, int] = {}
        self.nbytes: dict[int, int] = {}
        self.group: dict[int, int] = {}
        self.members: dict[int, int] = {}
        self.size = 0

    def take(self, step: HeapStep) -> None:
        if step.kind is HeapStepKind.FREE:
            group = self.group[step.buffer]
            self.members[group] -= 1
            if not self.members[group]:
                self._release(group)
            return
        if step.kind is HeapStepKind.SHARE:
            self._share(step)
            return
        self.group[step.buffer] = step.buffer
        self.members[step.buffer] = 1
        self.nbytes[step.buffer] = step.nbytes
        self.offset[step.buffer] = self._best_fit(step.nbytes) if step.nbytes else 0

    def _share(self, step: HeapStep) -> None:
        group = self.group[step.shares_with]
        if not self.members[group] or step.nbytes > self.nbytes[group]:
            raise ValueError(
                f"buffer {step.buffer} shares with {step.shares_with}, which is freed or smaller;"
                " best_fit_heap takes such events"
            )
        self.group[step.buffer] = group
        self.members[group] += 1

    def _best_fit(self, nbytes: int) -> int:
        for place in range(bisect_left(self.free, (nbytes, 0)), len(self.free)):
            size, offset = self.free[place]
            begin = round_up(offset, self.alignment)
            if begin + nbytes > offset + size:
                continue
            del self.free[place]
            self._add_free(offset, begin - offset)
            self._add_free(begin + nbytes, offset + size - begin - nbytes)
            return begin
        return -1

    def _release(self, group: int) -> None:
        nbytes = self.nbytes[group]
        if self.offset[group] < 0:
            self.offset[group] = self._at_end(nbytes)
        self._add_free(self.offset[group], nbytes)

    def _at_end(self, nbytes: int) -> int:
        begin = round_up(self.size, self.alignment)
        self._add_free(self.size, begin - self.size)
        self.size = begin + nbytes
        return begin

    def _add_free(self, offset: int, nbytes: int) -> None:
        """Add a free chunk, as one with its neighbours."""
        if not nbytes:
            return
        end = offset + nbytes
        beside = [(n, x) for n, x in self.free if x + n == offset or x == end]
        for n, x in beside:
            self.free.remove((n, x))
            offset, end = min(offset, x), max(end, x + n)
        insort(self.free, (end - offset, offset))

    def finish(self) -> Heap:
        for group, offset in self.offset.items():
            if offset < 0:
                self.offset[group] = self._at_end(self.nbytes[group])
        chunks = {
            buffer: Chunk(self.offset[group], self.nbytes[group])
            for buffer, group in self.group.items()
        }
        return Heap(chunks, self.size)


def in_runs_of_decreasing_size(algorithm: HeapAlgorithm) -> HeapAlgorithm:
    """Return an algorithm to which each run of allocations, and of frees, comes largest first.

    Ties are broken by the number of the buffer. A shared buffer ends a run.
    """

    def sorted_runs(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        return algorithm(_sorted_runs(steps), alignment)

    return sorted_runs


def _sorted_runs(steps: Sequence[HeapStep]) -> list[HeapStep]:
    ordered: list[HeapStep] = []
    run: list[HeapStep] = []
    for step in steps:
        if run and (run[-1].kind is not step.kind or step.kind is HeapStepKind.SHARE):
            ordered += sorted(run, key=_largest_first)
            run = []
        run.append(step)
    return ordered + sorted(run, key=_largest_first)


def _largest_first(step: HeapStep) -> tuple[int, int]:
    return -step.nbytes, step.buffer


def best_of(algorithms: Sequence[HeapAlgorithm]) -> HeapAlgorithm:
    """Return an algorithm that takes the smallest of several layouts, the first of equal ones."""

    def choose(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        return min([run(steps, alignment) for run in algorithms], key=_layout_bytes)

    return choose


def _layout_bytes(layout: HeapLayout) -> int:
    return layout.nbytes
