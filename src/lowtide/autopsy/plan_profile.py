"""The buffers of a plan that are live at each step, and its peak."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.analysis.flat_schedule import FlatSchedule
from lowtide.analysis.live_range import memory_profile
from lowtide.ir import Instruction
from lowtide.ir.buffer import AllocationKind, BufferAssignment, BufferSlice
from lowtide.records import dataclass

_PER_CALL: Final = frozenset({AllocationKind.ARENA, AllocationKind.OUTPUT})


@dataclass(frozen=True, slots=True)
class HeldSlice:
    """A slice that is taken, by value `value` of the flat schedule, and as what.

    `nbytes` of it are in no slice that a later value got. `kind` is "temporary", "output", or
    "argument" for one that an output overwrites.
    """

    value: int
    place: BufferSlice
    nbytes: int
    kind: str


@dataclass(frozen=True, slots=True)
class PlanProfile:
    """The step at which most of a plan's memory is taken, and by what.

    Arguments that outputs overwrite count, others and constants do not. `live_bytes` is what is
    taken at that step, each byte once, less `alias_bytes`, the size of these arguments. Values
    of `unplaced_bytes` bytes have no place in the plan.
    """

    position: int
    held: tuple[HeldSlice, ...]
    live_bytes: int
    alias_bytes: int
    unplaced_bytes: int


@dataclass(frozen=True, slots=True)
class TakenSlice:
    """A slice for as long as it is taken: steps from `first` to `last`, both included.

    `value` is the first one in it, `kind` as in `HeldSlice`.
    """

    value: int
    place: BufferSlice
    first: int
    last: int
    kind: str


def taken_slices(flat: FlatSchedule, assignment: BufferAssignment) -> tuple[TakenSlice, ...]:
    """Return all that a plan has in memory over time, in the order of the flat schedule."""
    return _Profiler(flat, assignment).taken()


def plan_profile(flat: FlatSchedule, assignment: BufferAssignment) -> PlanProfile:
    """Return when the memory of a plan is fullest, in the order of the flat schedule.

    A slice is taken from the definition of a value in it to its last use, both included.
    """
    return _Profiler(flat, assignment).run()


class _Profiler:
    def __init__(self, flat: FlatSchedule, assignment: BufferAssignment) -> None:
        self.flat = flat
        self.assignment = assignment
        self.aliased = {
            x.index for x in assignment.allocations if x.parameter and x.output is not None
        }
        self.counted = self.aliased | {
            x.index for x in assignment.allocations if x.kind in _PER_CALL
        }
        self.unplaced = 0

    def run(self) -> PlanProfile:
        length = max(1, self.flat.length)
        placed = self._placed()
        rows = sorted({row for value, place in placed for row in self._rows(value, place)})
        merged = np.array(_merged(rows), np.int64).reshape(-1, 3)
        profile = memory_profile(length, merged[:, 0], merged[:, 1], merged[:, 2])
        position = int(profile.argmax())
        held = self._held(placed, position)
        alias_bytes = sum([self.assignment.allocations[x].nbytes for x in self.aliased])
        taken = sum([x.nbytes for x in held])
        return PlanProfile(position, held, max(0, taken - alias_bytes), alias_bytes, self.unplaced)

    def taken(self) -> tuple[TakenSlice, ...]:
        outputs = set(self.assignment.outputs)
        rows = [
            (*row, value, place)
            for value, place in self._placed()
            for row in self._rows(value, place)
        ]
        found: list[TakenSlice] = []
        for *_, first, last, value, place in sorted(rows, key=lambda row: row[:6]):
            before = found[-1] if found and found[-1].place == place else None
            if before is not None and first <= before.last:
                found[-1] = replace(before, last=max(last, before.last))
            else:
                found.append(TakenSlice(value, place, first, last, self._kind(place, outputs)))
        return tuple(found)

    def _placed(self) -> list[tuple[int, BufferSlice]]:
        """Each value whose memory counts, with its slice."""
        values = self.flat.values
        tables = self._tables()
        found = []
        for value, nbytes in enumerate(values.nbytes):
            if not nbytes:
                continue
            maker, leaf = values.maker[value], values.leaf[value]
            places = tables[values.site[value]].get(maker)
            place = None if places is None else places[leaf]
            if place is None:
                self.unplaced += nbytes
            elif place.allocation in self.counted:
                found.append((value, place))
        return found

    def _tables(self) -> list[Mapping[Instruction, tuple[BufferSlice | None, ...]]]:
        """Per call site of the flat schedule the slices that the plan has for it.

        Both number the sites, each in its own way.
        """
        known: dict[tuple[object, ...], int] = {}
        theirs = _numbered([(x.caller, x.parent) for x in self.assignment.call_sites], known)
        mine = _numbered([(x.caller, x.parent) for x in self.flat.sites], known)
        slices = dict(zip(theirs, [x.slices for x in self.assignment.call_sites], strict=True))
        return [slices.get(number, {}) for number in mine]

    def _rows(self, value: int, place: BufferSlice) -> Iterable[tuple[int, int, int, int, int]]:
        end = max(0, self.flat.length - 1)
        for first, last in self.flat.stretches_of(value):
            begin = min(first, end)
            yield place.allocation, place.offset, place.nbytes, begin, min(max(last, begin), end)

    def _held(self, placed: list[tuple[int, BufferSlice]], position: int) -> tuple[HeldSlice, ...]:
        """The slices taken at a position, each with the last value that got it."""
        found: dict[BufferSlice, int] = {}
        for value, place in placed:
            if not any(row[3] <= position <= row[4] for row in self._rows(value, place)):
                continue
            if place not in found or self._first(found[place]) <= self._first(value):
                found[place] = value
        order = sorted(found, key=lambda place: -self._first(found[place]))
        taken = _apart(order)
        outputs = set(self.assignment.outputs)
        return tuple(
            [
                HeldSlice(found[place], place, nbytes, self._kind(place, outputs))
                for place, nbytes in zip(order, taken, strict=True)
                if nbytes
            ]
        )

    def _first(self, value: int) -> int:
        return self.flat.values.first[value]

    def _kind(self, place: BufferSlice, outputs: set[BufferSlice]) -> str:
        if place.allocation in self.aliased:
            return "argument"
        return "output" if place in outputs else "temporary"


def _numbered(
    sites: list[tuple[Instruction | None, int]], known: dict[tuple[object, ...], int]
) -> list[int]:
    """Return a number per call site: equal for equal callers up to the entry, by means of `known`.

    Of several callees of one caller, the first of the list is the first.
    """
    numbers: list[int] = []
    counts: dict[tuple[int, Instruction | None], int] = {}
    for caller, parent in sites:
        ordinal = counts.get((parent, caller), 0)
        counts[parent, caller] = ordinal + 1
        above = -1 if parent < 0 else numbers[parent]
        numbers.append(known.setdefault((above, caller, ordinal), len(known)))
    return numbers


def _merged(rows: list[tuple[int, int, int, int, int]]) -> list[tuple[int, int, int]]:
    """(bytes, first, last) of the times in which a slice is taken, by whatever values."""
    merged: list[tuple[int, int, int]] = []
    current: tuple[int, int, int] | None = None
    for allocation, offset, nbytes, first, last in rows:
        place = (allocation, offset, nbytes)
        if place == current and first <= merged[-1][2]:
            merged[-1] = (nbytes, merged[-1][1], max(last, merged[-1][2]))
        else:
            merged.append((nbytes, first, last))
        current = place
    return merged


def _apart(places: list[BufferSlice]) -> list[int]:
    """How many bytes of each slice lie in none of the slices before it in the list."""
    cuts: dict[int, set[int]] = {}
    for place in places:
        cuts.setdefault(place.allocation, set()).update((place.offset, place.offset + place.nbytes))
    bounds = {allocation: sorted(found) for allocation, found in cuts.items()}
    following = {x: list(range(len(found))) for x, found in bounds.items()}
    taken = []
    for place in places:
        edges, free = bounds[place.allocation], following[place.allocation]
        end = bisect_left(edges, place.offset + place.nbytes)
        nbytes = 0
        at = _next_free(free, bisect_left(edges, place.offset))
        while at < end:
            nbytes += edges[at + 1] - edges[at]
            free[at] = at + 1
            at = _next_free(free, at + 1)
        taken.append(nbytes)
    return taken


def _next_free(following: list[int], piece: int) -> int:
    """The first piece from `piece` on that is not taken; the way there is shortened."""
    found = piece
    while following[found] != found:
        found = following[found]
    while following[piece] != found:
        following[piece], piece = found, following[piece]
    return found
