"""The heap algorithm that goes through the events once: best fit, places left open.

It is the heap of TensorFlow 1.14.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from lowtide.planning.heap.steps import Chunk, Heap, HeapLayout, HeapStep, HeapStepKind, round_up


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
