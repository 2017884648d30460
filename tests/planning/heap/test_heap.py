"""Heap algorithms: what holds of every layout, and single rules."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.planning.heap import fast
from lowtide.planning.heap.best_fit import (
    Placement,
    PlacingOrder,
    best_fit_heap,
    choose_best,
    packing_search,
)
from lowtide.planning.heap.combine import in_runs_of_decreasing_size
from lowtide.planning.heap.fast import fast_merge, fast_split
from lowtide.planning.heap.intervals import Interval, intervals
from lowtide.planning.heap.lazy import lazy_best_fit
from lowtide.planning.heap.statistics import most_live_bytes
from lowtide.planning.heap.steps import HeapAlgorithm, HeapLayout, HeapStep, HeapStepKind

KINDS = {"A": HeapStepKind.ALLOCATE, "F": HeapStepKind.FREE, "S": HeapStepKind.SHARE}

ALGORITHMS: dict[str, HeapAlgorithm] = {
    "lazy": lazy_best_fit,
    "runs": in_runs_of_decreasing_size(lazy_best_fit),
    "best of": choose_best(),
    "fast merge": fast_merge(),
    "fast split": fast_split(),
    "lowest": best_fit_heap(placement=Placement.LOWEST),
    "search": packing_search(),
} | {order.value: best_fit_heap(order) for order in PlacingOrder}


def _steps(events: list[list[Any]]) -> list[HeapStep]:
    """The events of a case; the letters that name buffers become their places in the alphabet."""
    steps = []
    for kind, buffer, *rest in events:
        shares = ord(rest[0]) if kind == "S" else -1
        steps.append(HeapStep(KINDS[kind], ord(buffer), rest[-1], shares))
    return steps


def _named(layout: HeapLayout) -> tuple[dict[str, int], dict[str, int], list[list[str]]]:
    chunks = [(chr(x), chunk) for heap in layout.heaps for x, chunk in heap.chunks.items()]
    heaps = [sorted(map(chr, heap.chunks)) for heap in layout.heaps]
    return {x: c.offset for x, c in chunks}, {x: c.nbytes for x, c in chunks}, heaps


@st.composite
def _events(draw: st.DrawFn) -> list[HeapStep]:
    """Events in which each buffer is freed; some share the place of one that is live."""
    steps: list[HeapStep] = []
    live: dict[int, int] = {}
    for number in range(draw(st.integers(1, 25))):
        freed = [x for x in live if draw(st.booleans())]
        steps += [HeapStep(HeapStepKind.FREE, x, live.pop(x)) for x in freed]
        if live and draw(st.integers(0, 4)) == 0:
            other = draw(st.sampled_from(sorted(live)))
            steps.append(HeapStep(HeapStepKind.SHARE, number, live[other], other))
            live[number] = live[other]
            continue
        live[number] = draw(st.sampled_from([0, 1, 8, 64, 100, 4096]))
        steps.append(HeapStep(HeapStepKind.ALLOCATE, number, live[number]))
    return steps + [HeapStep(HeapStepKind.FREE, x, nbytes) for x, nbytes in live.items()]


def _overlapping(layout: HeapLayout, found: list[Interval]) -> Iterator[tuple[int, int]]:
    for heap in layout.heaps:
        for a in found:
            for b in found:
                if a.group == b.group or a.first > b.last or b.first > a.last:
                    continue
                if not (a.buffer in heap.chunks and b.buffer in heap.chunks):
                    continue
                x, y = heap.chunks[a.buffer], heap.chunks[b.buffer]
                if a.nbytes and b.nbytes and x.offset < y.end and y.offset < x.end:
                    yield a.buffer, b.buffer


@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=40, deadline=None)
@given(steps=_events(), alignment=st.sampled_from([1, 64]))
def test_layouts_are_disjoint_aligned_and_no_smaller_than_what_is_live(
    name: str, steps: list[HeapStep], alignment: int
) -> None:
    layout = ALGORITHMS[name](steps, alignment)
    found = intervals(steps)
    assert not list(_overlapping(layout, found))
    chunks = {x: chunk for heap in layout.heaps for x, chunk in heap.chunks.items()}
    assert sorted(chunks) == sorted(x.buffer for x in found)
    assert all(chunk.offset % alignment == 0 for chunk in chunks.values())
    assert all(chunks[x.buffer] == chunks[x.group] for x in found)
    assert all(chunk.end <= layout.nbytes for chunk in chunks.values())
    assert layout.nbytes >= most_live_bytes(steps)


@settings(max_examples=40, deadline=None)
@given(steps=_events(), alignment=st.sampled_from([1, 24]), limit=st.sampled_from([-1, 300]))
def test_fast_split_with_few_large_buffers(
    steps: list[HeapStep], alignment: int, limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "LARGEST", 2)
        layout = fast_split(limit)(steps, alignment)
    assert not list(_overlapping(layout, intervals(steps)))
    placed = [x for heap in layout.heaps for x in heap.chunks]
    assert sorted(placed) == sorted(x.buffer for x in intervals(steps))


@settings(max_examples=30, deadline=None)
@given(steps=_events())
def test_a_limit_holds_for_each_heap_with_several_buffers(steps: list[HeapStep]) -> None:
    for algorithm in (best_fit_heap(PlacingOrder.SPATIAL, 128), fast_merge(128)):
        layout = algorithm(steps, 1)
        for heap in layout.heaps:
            ends = [chunk.end for chunk in heap.chunks.values() if chunk.end > 128]
            assert ends in ([], [heap.nbytes] * len(ends))
            assert not ends or max(x.nbytes for x in heap.chunks.values()) == heap.nbytes
    assert not list(_overlapping(layout, intervals(steps)))


def test_lazy_best_fit_leaves_the_place_open_until_the_buffer_is_freed() -> None:
    events = [["A", "a", 10], ["A", "b", 20], ["F", "b", 20], ["A", "c", 30], ["F", "c", 30]]
    steps = _steps([*events, ["F", "a", 10]])
    assert _named(lazy_best_fit(steps, 1))[0] == {"b": 0, "c": 20, "a": 50}
    assert lazy_best_fit(steps, 1).nbytes == 60


def test_runs_come_largest_first() -> None:
    events = [["A", "a", 10], ["A", "b", 20], ["F", "a", 10], ["F", "b", 20]]
    layout = in_runs_of_decreasing_size(lazy_best_fit)(_steps(events), 1)
    assert _named(layout)[0] == {"b": 0, "a": 20}


def test_fast_merge_takes_the_free_end_of_the_heap_and_pads_what_it_takes() -> None:
    events = [["A", "a", 10], ["A", "b", 10], ["F", "b", 10], ["A", "c", 30], ["F", "a", 10]]
    events += [["F", "c", 30]]
    assert _named(fast_merge()(_steps(events), 1))[0] == {"a": 0, "b": 10, "c": 10}
    assert _named(fast_merge()(_steps(events), 16))[0] == {"a": 0, "b": 16, "c": 16}


def test_fast_merge_tries_no_second_chunk_where_the_first_is_above_the_limit() -> None:
    events = [["A", "a", 20], ["A", "b", 5], ["A", "c", 9], ["F", "a", 20], ["A", "d", 9]]
    events += [["F", x, n] for x, n in (("b", 5), ("c", 9), ("d", 9))]
    layout = fast_merge(34)(_steps(events), 1)
    assert _named(layout)[0] == {"a": 0, "b": 20, "c": 25, "d": 0}


def test_fast_split_places_the_rest_above_what_is_large_or_shared() -> None:
    count = 600
    steps = [HeapStep(HeapStepKind.ALLOCATE, x, 1000 - x) for x in range(count)]
    steps += [HeapStep(HeapStepKind.FREE, x, 1000 - x) for x in range(count)]
    layout = fast_split()(steps, 1)
    chunks = layout.heaps[0].chunks
    assert max(chunks[x].end for x in range(500)) <= min(chunks[x].offset for x in range(500, 600))
    assert layout.nbytes == most_live_bytes(steps)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([["A", "a", 1], ["A", "a", 1]], "buffer 97 is allocated twice"),
        ([["F", "a", 1]], "buffer 97 is freed but not allocated"),
        ([["S", "b", "a", 1]], "buffer 98 shares with 97, which is not there"),
    ],
)
def test_events_that_cannot_be(events: list[list[Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        intervals(_steps(events))
