"""Results as allocations of their own: cut out of an arena where nothing lies across their ends."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lowtide.ir.buffer import (
    Allocation,
    AllocationKind,
    AssignedValue,
    BufferAssignment,
    BufferSlice,
    CallSite,
)
from lowtide.records import dataclass
from lowtide.runtime.cpu.arena import LINE


@dataclass(frozen=True, slots=True)
class _Cut:
    """The bytes of an arena from `begin` to `end` (not included), from now on `allocation`."""

    begin: int
    end: int
    allocation: int


def with_own_results(assignment: BufferAssignment, least: int) -> BufferAssignment:
    """Return an assignment in which results of `least` bytes and more are allocations.

    They leave the arena where each other slice of it lies either within or beside them; what lies
    behind them moves up, so that all allocations together are no larger than the arena was, but for
    the rest below a line of each. Offsets of these results are multiples of a line, and so is how
    far others move: every address keeps the zeros at its end. Temporaries may lie in a result
    before it is written. The same assignment is returned where there is nothing to cut out.

      arena    |  a  |  result  | b |          arena    |  a  | b |
               |t1|t2| t3 |     |t4 |    ->             |t1|t2|t4 |
                                               output   |  result  |
                                                        | t3 |
    """
    allocations, cuts = list(assignment.allocations), dict[int, list[_Cut]]()
    for allocation in assignment.allocations:
        if allocation.kind is AllocationKind.ARENA:
            found = [
                _Cut(begin, end, len(allocations) + number)
                for number, (begin, end) in enumerate(_cuts(assignment, allocation.index, least))
            ]
            if found:
                cuts[allocation.index] = found
                allocations += [_output(allocation, x) for x in found]
    if not cuts:
        return assignment
    moves = {arena: _move(found) for arena, found in cuts.items()}
    for arena, found in cuts.items():
        less = sum([_moved_by(x) for x in found])
        allocations[arena] = replace(allocations[arena], nbytes=allocations[arena].nbytes - less)

    def moved(place: BufferSlice) -> BufferSlice:
        return moves[place.allocation](place) if place.allocation in moves else place

    cut_bytes = sum([x.end - x.begin for found in cuts.values() for x in found])
    return replace(
        assignment,
        allocations=tuple(allocations),
        call_sites=tuple([_site(x, moved) for x in assignment.call_sites]),
        outputs=tuple([moved(x) for x in assignment.outputs]),
        kept_bytes=max(0, assignment.kept_bytes - cut_bytes),
        values=tuple([_value(x, moved) for x in assignment.values]),
        heap_traces=(),
        peak_values={},
    )


def _output(arena: Allocation, cut: _Cut) -> Allocation:
    return Allocation(
        cut.allocation,
        AllocationKind.OUTPUT,
        cut.end - cut.begin,
        colour=arena.colour,
        maybe_live_out=True,
    )


def _cuts(assignment: BufferAssignment, arena: int, least: int) -> list[tuple[int, int]]:
    """The begins and ends of the results that can leave an arena, in order."""
    wanted = {x for x in assignment.outputs if x.allocation == arena and x.nbytes >= least}
    candidates = sorted(
        [(x.offset, x.offset + x.nbytes) for x in wanted if x.offset % LINE == 0],
        key=lambda ends: (ends[0], -ends[1]),
    )
    apart: list[tuple[int, int]] = []
    for begin, end in candidates:
        if not apart or begin >= apart[-1][1]:
            apart.append((begin, end))
    if not apart:
        return []
    slices = {x for x in _slices(assignment) if x.allocation == arena and x.nbytes}
    crossed = _crossed(apart, slices)
    return [x for number, x in enumerate(apart) if number not in crossed]


def _crossed(apart: Sequence[tuple[int, int]], slices: set[BufferSlice]) -> set[int]:
    """The numbers of the stretches, in order and apart, that a slice shares only some bytes with.

    A slice within a stretch does no harm, nor does one beside it.
    """
    begins = [begin for begin, _ in apart]
    found = set[int]()
    for x in slices:
        begin, end = x.offset, x.offset + x.nbytes
        number = max(0, bisect_right(begins, begin) - 1)
        while number < len(apart) and apart[number][0] < end:
            low, high = apart[number]
            if begin < high and not (low <= begin and end <= high):
                found.add(number)
            number += 1
    return found


def _slices(assignment: BufferAssignment) -> Iterator[BufferSlice]:
    """All slices that an assignment has."""
    yield from assignment.outputs
    for site in assignment.call_sites:
        for places in site.slices.values():
            yield from [x for x in places if x is not None]
        yield from site.tables.values()
        yield from site.scratch.values()
    for value in assignment.values:
        yield value.place


def _moved_by(cut: _Cut) -> int:
    """How many bytes what lies behind a stretch moves up when that is gone."""
    return (cut.end - cut.begin) // LINE * LINE


def _move(cuts: Sequence[_Cut]) -> Callable[[BufferSlice], BufferSlice]:
    """Return where slices of an arena lie once stretches of it, in order, are allocations."""
    begins = [x.begin for x in cuts]
    moved_by = [0]
    for x in cuts:
        moved_by.append(moved_by[-1] + _moved_by(x))

    def moved(place: BufferSlice) -> BufferSlice:
        if not place.nbytes:
            return place
        number = bisect_right(begins, place.offset)
        cut = cuts[number - 1] if number else None
        if cut is not None and place.offset < cut.end:
            return BufferSlice(cut.allocation, place.offset - cut.begin, place.nbytes)
        return BufferSlice(place.allocation, place.offset - moved_by[number], place.nbytes)

    return moved


def _site(site: CallSite, moved: Callable[[BufferSlice], BufferSlice]) -> CallSite:
    return replace(
        site,
        slices={
            instruction: tuple([None if x is None else moved(x) for x in places])
            for instruction, places in site.slices.items()
        },
        tables={key: moved(x) for key, x in site.tables.items()},
        scratch={instruction: moved(x) for instruction, x in site.scratch.items()},
    )


def _value(value: AssignedValue, moved: Callable[[BufferSlice], BufferSlice]) -> AssignedValue:
    return replace(value, place=moved(value.place))
