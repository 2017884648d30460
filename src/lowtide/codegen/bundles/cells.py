"""Bytes that thunks read and write, as cells: bytes that no slice divides."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import BundleThunk, Thunk, all_thunks


def slices_touched(thunks: Sequence[Thunk]) -> list[BufferSlice]:
    """Return the distinct slices with bytes that thunks touch, in order; scratch is among them."""
    found: dict[BufferSlice, None] = {}
    for thunk in all_thunks(thunks):
        found |= dict.fromkeys(thunk.touches)
    return [x for x in found if x.allocation >= 0 and x.nbytes]


class Cells:
    """The cells of some slices, numbered by allocation and offset."""

    def __init__(self, slices: Iterable[BufferSlice]) -> None:
        self._starts: dict[int, list[int]] = {}
        self._first: dict[int, int] = {}
        edges: dict[int, set[int]] = {}
        for x in slices:
            edges.setdefault(x.allocation, set()).update((x.offset, x.offset + x.nbytes))
        count = 0
        for allocation in sorted(edges):
            self._starts[allocation] = sorted(edges[allocation])
            self._first[allocation] = count
            count += len(edges[allocation])
        self._count = count

    def of(self, place: BufferSlice) -> range:
        """Return the cells of a slice that begins and ends where cells do."""
        if place.allocation < 0 or not place.nbytes:
            return range(0)
        starts, first = self._starts[place.allocation], self._first[place.allocation]
        begin = bisect_left(starts, place.offset)
        end = bisect_left(starts, place.offset + place.nbytes)
        return range(first + begin, first + end)

    @property
    def count(self) -> int:
        """How many there are, with those of the bytes between slices."""
        return self._count


class OutsideReads:
    """Which bytes are read by whom: by a bundle, by several of them, by thunks in none."""

    def __init__(self, thunks: Sequence[Thunk], outputs: Sequence[BufferSlice]) -> None:
        reads: dict[tuple[BufferSlice, str], None] = {(x, ""): None for x in outputs}
        stack = [(x, "") for x in reversed(thunks)]
        while stack:
            thunk, owner = stack.pop()
            if isinstance(thunk, BundleThunk):
                stack += [(x, thunk.function) for x in thunk.parts]
                continue
            reads |= {(x, owner): None for x in thunk.reads if x.nbytes}
            stack += [(x, owner) for inner in thunk.sequences for x in inner]
        events: dict[int, list[tuple[int, int, str]]] = {}
        for x, owner in reads:
            found = events.setdefault(x.allocation, [])
            found += [(x.offset, 1, owner), (x.offset + x.nbytes, -1, owner)]
        self._cells: Mapping[int, tuple[list[int], list[str | None]]] = {
            allocation: _owners(sorted(found)) for allocation, found in events.items()
        }

    def has(self, place: BufferSlice, function: str) -> bool:
        """Return whether a byte of a slice is read by others than the bundle of a function."""
        starts, owners = self._cells.get(place.allocation, ([], []))
        first = bisect_left(starts, place.offset + 1) - 1
        for number in range(max(first, 0), bisect_left(starts, place.offset + place.nbytes)):
            owner = owners[number]
            if owner is not None and owner != function:
                return True
        return False


def _owners(events: Sequence[tuple[int, int, str]]) -> tuple[list[int], list[str | None]]:
    """Where stretches of bytes begin, and of each the only owner, "" for several, None for none."""
    starts: list[int] = []
    owners: list[str | None] = []
    active: dict[str, int] = {}
    for position, change, owner in events:
        active[owner] = active.get(owner, 0) + change
        if not active[owner]:
            del active[owner]
        now = None if not active else next(iter(active)) if len(active) == 1 else ""
        if starts and starts[-1] == position:
            owners[-1] = now
        else:
            starts.append(position)
            owners.append(now)
    return starts, owners
