"""The form of a sort: the layout of its records, its parts, and its scratch."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Final

from lowtide.codegen.cpu.library.radix import count_bytes
from lowtide.codegen.cpu.library.records import MOST_RANKED, Records, records_of
from lowtide.codegen.cpu.library.sort_keys import NativeSortKey, keys_of
from lowtide.codegen.kernel import rounded
from lowtide.ir import Instruction
from lowtide.ir.attributes import Sort
from lowtide.records import dataclass

PART: Final = 1 << 15
"""Records that are sorted at once: they stay in the second cache."""

BLOCK: Final = 1 << 13
"""Records of a merged result that make a piece of work."""

FEW_ROWS: Final = 4
"""Rows below which several threads work on one, if it is long."""


@dataclass(frozen=True, eq=False)
class SortForm:
    """A sort of rows of `size` elements along a dimension.

    Scratch of a row is two arrays of records, a and b; b also holds elements of any operand. They
    belong to a thread, or to each row where threads share rows (`shared`).
    """

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

    @property
    def is_ranked(self) -> bool:
        """Whether rows are so short that each record is compared with all others."""
        return self.records.packed and self.size <= MOST_RANKED

    @property
    def shared(self) -> bool:
        """Whether several threads work on one row."""
        return self.size > PART and self.rows < FEW_ROWS

    @property
    def parts(self) -> int:
        """The number of parts of a row that are sorted before they are merged."""
        return -(-self.size // PART)

    @property
    def blocks(self) -> int:
        """The number of pieces of a row that is merged or moved."""
        return -(-self.size // BLOCK)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The lengths of the runs that are merged, in turn."""
        found = []
        width = PART
        while width < self.size:
            found.append(width)
            width *= 2
        return tuple(found)

    @property
    def a_bytes(self) -> int:
        """The bytes of the records of a row."""
        return rounded(self.records.nbytes * self.records.capacity)

    @property
    def row_bytes(self) -> int:
        """The bytes of both arrays of a row."""
        widest = max([x.shape.element_type.nbytes for x in self.sort.operands])
        each = max(self.records.nbytes, widest)
        return self.a_bytes + rounded(each * self.records.capacity)

    @property
    def counts_bytes(self) -> int:
        """The bytes that sorting by bytes counts in."""
        return 0 if self.is_ranked else rounded(count_bytes(self.records))

    @property
    def shared_bytes(self) -> int:
        """The scratch of all threads."""
        return self.rows * self.row_bytes if self.shared else 0

    @property
    def thread_bytes(self) -> int:
        """The scratch of each thread."""
        return self.counts_bytes + (0 if self.shared else self.row_bytes)
