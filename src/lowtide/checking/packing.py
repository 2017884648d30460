"""Check offsets of intervals: the plain packing problem, without a program."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowtide.checking.violation import Violation, ViolationKind


@dataclass(frozen=True, slots=True)
class PackingRow:
    """An interval that takes `size` bytes from step `lower` to step `upper`, not included.

    It takes none from the first to the second step, not included, of each of `gaps`. Its offset is
    a multiple of `alignment`, and where `fixed` is given, that.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    gaps: tuple[tuple[int, int], ...] = ()
    fixed: int | None = None

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Yield where it takes memory, the end not included, without empty stretches."""
        begin = self.lower
        for first, last in sorted(self.gaps):
            if begin < min(first, self.upper):
                yield begin, min(first, self.upper)
            begin = max(begin, last)
        if begin < self.upper:
            yield begin, self.upper


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
    if record.fixed is not None and offset != record.fixed:
        return f"{record.id} lies at offset {offset:,}; it has to lie at {record.fixed:,}"
    if offset % record.alignment:
        return f"{record.id} lies at offset {offset:,}, no multiple of {record.alignment:,}"
    if capacity is not None and end > capacity:
        return f"{record.id} ends at {end:,}, beyond the capacity of {capacity:,} bytes"
    return ""


def _overlaps(records: Sequence[PackingRow], offsets: Sequence[int]) -> list[Violation]:
    """Sweep over time; what is live and lies right stands sorted by offset."""
    live: list[tuple[int, int]] = []
    wrong: set[int] = set()
    found = []
    for step, begins, number in sorted(_events(records)):
        key = (offsets[number], number)
        if begins:
            others = _met(records, offsets, live, number)
            if not others:
                insort(live, key)
                continue
            wrong.add(number)
            found += [_overlap(records, offsets, other, number, step) for other in others]
        elif number in wrong:
            wrong.remove(number)
        else:
            del live[bisect_left(live, key)]
    return found


def _events(records: Sequence[PackingRow]) -> Iterator[tuple[int, int, int]]:
    """Yield (step, whether it begins there, number) of the beginnings and ends of intervals."""
    for number, record in enumerate(records):
        if record.size <= 0:
            continue
        if not record.gaps and record.lower < record.upper:
            yield record.lower, 1, number
            yield record.upper, 0, number
            continue
        for first, last in record.stretches():
            yield first, 1, number
            yield last, 0, number


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
    records: Sequence[PackingRow], offsets: Sequence[int], first: int, second: int, step: int
) -> Violation:
    a, b = records[first], records[second]
    places = [f"{x:,} to {x + r.size:,}" for x, r in ((offsets[first], a), (offsets[second], b))]
    stop = min([_end(a, step), _end(b, step)])
    text = f"{a.id} at {places[0]} and {b.id} at {places[1]} overlap from step {step:,} to {stop:,}"
    return Violation(ViolationKind.OVERLAP, text, (a.id, b.id), (step, stop))


def _end(record: PackingRow, step: int) -> int:
    """The end of the stretch in which an interval takes memory at a step."""
    return next(last for first, last in record.stretches() if first <= step < last)
