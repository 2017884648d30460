"""Buffers that come in slices: parts that begin at different steps and end up side by side.

XLA's memory space assignment loads a buffer so, piece by piece. Which slice comes first is open:
slices go where memory is free early enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import permutations
from typing import Final

from lowtide.planning.heap.best_fit import GapPlacer
from lowtide.planning.heap.intervals import Interval
from lowtide.planning.heap.steps import Chunk, round_up
from lowtide.records import dataclass


class SliceOrders(StrEnum):
    """The orders of slices that are tried, each from the lowest offset to the highest."""

    ALL = "all"
    """All, in lexicographic order."""
    PREFERRED = "preferred"
    """Earliest first, latest first, and the earliest in the middle."""


@dataclass(frozen=True, slots=True)
class SlicedBuffer:
    """A buffer in slices of `sizes` bytes, in order of offset.

    One of them begins at each of `starts`, which do not decrease; all live to step `last`,
    included. `shared` are other buffers in the same place, which are live once all slices are.
    """

    buffer: int
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    last: int
    shared: tuple[Interval, ...] = ()

    @property
    def nbytes(self) -> int:
        """The size of the whole."""
        return sum(self.sizes)

    @property
    def place_bytes(self) -> int:
        """The size of the largest in the place."""
        return max([self.nbytes, *[x.nbytes for x in self.shared]])


@dataclass(frozen=True, slots=True)
class PlacedSlice:
    """A slice at its place, live from step `first` to `last`, included."""

    chunk: Chunk
    first: int
    last: int


def place_sliced(
    buffers: Sequence[SlicedBuffer], alignment: int = 1, orders: SliceOrders = SliceOrders.ALL
) -> dict[int, tuple[PlacedSlice, ...]]:
    """Return the slices of each buffer, in order of offset; a buffer begins at aligned offsets.

    The largest buffer is placed first, of equal ones the longest, then the first by number.
    """
    placer = GapPlacer(alignment)
    found = {}
    for buffer in sorted(buffers, key=lambda x: (-x.nbytes, x.starts[0] - x.last, x.buffer)):
        slices = find_sliced(placer, buffer, orders=orders)
        put_sliced(placer, buffer, slices)
        found[buffer.buffer] = slices
    return found


def find_sliced(
    placer: GapPlacer,
    sliced: SlicedBuffer,
    preferred: int = -1,
    orders: SliceOrders = SliceOrders.ALL,
) -> tuple[PlacedSlice, ...]:
    """Return where the slices of a buffer go, in order of offset.

    They go to the smallest chunk, of equal ones the lowest, that is free once all slices are there
    and large enough, at the lowest aligned offset at which some order of the slices fits. A
    `preferred` offset is taken if it is aligned and some order fits there. Raises ValueError for a
    buffer without slices, with slices of no bytes, or steps that are not in order.
    """
    _check(sliced)
    alignment = placer.alignment_of(sliced.buffer)
    chunks = _chunks(placer, sliced, alignment)
    if preferred >= 0 and preferred % alignment == 0:
        around = [x for x in chunks if x.begin <= preferred and preferred + x.needed <= x.end]
        for chunk in around:
            for order in _orders(sliced.starts, orders):
                if chunk.lowest(order, preferred, 1) == preferred:
                    return _at(sliced, preferred, order)
    for chunk in sorted(chunks, key=lambda x: (x.end - x.begin, x.begin)):
        best = None
        for order in _orders(sliced.starts, orders):
            offset = chunk.lowest(order, chunk.begin, alignment)
            if offset + chunk.needed <= chunk.end and (best is None or offset < best[0]):
                best = offset, order
        if best:
            return _at(sliced, *best)
    raise AssertionError("the last chunk is endless and free")


def put_sliced(placer: GapPlacer, sliced: SlicedBuffer, slices: Sequence[PlacedSlice]) -> None:
    """Occupy the slices, and the whole place once all of them are there."""
    offset = slices[0].chunk.offset
    end = offset + sliced.place_bytes
    for chunk, first, last in [(x.chunk, x.first, x.last) for x in slices]:
        placer.placed.put(first, last, chunk.offset, chunk.end)
    if sliced.place_bytes > sliced.nbytes:
        placer.placed.put(sliced.starts[-1], sliced.last, offset + sliced.nbytes, end)
    for other in sliced.shared:
        placer.placed.put(other.first, other.last, offset, end)
        placer.chunks[other.buffer] = Chunk(offset, sliced.place_bytes)
    placer.chunks[sliced.buffer] = Chunk(offset, sliced.place_bytes)
    placer.nbytes = max(placer.nbytes, end)


def _check(sliced: SlicedBuffer) -> None:
    steps = (*sliced.starts, sliced.last)
    if not sliced.sizes or len(sliced.sizes) != len(sliced.starts) or min(sliced.sizes) <= 0:
        raise ValueError(f"buffer {sliced.buffer}: expected a size above 0 and a start per slice")
    if list(steps) != sorted(steps):
        raise ValueError(f"buffer {sliced.buffer}: its steps {steps} are not in order")


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk that is free once all slices are there, with what each slice finds in it.

    `pieces` are (begin, end, rank): from which of the starts on, by number, a part of the chunk is
    free. What is free earlier has the lower rank. The chunk has to hold `needed` bytes.
    """

    begin: int
    end: int
    needed: int
    sizes: tuple[int, ...]
    pieces: tuple[tuple[int, int, int], ...]

    def lowest(self, order: Sequence[int], offset: int, alignment: int) -> int:
        """Return the lowest aligned offset from `offset` on where slices fit in an order.

        Slice `i` comes at the start number `order[i]`.
        """
        offset = round_up(offset, alignment)
        while shift := self._obstacle(order, offset):
            offset = round_up(offset + shift, alignment)
        return offset

    def _obstacle(self, order: Sequence[int], begin: int) -> int:
        """By how much a place has to move at least, 0 if the slices fit there."""
        for size, rank in zip(self.sizes, order, strict=True):
            for low, high, free in self.pieces:
                if free > rank and low < begin + size and begin < high:
                    return high - begin
            begin += size
        return 0


def _chunks(placer: GapPlacer, sliced: SlicedBuffer, alignment: int) -> list[_Chunk]:
    """Free chunks at the last start, in pieces by the start from which on each is free."""
    free = [_free(placer, sliced, number, alignment) for number in range(len(sliced.starts))]
    chunks = []
    for begin, end in free[-1]:
        pieces = [(begin, end, len(free) - 1)]
        for rank in range(len(free) - 2, -1, -1):
            pieces = [x for piece in pieces for x in _split(piece, rank, free[rank])]
        chunks.append(_Chunk(begin, end, sliced.place_bytes, sliced.sizes, tuple(pieces)))
    return chunks


def _free(
    placer: GapPlacer, sliced: SlicedBuffer, number: int, alignment: int
) -> list[tuple[int, int]]:
    """Gaps from one start to the next, from the last start on to the end for all in the place.

    Gaps that no slice fits into count as occupied, as do bytes before an aligned offset.
    """
    final = number + 1 == len(sliced.starts)
    last = sliced.last if final else max(sliced.starts[number], sliced.starts[number + 1] - 1)
    spans = [(sliced.starts[number], last)]
    if final:
        spans += [(x.first, x.last) for x in sliced.shared]
    least = sliced.nbytes if final else min(sliced.sizes)
    begins, ends = placer.placed.gaps(spans)
    rows = zip(begins.tolist(), ends.tolist(), strict=True)
    gaps = [(round_up(begin, alignment), end) for begin, end in rows]
    return [(begin, end) for begin, end in gaps if end - begin >= least]


def _split(
    piece: tuple[int, int, int], rank: int, free: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int]]:
    """Cut a piece where gaps begin and end; what is free one start earlier gets the lower rank."""
    begin, end, found = piece
    if found != rank + 1:
        yield piece
        return
    for low, high in free:
        if high <= begin or low >= end:
            continue
        if begin < low:
            yield begin, low, found
        yield max(begin, low), min(end, high), rank
        begin = min(end, high)
    if begin < end:
        yield begin, end, found


def _orders(starts: Sequence[int], which: SliceOrders) -> Iterator[tuple[int, ...]]:
    """Orders of the starts by number, one of those that differ in equal starts only."""
    seen = set()
    for order in _ORDERS[which](len(starts)):
        steps = tuple([starts[x] for x in order])
        if steps not in seen:
            seen.add(steps)
            yield order


def _all_orders(count: int) -> Iterator[tuple[int, ...]]:
    return permutations(range(count))


def _preferred_orders(count: int) -> Iterator[tuple[int, ...]]:
    numbers = tuple(range(count))
    yield numbers
    yield numbers[::-1]
    yield numbers[1::2][::-1] + numbers[::2]


_ORDERS: Final = {SliceOrders.ALL: _all_orders, SliceOrders.PREFERRED: _preferred_orders}


def _at(sliced: SlicedBuffer, offset: int, order: Sequence[int]) -> tuple[PlacedSlice, ...]:
    slices = []
    for size, rank in zip(sliced.sizes, order, strict=True):
        slices.append(PlacedSlice(Chunk(offset, size), sliced.starts[rank], sliced.last))
        offset += size
    return tuple(slices)
