"""Bytes that a part of a program may write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lowtide.checking.elements import CheckedElements
from lowtide.checking.sites import CheckedSite
from lowtide.checking.values import ComputationValues
from lowtide.ir import Computation, Opcode
from lowtide.ir.buffer import AllocationKind, BufferAssignment

Range = tuple[int, int, int]
"""An allocation, the first byte, the byte behind the last one."""

_MADE_ELSEWHERE: Final = frozenset({Opcode.CALL, Opcode.CONSTANT, Opcode.PARAMETER})
"""Operations whose values are in memory already: the callee's, the program's, the caller's."""


class WrittenRanges:
    """The bytes that the values made at call sites take, as the plan says."""

    def __init__(
        self,
        values: Mapping[Computation, ComputationValues],
        elements: CheckedElements,
        assignment: BufferAssignment,
    ) -> None:
        self._values = values
        self._elements = elements
        self._allocations = assignment.allocations
        self._of_site: dict[int, list[Range]] = {}

    def within(self, sites: Iterable[CheckedSite]) -> list[Range]:
        """Return all that is written within some call sites, in order, without overlaps."""
        found: list[Range] = []
        for top in sites:
            for site in top.subtree():
                found += self._own(site)
        found.sort()
        merged: list[Range] = []
        for allocation, start, end in found:
            if merged and merged[-1][0] == allocation and merged[-1][2] >= start:
                merged[-1] = (allocation, merged[-1][1], max(end, merged[-1][2]))
            else:
                merged.append((allocation, start, end))
        return merged

    def _own(self, site: CheckedSite) -> list[Range]:
        found = self._of_site.get(site.number)
        if found is None:
            found = self._of_site[site.number] = []
            for instruction, made in self._values[site.computation].made.items():
                if instruction.opcode in _MADE_ELSEWHERE:
                    continue
                elements = self._elements.of(instruction.shape)
                for number in made:
                    place = site.place(instruction, elements[number])
                    nbytes = elements[number].nbytes
                    if place is not None and nbytes and not self._is_constant(place.allocation):
                        end = place.offset + max(place.nbytes, nbytes)
                        found.append((place.allocation, place.offset, end))
        return found

    def _is_constant(self, allocation: int) -> bool:
        """Whether what lies there is a constant, only passed on."""
        return self._allocations[allocation].kind is AllocationKind.CONSTANT
