"""Buffers in slices: single rules, and that nothing overlaps in space and time."""

from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.planning.heap.best_fit import GapPlacer
from lowtide.planning.heap.intervals import Interval
from lowtide.planning.heap.slices import (
    PlacedSlice,
    SlicedBuffer,
    SliceOrders,
    find_sliced,
    place_sliced,
)
from lowtide.planning.heap.steps import Chunk


def _placer(*rows: tuple[int, int, int, int], alignment: int = 1) -> GapPlacer:
    """A heap in which (first, last, offset, end) is occupied."""
    placer = GapPlacer(alignment)
    for row in rows:
        placer.placed.put(*row)
    return placer


def test_the_later_slice_goes_where_memory_is_free_later() -> None:
    placer = _placer((0, 4, 0, 10), (0, 9, 20, 50))
    sliced = SlicedBuffer(0, (10, 10), (3, 6), 9)
    assert find_sliced(placer, sliced) == (
        PlacedSlice(Chunk(0, 10), 6, 9),
        PlacedSlice(Chunk(10, 10), 3, 9),
    )


def test_a_preferred_offset_comes_before_the_smallest_chunk() -> None:
    placer = _placer((0, 9, 20, 50), (0, 4, 60, 65))
    sliced = SlicedBuffer(0, (5, 5), (3, 6), 9)
    assert find_sliced(placer, sliced)[0].chunk.offset == 0
    assert find_sliced(placer, sliced, preferred=60)[0] == PlacedSlice(Chunk(60, 5), 6, 9)
    assert find_sliced(placer, sliced, preferred=18)[0].chunk.offset == 0


def test_the_smallest_chunk_is_taken_not_the_lowest() -> None:
    placer = _placer((0, 9, 20, 50), (0, 9, 62, 70))
    assert find_sliced(placer, SlicedBuffer(0, (5, 5), (3, 6), 9))[0].chunk.offset == 50


def test_what_shares_the_place_needs_room_once_all_slices_are_there() -> None:
    placer = _placer((0, 9, 12, 50))
    shared = (Interval(1, 14, 10, 12, 0),)
    sliced = SlicedBuffer(0, (5, 5), (3, 6), 9)
    assert find_sliced(placer, sliced)[0].chunk.offset == 0
    wide = SlicedBuffer(0, (5, 5), (3, 6), 9, shared)
    assert find_sliced(placer, wide)[0].chunk.offset == 50


def test_preferred_orders_lack_those_that_all_have() -> None:
    rows = [(0, 5, 0, 2), (0, 7, 2, 4), (0, 3, 4, 6), (0, 9, 6, 60)]
    sliced = SlicedBuffer(0, (2, 2, 2), (4, 6, 8), 9)
    everything = find_sliced(_placer(*rows), sliced)
    assert [x.first for x in everything] == [6, 8, 4]
    few = find_sliced(_placer(*rows), sliced, orders=SliceOrders.PREFERRED)
    assert [x.chunk.offset for x in few] == [60, 62, 64]


def test_preferred_orders() -> None:
    starts = (1, 2, 3, 4, 5)
    for order in ((1, 2, 3, 4, 5), (5, 4, 3, 2, 1), (4, 2, 1, 3, 5)):
        rows = [(0, first - 1, x, x + 1) for x, first in enumerate(order) if first > 1]
        sliced = SlicedBuffer(0, (1,) * 5, starts, 9)
        placer = _placer(*rows, (0, 9, 5, 60))
        found = find_sliced(placer, sliced, orders=SliceOrders.PREFERRED)
        assert tuple(x.first for x in found) == order


@pytest.mark.parametrize(
    ("sizes", "starts", "message"),
    [
        ((), (), "expected a size above 0 and a start per slice"),
        ((1, 0), (1, 2), "expected a size above 0 and a start per slice"),
        ((1, 1), (1,), "expected a size above 0 and a start per slice"),
        ((1, 1), (2, 1), "its steps .* are not in order"),
        ((1, 1), (2, 9), "its steps .* are not in order"),
    ],
)
def test_slices_that_cannot_be(
    sizes: tuple[int, ...], starts: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find_sliced(GapPlacer(1), SlicedBuffer(0, sizes, starts, 8))


@st.composite
def _buffers(draw: st.DrawFn) -> list[SlicedBuffer]:
    buffers = []
    for number in range(draw(st.integers(1, 8))):
        sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
        steps = sorted(draw(st.lists(st.integers(0, 15), min_size=len(sizes), max_size=len(sizes))))
        last = steps[-1] + draw(st.integers(0, 5))
        shared = ()
        if draw(st.booleans()):
            first = draw(st.integers(16, 25))
            other = Interval(100 + number, draw(st.integers(1, 40)), first, first + 2, number)
            shared = (other,)
        buffers.append(SlicedBuffer(number, tuple(sizes), tuple(steps), last, shared))
    return buffers


Box = tuple[int, int, int, int]


def _boxes(buffer: SlicedBuffer, slices: tuple[PlacedSlice, ...]) -> list[Box]:
    """What a buffer occupies, as (first step, last step, offset, end)."""
    offset = slices[0].chunk.offset
    boxes = [(x.first, x.last, x.chunk.offset, x.chunk.end) for x in slices]
    boxes += [(x.first, x.last, offset, offset + buffer.place_bytes) for x in buffer.shared]
    return boxes


def _overlap(a: Box, b: Box) -> bool:
    return a[0] <= b[1] and b[0] <= a[1] and a[2] < b[3] and b[2] < a[3]


@settings(max_examples=150, deadline=None)
@given(_buffers(), st.sampled_from([1, 4]), st.sampled_from(list(SliceOrders)))
def test_no_two_buffers_overlap(
    buffers: list[SlicedBuffer], alignment: int, orders: SliceOrders
) -> None:
    placed = place_sliced(buffers, alignment, orders)
    for buffer in buffers:
        slices = placed[buffer.buffer]
        ends = [slices[0].chunk.offset, *[x.chunk.end for x in slices]]
        assert [x.chunk.offset for x in slices] == ends[:-1]
        assert [x.chunk.nbytes for x in slices] == list(buffer.sizes)
        assert sorted(x.first for x in slices) == list(buffer.starts)
        assert slices[0].chunk.offset % alignment == 0
    for a, b in combinations(buffers, 2):
        pairs = [
            (x, y)
            for x in _boxes(a, placed[a.buffer])
            for y in _boxes(b, placed[b.buffer])
            if _overlap(x, y)
        ]
        assert not pairs


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 12)] * 4), max_size=6),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.data(),
)
def test_the_first_fit_in_a_chunk_is_found(
    rows: list[tuple[int, ...]], sizes: list[int], data: st.DataObject
) -> None:
    """The only chunk begins at 0; compared with a search through all offsets and orders."""
    starts = sorted(
        data.draw(st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes)))
    )
    boxes = [(a, min(a + b, starts[-1] - 1), c, c + d + 1) for a, b, c, d in rows]
    boxes = [x for x in boxes if x[0] <= x[1]]
    sliced = SlicedBuffer(0, tuple(sizes), tuple(starts), 12)
    found = find_sliced(_placer(*boxes), sliced)

    def fits(offset: int, order: tuple[int, ...]) -> bool:
        for size, rank in zip(sizes, order, strict=True):
            box = (starts[rank], 12, offset, offset + size)
            if any(_overlap(box, x) for x in boxes):
                return False
            offset += size
        return True

    orders = list(permutations(range(len(sizes))))
    best = next(x for x in range(100) if any(fits(x, order) for order in orders))
    offset = found[0].chunk.offset
    assert offset >= best
    order = next(x for x in orders if fits(offset, x))
    if offset == best:
        assert [x.first for x in found] == [starts[x] for x in order]
    if min(sizes) == 1:
        assert offset == best
