"""The parts of a sort's rows, which are sorted and then merged, and its scratch."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from lowtide.codegen.cpu.library.record_order import MOST_RANKED, count_bytes
from lowtide.codegen.kernel import rounded
from lowtide.codegen.library.sort_form import SortForm
from lowtide.records import dataclass

PART: Final = 1 << 15
"""Records that are sorted at once: they stay in the second cache."""

BLOCK: Final = 1 << 13
"""Records of a merged result that make a piece of work."""

FEW_ROWS: Final = 4
"""Rows below which several threads work on one, if it is long."""


@dataclass(frozen=True, eq=False)
class SortParts(SortForm):
    """A sort with the division of its rows.

    Scratch of a row is two arrays of records, a and b; b also holds elements of any operand. They
    belong to a thread, or to each row where threads share rows (`shared`).
    """

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
