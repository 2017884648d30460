"""A test whether a value may lie in an allocation beside those live at other times."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Final, Protocol, final

import numpy as np
import numpy.typing as npt

from lowtide.xla.analysis.hlo_value import HloValue
from lowtide.xla.analysis.ordering import Ordering
from lowtide.xla.analysis.partial_liveness import interference
from lowtide.xla.assigners.allocation_table import OpenAllocation
from lowtide.xla.assigners.heap_simulation import Ranges
from lowtide.xla.assigners.options import OperandSharing


class InterferenceCheck(Protocol):
    """Keeps what lies in each allocation, as far as it has been asked about it."""

    def allows(self, allocation: OpenAllocation[HloValue], values: Sequence[HloValue]) -> bool:
        """Whether none of some values is live together with one in the allocation."""

    def add(self, allocation: OpenAllocation[HloValue], value: HloValue) -> None:
        """Record that a value lies in an allocation now."""


_Entry = tuple[int, int, int]


@final
class TotalInterference:
    """By live ranges: they do not overlap, or touch where the later one takes over an operand."""

    def __init__(self, ranges: Ranges, sharing: OperandSharing) -> None:
        self._ranges = ranges
        self._sharing = sharing
        self._entries: dict[OpenAllocation[HloValue], list[_Entry]] = {}
        self._by_number = {value.number: value for value in ranges}

    def allows(self, allocation: OpenAllocation[HloValue], values: Sequence[HloValue]) -> bool:
        """Whether none of some values is live together with one in the allocation."""
        entries = self._entries_of(allocation)
        return all(self._fits(entries, value) for value in values)

    def add(self, allocation: OpenAllocation[HloValue], value: HloValue) -> None:
        """Record that a value lies in an allocation now."""
        entries = self._entries_of(allocation)
        entry = (*self._ranges[value], value.number)
        if entry not in entries:
            insort(entries, entry)

    def _entries_of(self, allocation: OpenAllocation[HloValue]) -> list[_Entry]:
        entries = self._entries.get(allocation)
        if entries is None:
            entries = sorted([(*self._ranges[x], x.number) for x in allocation.offsets])
            self._entries[allocation] = entries
        return entries

    def _fits(self, entries: list[_Entry], value: HloValue) -> bool:
        """Whether a range fits between others, of which none is within another one."""
        start, end = self._ranges[value]
        place = bisect_right(entries, end, key=_start)
        while place:
            place -= 1
            other_start, other_end, number = entries[place]
            if other_end < start:
                return True
            other = self._by_number[number]
            if other_end == start:
                earlier, later = other, value
            elif other_start == end:
                earlier, later = value, other
            else:
                return False
            if not self._sharing.may_take_over(later, frozenset(earlier.positions)):
                return False
        return True


def _start(entry: _Entry) -> int:
    return entry[0]


@final
class PartialInterference:
    """By an ordering: two values that no order separates may be live at once."""

    def __init__(self, ordering: Ordering, values: Sequence[HloValue]) -> None:
        self._found: Final = interference(ordering, values)
        self._place = {value: i for i, value in enumerate(self._found.values)}
        self._members: dict[OpenAllocation[HloValue], npt.NDArray[np.uint8]] = {}

    def allows(self, allocation: OpenAllocation[HloValue], values: Sequence[HloValue]) -> bool:
        """Whether none of some values is live together with one in the allocation."""
        members = self._members_of(allocation)
        rows = self._found.rows
        return not any((rows[self._place[value]] & members).any() for value in values)

    def add(self, allocation: OpenAllocation[HloValue], value: HloValue) -> None:
        """Record that a value lies in an allocation now."""
        place = self._place[value]
        self._members_of(allocation)[place >> 3] |= 1 << (place & 7)

    def _members_of(self, allocation: OpenAllocation[HloValue]) -> npt.NDArray[np.uint8]:
        members = self._members.get(allocation)
        if members is None:
            members = np.zeros(self._found.rows.shape[1], np.uint8)
            self._members[allocation] = members
            for value in allocation.offsets:
                self.add(allocation, value)
        return members
