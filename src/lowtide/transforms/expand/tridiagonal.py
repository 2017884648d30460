"""Solutions of tridiagonal systems, by elimination with pivots that are kept away from zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Opcode
from lowtide.ir.literal import DTYPES
from lowtide.transforms.expand.loops import across, counted, folded, index, row, starts
from lowtide.transforms.expand.support import spread_to

_INDEX: Final = ElementType.S32


def perturbed_solution(below: Op, main: Op, above: Op, right: Op) -> list[Op]:
    """Return x of shape [..., n, k] for three diagonals of shape [..., n] and a right side.

    The first element below and the last one above are not used. A pivot smaller than the largest
    element times the precision of the type is taken to be that large, so x is always finite, or too
    large for its type. The cost is that of one elimination and one substitution, row by row.
    """
    n = main.dimensions[-1]
    diagonals = [_as_column(x) for x in (below, main, above)]
    place = index(diagonals[1], main.rank - 1)
    diagonals[0] = _where(place.gt(0), diagonals[0], _like(diagonals[0], 0))
    diagonals[2] = _where(place.lt(n - 1), diagonals[2], _like(diagonals[2], 0))
    least = _least_pivot(*diagonals)
    first = _at(diagonals[1], 0), _at(diagonals[2], 0), _at(right, 0)
    made = [_like(x, 0) for x in (*diagonals, right)]
    state = [*first, *made, *diagonals, right, least]
    if n > 1:
        state = counted(n - 1, state, _eliminate)
    pivot, _, value, *rows = state
    last = _divided(value, _away_from_zero(pivot, least))
    out = _put(right, last, n - 1)
    if n > 1:
        carried = [last, _like(last, 0), out, *rows[:4]]
        out = counted(n - 1, carried, _substitute)[2]
    return [out]


def _eliminate(number: Op, *state: Op) -> Sequence[Op]:
    """Subtract the upper of two rows from the lower one, the larger first element above.

    The state is the upper row (two elements and the right side), the rows that are done (three
    elements and the right side), the system, and the smallest pivot.
    """
    pivot, after, value, *rest = state
    done, system, least = rest[:4], rest[4:8], rest[8]
    under = [row(x, number + 1) for x in system]
    stays = abs(pivot).ge(abs(under[0]))
    nothing = _like(after, 0)
    upper, lower = (pivot, after, nothing, value), tuple(under)
    chosen = [_where(stays, x, y) for x, y in zip(upper, lower, strict=True)]
    other = [_where(stays, y, x) for x, y in zip(upper, lower, strict=True)]
    chosen[0] = _away_from_zero(chosen[0], least)
    factor = other[0] / chosen[0]
    left = [
        x - across(factor, x.dimensions) * y for x, y in zip(other[1:], chosen[1:], strict=True)
    ]
    kept = [_put(x, y, number) for x, y in zip(done, chosen, strict=True)]
    return [*left, *kept, *system, least]


def _substitute(number: Op, *state: Op) -> Sequence[Op]:
    """Work out the next element from below; the state has the two after it, x, and the rows."""
    one, two, out, *rows = state
    place = (out.dimensions[-2] - 2) - number
    pivot, first, second, value = [row(x, place) for x in rows]
    sizes = value.dimensions
    value = value - across(first, sizes) * one - across(second, sizes) * two
    found = _divided(value, pivot)
    return [found, one, _put(out, found, place), *rows]


def _least_pivot(*diagonals: Op) -> Op:
    """The precision of the type times the largest element, shape [..., 1, 1], and never zero."""
    sizes = [folded(abs(x), Opcode.MAXIMUM, 0, x.rank - 2) for x in diagonals]
    build, largest = sizes[0].builder, sizes[0]
    for x in sizes[1:]:
        largest = build.maximum(largest, x)
    limits = np.finfo(DTYPES[largest.element_type])
    least = largest * _like(largest, float(limits.eps))
    return build.maximum(least, _like(largest, float(limits.tiny)))


def _away_from_zero(pivot: Op, least: Op) -> Op:
    """A pivot, or the smallest one with its sign where it is smaller than that."""
    build = pivot.builder
    bound = least
    if pivot.element_type.is_complex:
        bound = build.complex(least, _like(least, 0))
    else:
        bound = _where(pivot.lt(_like(pivot, 0)), -least, least)
    return _where(abs(pivot).lt(least), bound, pivot)


def _divided(value: Op, divisor: Op) -> Op:
    return value / across(divisor, value.dimensions)


def _where(condition: Op, one: Op, other: Op) -> Op:
    return one.builder.select(across(condition, one.dimensions), one, other)


def _as_column(diagonal: Op) -> Op:
    return diagonal.builder.reshape(diagonal, (*diagonal.dimensions, 1))


def _at(x: Op, number: int) -> Op:
    return row(x, x.builder.constant(number, _INDEX))


def _put(x: Op, value: Op, number: Op | int) -> Op:
    """An array [..., n, k] with a row of its own."""
    place = x.builder.constant(number, _INDEX) if isinstance(number, int) else number
    return x.builder.dynamic_update_slice(x, value, starts(x, place, x.rank - 2))


def _like(x: Op, number: float) -> Op:
    """A number for each element of an array."""
    return spread_to(x.builder.constant(number, x.element_type), x.dimensions)
