"""Copies to another memory and back: when they begin and end, and the time that they cost.

device   [ p ][ store begins ][ ... ][ store ends, may wait ][ ... ][ return ends ][ reader ]
out           [ v                 ]
back                                            [ v               ]

Each way carries one copy at a time, in the order in which they begin. The device computes meanwhile
and waits where a copy that ends there has not ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np

from lowtide.records import dataclass
from lowtide.remat.measure import step_bytes
from lowtide.remat.returns import ReturnGraph, Stay, staying, stays
from lowtide.remat.tables import Float64Array, Int64Array, RematTables


@dataclass(frozen=True, slots=True)
class Transfer:
    """The begin or the end of a copy of a value to another memory, or back from there."""

    value: int
    is_back: bool
    is_end: bool


Step: TypeAlias = "int | Transfer"


@dataclass(frozen=True, slots=True)
class Transferred:
    """A sequence of nodes and transfers, the bytes of its largest step, and where it waits.

    `extra_seconds` are those beyond one run of each node, waits among them.
    """

    steps: tuple[Step, ...]
    peak_bytes: int
    extra_seconds: float
    waits: tuple[LinkWait, ...]


@dataclass(frozen=True, slots=True)
class LinkWait:
    """A transfer at which the device waits for so many seconds."""

    seconds: float
    transfer: Transfer


def waits_of(
    steps: Iterable[Step], seconds: Float64Array, copies: Mapping[int, float]
) -> list[LinkWait]:
    """Return where a sequence waits; `copies` has the seconds of a copy of each value."""
    now, free, ends = 0.0, [0.0, 0.0], dict[tuple[int, bool], float]()
    waits: list[LinkWait] = []
    for step in steps:
        if not isinstance(step, Transfer):
            now += float(seconds[step])
            continue
        key = step.value, step.is_back
        if not step.is_end:
            free[step.is_back] = max(now, free[step.is_back]) + copies[step.value]
            ends[key] = free[step.is_back]
        elif ends[key] > now:
            waits.append(LinkWait(ends[key] - now, step))
            now = ends[key]
    return waits


def transferred(
    found: ReturnGraph, tables: RematTables, sequence: Int64Array, cap: int, copies: Float64Array
) -> Transferred:
    """Return a sequence with its copies written out, in at most `cap` bytes or those it has.

    Copies have as much time as there are bytes for: to store a value ends late, to bring one back
    begins early. `copies` has the seconds of a copy of each of the graph's values.
    """
    placing = _Placing(found, tables, sequence, cap, copies)
    placing.stores()
    placing.returns()
    steps = tuple(placing.written(sequence))
    by_value = dict(zip(found.values, copies.tolist(), strict=True))
    waits = tuple(waits_of(steps, found.graph.seconds, by_value))
    again = np.bincount(sequence, minlength=found.first)[: found.first] - 1
    extra = float(np.dot(again, found.graph.seconds[: found.first]))
    extra += sum([wait.seconds for wait in waits])
    return Transferred(steps, int(placing.bytes.max(initial=0)), extra, waits)


def with_fewer_waits(
    found: ReturnGraph,
    tables: RematTables,
    sequence: Int64Array,
    cap: int,
    copies: Float64Array,
    late: Callable[[], bool],
) -> Transferred:
    """Return a sequence as `transferred` does, in which values stay that are waited for.

    That is tried from the longest wait on, until `late` says so, and kept where it takes less time.
    """
    best = transferred(found, tables, sequence, cap, copies)
    tried: set[int] = set()
    for _ in range(_TRIES):
        waits = sorted(best.waits, key=lambda x: (-x.seconds, x.transfer.value))
        left = [x.transfer.value for x in waits if x.transfer.value not in tried]
        if not left or late():
            break
        tried.add(left[0])
        shorter = staying(found, tables, sequence, found.values.index(left[0]), cap)
        made = transferred(found, tables, shorter, cap, copies)
        if made.extra_seconds < best.extra_seconds:
            best, sequence = made, shorter
    return best


_TRIES: Final = 30


_OUT_BEGINS, _OUT_ENDS, _BACK_BEGINS, _BACK_ENDS = range(4)
_ENDS: Final = (_OUT_ENDS, _BACK_ENDS)


class _Placing:
    """Places of the ends of copies: place `t` is before step `t` of the sequence."""

    def __init__(
        self,
        found: ReturnGraph,
        tables: RematTables,
        sequence: Int64Array,
        cap: int,
        copies: Float64Array,
    ) -> None:
        self.found = found
        self.bytes = step_bytes(tables, sequence)
        self.cap = cap
        self.copies = copies
        seconds = np.where(sequence < found.first, found.graph.seconds[sequence], 0.0)
        self.clock = np.concatenate([[0.0], np.cumsum(seconds)])
        """When each step begins where nothing waits."""
        self.made, kept = stays(found, sequence)
        self.stays = [[x for x in row if x.uses] for row in kept]
        self.stored = [0] * len(kept)
        """Per value the place before which it is stored."""
        self.events: list[tuple[int, int, int, int]] = []
        """Places, kinds, what decides among equal ones, and values."""

    def stores(self) -> None:
        """Place the copies out: each begins behind what makes the value, and ends at leisure."""
        sizes, free = self.found.sizes, 0.0
        moved = [k for k, row in enumerate(self.stays) if any(x.is_back for x in row)]
        for k in sorted(moved, key=lambda k: (self.made[k], k)):
            begin = self.made[k] + 1
            free = max(float(self.clock[begin]), free) + float(self.copies[k])
            first = self.stays[k][0]
            left = begin if first.is_back else first.uses[-1] + 1
            back = next(x.begin for x in self.stays[k] if x.is_back)
            wanted = int(np.searchsorted(self.clock, free))
            end = max(left, min(wanted, back))
            self.stored[k] = left + self._held(left, end, int(sizes[k]))
            self.events.append((begin, _OUT_BEGINS, 0, k))
            self.events.append((self.stored[k], _OUT_ENDS, 0, k))

    def returns(self) -> None:
        """Place the copies back: each ends before its first reader, and begins in good time."""
        sizes, free = self.found.sizes, math.inf
        rows = [(k, place) for k, row in enumerate(self.stays) for place in range(len(row))]
        rows = [(k, place) for k, place in rows if self.stays[k][place].is_back]
        rows.sort(key=lambda x: (-self.stays[x[0]][x[1]].uses[0], x[0]))
        for k, place in rows:
            stay = self.stays[k][place]
            needed = stay.uses[0]
            free = min(float(self.clock[needed]), free) - float(self.copies[k])
            wanted = int(np.searchsorted(self.clock, free, side="right")) - 1
            begin = min(stay.begin, max(wanted, self._gone(k, place)))
            begin = stay.begin - self._held(begin, stay.begin, int(sizes[k]), is_back=True)
            self.events.append((begin, _BACK_BEGINS, needed, k))
            self.events.append((needed, _BACK_ENDS, 0, k))

    def _gone(self, k: int, place: int) -> int:
        """The place from which on a value is stored and no longer in memory."""
        before: list[Stay] = self.stays[k][:place]
        return max([self.stored[k], *[x.uses[-1] + 1 for x in before[-1:]]])

    def _held(self, begin: int, end: int, size: int, *, is_back: bool = False) -> int:
        """Hold so many bytes more in steps from the begin on, or up to the end, while they fit.

        Returns the number of steps.
        """
        steps = self.bytes[begin:end]
        fits = steps + size <= self.cap
        fits = fits[::-1] if is_back else fits
        count = len(fits) if fits.all() else int(fits.argmin())
        held = steps[len(steps) - count :] if is_back else steps[:count]
        held += size
        return count

    def written(self, sequence: Int64Array) -> Iterable[Step]:
        """Yield the steps, with the transfers where they are placed and without returns."""
        events = sorted(self.events, reverse=True)
        for place, node in enumerate([*sequence.tolist(), -1]):
            while events and events[-1][0] == place:
                _, kind, _, k = events.pop()
                yield Transfer(self.found.values[k], kind >= _BACK_BEGINS, kind in _ENDS)
            if 0 <= node < self.found.first:
                yield node
