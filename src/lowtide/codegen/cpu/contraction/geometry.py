"""The shape of a dot: batch, rows, columns and contracted indices, and where operands have them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from lowtide.codegen.arrays import strides
from lowtide.codegen.indexing import ZERO, Affine
from lowtide.ir import Instruction
from lowtide.ops.dot_roles import dot_roles
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Roles:
    """The dimensions of an operand: batch, its own (the rows or columns), and contracted ones."""

    batch: tuple[int, ...]
    free: tuple[int, ...]
    inner: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """A product of `batch` matrices m x k and k x n.

    `rows` has the roles of the dimensions of operand `rows_of`, `columns` those of the other one.
    `is_swapped` says that rows are the free dimensions of operand 1, so that the result has them
    behind the columns.
    """

    batch: int
    m: int
    n: int
    k: int
    rows: Roles
    columns: Roles
    is_swapped: bool

    @property
    def rows_of(self) -> int:
        """The number of the operand that has the rows."""
        return int(self.is_swapped)

    def swapped(self) -> Geometry:
        """Return the same product with rows and columns exchanged."""
        return Geometry(
            self.batch, self.n, self.m, self.k, self.columns, self.rows, not self.is_swapped
        )


def geometry_of(dot: Instruction) -> Geometry:
    """Return the shape of a dot; the columns are the free dimensions of operand 1."""
    shapes = [x.shape.dimensions for x in dot.operands]
    roles = [Roles(side.batch, side.free, side.contracted) for side in dot_roles(dot)]
    lhs, rhs = _as_it_lies(dot, *roles)
    return Geometry(
        prod([shapes[0][d] for d in lhs.batch]),
        prod([shapes[0][d] for d in lhs.free]),
        prod([shapes[1][d] for d in rhs.free]),
        prod([shapes[0][d] for d in lhs.inner]),
        lhs,
        rhs,
        is_swapped=False,
    )


def _as_it_lies(dot: Instruction, lhs: Roles, rhs: Roles) -> tuple[Roles, Roles]:
    """Contracted dimensions in the order in which the larger operand has them in memory.

    Dimensions that lie like one are read like one then.
    """
    larger = max((0, 1), key=lambda i: dot.operands[i].shape.nbytes)
    steps = strides(dot.operands[larger].shape)
    inner = (lhs, rhs)[larger].inner
    order = sorted(range(len(inner)), key=lambda i: -steps[inner[i]])
    return (
        replace(lhs, inner=tuple([lhs.inner[i] for i in order])),
        replace(rhs, inner=tuple([rhs.inner[i] for i in order])),
    )


@dataclass(frozen=True, slots=True)
class StridedRun:
    """`size` indices whose elements lie `step` elements apart."""

    size: int
    step: int


def runs(sizes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[StridedRun, ...]:
    """Return the dimensions, merged where they lie like one; without those of size 1."""
    found: list[StridedRun] = []
    for size, step in zip(sizes, steps, strict=True):
        if size == 1:
            continue
        if found and found[-1].step == step * size:
            found[-1] = StridedRun(found[-1].size * size, step)
        else:
            found.append(StridedRun(size, step))
    return tuple(found)


def placed(
    rank: int, groups: tuple[tuple[tuple[int, ...], tuple[Affine, ...]], ...]
) -> tuple[Affine, ...]:
    """Return an index of `rank` entries from pairs of dimensions and their entries."""
    index = [ZERO] * rank
    for dimensions, entries in groups:
        for d, entry in zip(dimensions, entries, strict=True):
            index[d] = entry
    return tuple(index)
