"""The form of a sort: its rows, its keys, and the layout of its records."""

from __future__ import annotations

from functools import cached_property
from math import prod

from lowtide.codegen.library.records import Records, records_of
from lowtide.codegen.library.sort_keys import NativeSortKey, keys_of
from lowtide.ir import Instruction
from lowtide.ir.attributes import Sort
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False)
class SortForm:
    """A sort of rows of `size` elements along a dimension."""

    sort: Instruction

    @property
    def dimension(self) -> int:
        """The dimension along which rows lie."""
        return self.sort.attributes_as(Sort).dimension

    @cached_property
    def dimensions(self) -> tuple[int, ...]:
        """Those of the operands."""
        return self.sort.operands[0].shape.dimensions

    @cached_property
    def size(self) -> int:
        """The elements of a row."""
        return self.dimensions[self.dimension]

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The dimensions that number the rows."""
        return tuple([x for d, x in enumerate(self.dimensions) if d != self.dimension])

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return prod(self.others)

    @cached_property
    def keys(self) -> tuple[NativeSortKey, ...]:
        """The keys of the comparator, none where places are sorted by the comparator itself."""
        found = keys_of(self.sort.called_computations[0]) or ()
        return found if sum([x.bits for x in found]) <= 64 else ()

    @cached_property
    def records(self) -> Records:
        """The layout of records."""
        return records_of(sum([x.bits for x in self.keys]), self.size)
