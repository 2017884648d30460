"""Roles of the dimensions of a dot's operands: batch, contracted, and free ones.

The result has the batch dimensions first, then the free ones of lhs, then those of rhs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lowtide.ir.attributes import Dot, DotDimensions
from lowtide.ir.instruction import Instruction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DotRoles:
    """The dimensions of one operand of a dot by what becomes of them.

    Both operands have as many in `batch` and in `contracted`, in the order in which they are
    paired; `free` are in their own order. `first` is the dimension of the result that the first
    free one becomes.
    """

    batch: tuple[int, ...]
    contracted: tuple[int, ...]
    free: tuple[int, ...]
    first: int

    @property
    def in_result(self) -> range:
        """The dimensions of the result that the free ones become."""
        return range(self.first, self.first + len(self.free))

    @property
    def places(self) -> list[int]:
        """The dimension of the result that each dimension becomes, -1 where it is contracted."""
        return self.spread(range(len(self.batch)), [-1] * len(self.contracted), self.in_result)

    def spread(self, batch: Iterable[T], contracted: Iterable[T], free: Iterable[T]) -> list[T]:
        """Return what is given by role, one for each dimension, in the order of the dimensions.

        What is given for free dimensions may go on behind them.
        """
        known = dict(zip(self.batch, batch, strict=True))
        known |= zip(self.contracted, contracted, strict=True)
        known |= zip(self.free, free, strict=False)
        return [known[d] for d in range(len(known))]


def roles_of(numbers: DotDimensions, lhs_rank: int, rhs_rank: int) -> tuple[DotRoles, DotRoles]:
    """Return the roles of the dimensions of both operands, which have these ranks."""
    batch = len(numbers.lhs_batch)
    left = free_dimensions(lhs_rank, numbers.lhs_contracting, numbers.lhs_batch)
    right = free_dimensions(rhs_rank, numbers.rhs_contracting, numbers.rhs_batch)
    return (
        DotRoles(numbers.lhs_batch, numbers.lhs_contracting, tuple(left), batch),
        DotRoles(numbers.rhs_batch, numbers.rhs_contracting, tuple(right), batch + len(left)),
    )


def dot_roles(dot: Instruction) -> tuple[DotRoles, DotRoles]:
    """Return the roles of the dimensions of both operands of a dot."""
    ranks = [x.shape.rank for x in dot.operands[:2]]
    return roles_of(dot.attributes_as(Dot).dimensions, *ranks)


def free_dimensions(rank: int, contracting: Sequence[int], batch: Sequence[int]) -> list[int]:
    """Return the dimensions of one operand that are neither contracted nor paired."""
    return [i for i in range(rank) if i not in contracting and i not in batch]
