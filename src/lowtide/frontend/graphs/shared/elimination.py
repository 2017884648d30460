"""Inverses, solutions and determinants of small matrices, by elimination with greatest pivots."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared import indexing
from lowtide.frontend.graphs.shared.arrays import sliced
from lowtide.frontend.graphs.shared.broadcasting import expand, scalar
from lowtide.frontend.graphs.shared.reductions import arg_extreme
from lowtide.ir.element_type import ElementType


def solved(b: Builder, matrix: Op, right: Op) -> tuple[Op, Op]:
    """Return the solutions [count, n, k] and the determinants [count] of matrices [count, n, n].

    `right` are the right sides [count, n, k]. Each column is one step for all matrices.
    """
    count, n, _ = matrix.dimensions
    width = n + right.dimensions[2]
    both = b.concatenate([matrix, right], 2)
    determinant = b.broadcast(scalar(b, 1, matrix), [count], [])
    for column in range(n):
        both, factor = _eliminated(b, both, column)
        determinant = determinant * factor
    return b.slice(both, [0, 0, n], [count, n, width], [1, 1, 1]), determinant


def inverted(b: Builder, matrix: Op) -> Op:
    """Return the inverses of matrices [count, n, n]."""
    count, n, _ = matrix.dimensions
    one = b.constant(np.eye(n), matrix.element_type)
    return solved(b, matrix, b.broadcast(one, [count, n, n], [1, 2]))[0]


def _eliminated(b: Builder, both: Op, column: int) -> tuple[Op, Op]:
    """Matrices [count, n, width] with 0 in a column but for 1 on the diagonal, and pivots [count].

    The sign of a pivot is turned where two rows change places.
    """
    count, n, _ = both.dimensions
    part = b.abs(b.reshape(_slice(b, both, 2, column), [count, n]))
    rows = b.constant(np.arange(n) >= column)
    low = b.broadcast(scalar(b, -1, part), part.dimensions, [])
    part = b.select(b.broadcast(rows, part.dimensions, [1]), part, low)
    best = arg_extreme(b, "max", part, 1, ElementType.S64)
    pivot = indexing.take(b, both, b.reshape(best, [count, 1]), 1, 1)
    own = _slice(b, both, 1, column)
    place = b.broadcast(b.constant(np.arange(n, dtype=np.int64)), both.dimensions, [1])
    at_best = place.eq(b.broadcast(best, both.dimensions, [0]))
    swapped = b.select(at_best, expand(b, own, both.dimensions), both)
    head = _slice(b, pivot, 2, column)
    pivot = pivot / expand(b, head, pivot.dimensions)
    factor = expand(b, _slice(b, swapped, 2, column), both.dimensions)
    wide = expand(b, pivot, both.dimensions)
    found = b.select(place.eq(column), wide, swapped - factor * wide)
    value = b.reshape(head, [count])
    return found, b.select(best.eq(column), value, b.negate(value))


def _slice(b: Builder, x: Op, axis: int, place: int) -> Op:
    parts = [slice(None)] * x.rank
    parts[axis] = slice(place, place + 1)
    return sliced(b, x, parts)
