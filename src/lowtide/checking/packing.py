"""Check offsets of intervals: the plain packing problem, without a program."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.checking.violation import Violation, ViolationKind


@dataclass(frozen=True, slots=True)
class PackingRow:
    """An interval that takes `size` bytes from step `lower` to step `upper`, not included."""

    id: str
    lower: int
    upper: int
    size: int


def check_packing(
    records: Sequence[PackingRow], offsets: Sequence[int], capacity: int | None = None
) -> tuple[Violation, ...]:
    """Return where intervals that are live at once overlap, or leave `capacity` bytes.

    Raises ValueError unless there is an offset for each record. An interval that lies over others
    which began before is reported with each of them; what lies over such an interval only is not.
    Time is n log n in the number of records and of overlaps.
    """
    if len(records) != len(offsets):
        raise ValueError(f"{len(records)} records, but {len(offsets)} offsets")
    found = []
    for record, offset in zip(records, offsets, strict=True):
        problem = _beyond(record, offset, capacity)
        if problem:
            found.append(Violation(ViolationKind.BOUNDS, problem, (record.id,)))
    return (*found, *_overlaps(records, offsets))


def height(records: Sequence[PackingRow], offsets: Sequence[int]) -> int:
    """Return the bytes that the packing takes: the end of the interval that reaches highest."""
    return max([x.size + y for x, y in zip(records, offsets, strict=True)], default=0)


def _beyond(record: PackingRow, offset: int, capacity: int | None) -> str:
    end = offset + record.size
    if offset < 0:
        return f"{record.id} lies below 0, at offset {offset:,}"
    if capacity is not None and end > capacity:
        return f"{record.id} ends at {end:,}, beyond the capacity of {capacity:,} bytes"
    return ""


def _overlaps(records: Sequence[PackingRow], offsets: Sequence[int]) -> list[Violation]:
    """Sweep over time; what is live and lies right stands sorted by offset."""
    events = []
    for number, record in enumerate(records):
        if record.size > 0 and record.lower < record.upper:
            events.append((record.lower, 1, number))
            events.append((record.upper, 0, number))
    events.sort()
    live: list[tuple[int, int]] = []
    wrong: set[int] = set()
    found = []
    for _, begins, number in events:
        key = (offsets[number], number)
        if begins:
            others = _met(records, offsets, live, number)
            if not others:
                insort(live, key)
                continue
            wrong.add(number)
            found += [_overlap(records, offsets, other, number) for other in others]
        elif number not in wrong:
            del live[bisect_left(live, key)]
    return found


def _met(
    records: Sequence[PackingRow],
    offsets: Sequence[int],
    live: Sequence[tuple[int, int]],
    number: int,
) -> list[int]:
    """Return which of `live`, sorted by offset and free of overlaps, an interval lies over."""
    start = offsets[number]
    end = start + records[number].size
    first = bisect_left(live, (start, -1))
    if first and live[first - 1][0] + records[live[first - 1][1]].size > start:
        first -= 1
    return [other for _, other in live[first : bisect_left(live, (end, -1))]]


def _overlap(
    records: Sequence[PackingRow], offsets: Sequence[int], first: int, second: int
) -> Violation:
    a, b = records[first], records[second]
    places = [f"{x:,} to {x + r.size:,}" for x, r in ((offsets[first], a), (offsets[second], b))]
    steps = (max(a.lower, b.lower), min(a.upper, b.upper))
    text = (
        f"{a.id} at {places[0]} and {b.id} at {places[1]} overlap from step {steps[0]:,} to "
        f"{steps[1]:,}"
    )
    return Violation(ViolationKind.OVERLAP, text, (a.id, b.id), steps)
