"""Streams: what conflicts is ordered, by events or by its stream, and nothing else has to be."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from lowtide.ir.buffer import BufferSlice
from lowtide.runtime.gpu.streams import StreamStep, Touched, in_streams


def place(offset: int, nbytes: int, allocation: int = 0) -> BufferSlice:
    return BufferSlice(allocation, offset, nbytes)


def step(reads: Sequence[BufferSlice] = (), writes: Sequence[BufferSlice] = ()) -> Touched:
    return Touched(tuple(reads), tuple(writes))


def meet(a: BufferSlice, b: BufferSlice) -> bool:
    if a.allocation != b.allocation:
        return False
    return max(a.offset, b.offset) < min(a.offset + a.nbytes, b.offset + b.nbytes)


def conflict(a: Touched, b: Touched) -> bool:
    pairs = [(x, y) for x in a.writes for y in (*b.reads, *b.writes)]
    pairs += [(x, y) for x in a.reads for y in b.writes]
    return any(meet(x, y) for x, y in pairs)


def ordered(steps: Sequence[StreamStep]) -> list[set[int]]:
    """Return for each step those that are done before it, by streams and events alone."""
    found: list[set[int]] = []
    for number, each in enumerate(steps):
        before = [x for x in range(number) if steps[x].stream == each.stream]
        direct = [*before[-1:], *each.waits]
        found.append({y for x in direct for y in (x, *found[x])})
    return found


def random_steps(seed: int) -> list[Touched]:
    draw = random.Random(seed)

    def places() -> list[BufferSlice]:
        count = draw.randrange(3)
        return [
            place(draw.randrange(40), draw.randrange(12), draw.randrange(2)) for _ in range(count)
        ]

    return [step(places(), places()) for _ in range(draw.randrange(1, 25))]


@pytest.mark.parametrize("seed", range(300))
def test_all_conflicts_are_ordered_and_each_event_is_needed(seed: int) -> None:
    steps = random_steps(seed)
    streams = 1 + seed % 4
    found = in_streams(steps, streams)
    assert {x.stream for x in found} <= set(range(streams))
    before = ordered(found)
    for b, later in enumerate(steps):
        for a, earlier in enumerate(steps[:b]):
            if conflict(earlier, later):
                assert a in before[b], (a, b)
    for number, each in enumerate(found):
        for other in each.waits:
            less = list(found)
            less[number] = StreamStep(each.stream, tuple(x for x in each.waits if x != other))
            assert other not in ordered(less)[number], "an event that the others imply"


def test_what_touches_nothing_in_common_runs_at_once() -> None:
    found = in_streams([step(writes=[place(16 * i, 16)]) for i in range(4)], 4)
    assert [x.stream for x in found] == [0, 1, 2, 3]
    assert not any(x.waits for x in found)


def test_a_chain_stays_in_one_stream() -> None:
    steps = [step([place(16 * i, 16)], [place(16 * i + 16, 16)]) for i in range(5)]
    found = in_streams(steps, 4)
    assert [(x.stream, x.waits) for x in found] == [(0, ())] * 5


def test_memory_that_is_used_again_is_waited_for() -> None:
    first = step(writes=[place(0, 16)])
    reader = step([place(0, 16)], [place(32, 16)])
    other = step([place(0, 16)], [place(64, 16)])
    again = step(writes=[place(8, 4)])
    found = in_streams([first, reader, other, again], 2)
    before = ordered(found)
    assert {1, 2} <= before[3]
