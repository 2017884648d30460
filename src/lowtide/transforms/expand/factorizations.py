"""LU and QR as loops over columns, with results as LAPACK stores them.

Source of the conventions: E. Anderson et al. (1999), "LAPACK Users' Guide". Each step works on the
whole matrix, so that shapes stay: n steps take about three times the products of a loop whose
matrices shrink.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Opcode
from lowtide.transforms.expand.loops import (
    across,
    column,
    conjugate,
    counted,
    folded,
    index,
    product,
    row,
    scaled_by,
    starts,
    transposed,
)
from lowtide.transforms.expand.support import spread_to

_LAST: Final = 2**31 - 1


def _filled(like: Op, number: complex, element_type: ElementType | None = None) -> Op:
    """A number for each element of an array."""
    scalar = like.builder.constant(number, element_type or like.element_type)
    return spread_to(scalar, like.dimensions)


def _put(vectors: Op, value: Op, number: Op) -> Op:
    """Vectors, shape [..., n], with element `number` from matrices of one element."""
    build = vectors.builder
    part = build.reshape(value, (*vectors.dimensions[:-1], 1))
    return build.dynamic_update_slice(vectors, part, starts(vectors, number, vectors.rank - 1))


def _vectors(a: Op, element_type: ElementType) -> Op:
    """Zeros, one for each column that is eliminated."""
    build = a.builder
    sizes = (*a.dimensions[:-2], min(a.dimensions[-2:]))
    return spread_to(build.constant(0, element_type), sizes)


# -- LU ----------------------------------------------------------------------------------------


def with_pivots(a: Op) -> list[Op]:
    """Return (L and U in one matrix, pivot rows from 1, info), with partial pivoting."""
    build = a.builder
    count = min(a.dimensions[-2:])
    made, pivots = counted(count, [a, _vectors(a, ElementType.S32)], _eliminate)
    is_diagonal = index(made, a.rank - 2).eq(index(made, a.rank - 1))
    is_zero = is_diagonal & made.eq(_filled(made, 0))
    number = index(made, a.rank - 1) + 1
    numbers = build.select(is_zero, number, _filled(number, _LAST))
    first = folded(
        folded(numbers, Opcode.MINIMUM, _LAST, a.rank - 1), Opcode.MINIMUM, _LAST, a.rank - 2
    )
    first = build.reshape(first, a.dimensions[:-2])
    info = build.select(first.eq(_LAST), _filled(first, 0), first)
    return [made, pivots, info]


def _eliminate(number: Op, a: Op, pivots: Op) -> Sequence[Op]:
    """Bring the row with the largest element of a column up, and subtract it from those below."""
    build = a.builder
    rows, columns = index(a, a.rank - 2), index(a, a.rank - 1)
    pivot = _pivot(number, column(a, number))
    upper = row(a, number)
    is_pivot = rows.eq(across(pivot, a.dimensions))
    chosen = folded(build.select(is_pivot, a, _filled(a, 0)), Opcode.ADD, 0, a.rank - 2)
    swapped = build.select(is_pivot, across(upper, a.dimensions), a)
    swapped = build.select(rows.eq(number), across(chosen, a.dimensions), swapped)
    divisor = column(chosen, number)
    under = column(swapped, number)
    is_below = index(under, a.rank - 2).gt(number)
    wide = across(divisor, under.dimensions)
    factor = build.select(wide.eq(_filled(wide, 0)), under, under / wide)
    factor = build.select(is_below, factor, _filled(factor, 0))
    reduced = swapped - scaled_by(across(factor, a.dimensions), chosen)
    is_rest = rows.gt(number) & columns.gt(number)
    below = build.select(is_rest, reduced, swapped)
    is_factor = rows.gt(number) & columns.eq(number)
    made = build.select(is_factor, across(factor, a.dimensions), below)
    return [made, _put(pivots, pivot + 1, number)]


def _pivot(number: Op, x: Op) -> Op:
    """The first row, from `number` on, whose element is largest; shape [..., 1, 1]."""
    build = x.builder
    dimension = x.rank - 2
    size = abs(build.real(x)) + abs(build.imag(x)) if x.element_type.is_complex else abs(x)
    place = index(x, dimension)
    size = build.select(place.ge(number), size, _filled(size, -1))
    largest = across(folded(size, Opcode.MAXIMUM, -1, dimension), x.dimensions)
    first = build.select(size.eq(largest), place, _filled(place, _LAST))
    found = folded(first, Opcode.MINIMUM, _LAST, dimension)
    return build.select(found.eq(_LAST), spread_to(number, found.dimensions), found)


# -- QR ----------------------------------------------------------------------------------------


def by_reflectors(a: Op) -> list[Op]:
    """Return (R, with the Householder vectors below it, their factors tau)."""
    return counted(min(a.dimensions[-2:]), [a, _vectors(a, a.element_type)], _reflect)


def _reflect(number: Op, a: Op, taus: Op) -> Sequence[Op]:
    """Reflect a column so that it is 0 below the diagonal, and those behind it too."""
    build = a.builder
    x = column(a, number)
    beta, tau, vector = _reflector(number, x)
    projected = product(conjugate(transposed(vector)), a)
    change = scaled_by(across(vector, a.dimensions), scaled_by(projected, conjugate(tau)))
    columns = index(a, a.rank - 1)
    place = index(x, a.rank - 2)
    stored = build.select(place.eq(number), across(beta, x.dimensions), x)
    stored = build.select(place.gt(number), vector, stored)
    behind = build.select(columns.gt(number), a - change, a)
    made = build.select(columns.eq(number), across(stored, a.dimensions), behind)
    return [made, _put(taus, tau, number)]


def _reflector(number: Op, x: Op) -> tuple[Op, Op, Op]:
    """(beta, tau, v), the first two of shape [..., 1, 1], for what lies from `number` on."""
    build = x.builder
    dimension = x.rank - 2
    place = index(x, dimension)
    alpha = row(x, number)
    real, imag = (
        (build.real(alpha), build.imag(alpha)) if x.element_type.is_complex else (alpha, None)
    )
    tail = build.select(place.gt(number), x, _filled(x, 0))
    rest = folded(_squares(tail), Opcode.ADD, 0, dimension)
    length = build.sqrt(_squares(alpha) + rest)
    beta = build.select(real.lt(0), length, -length)
    is_trivial = rest.eq(0) if imag is None else rest.eq(0) & imag.eq(0)
    beta = _typed(build.select(is_trivial, real, beta), x.element_type)
    one = _filled(alpha, 1)
    tau = (beta - alpha) / build.select(is_trivial, one, beta)
    tau = build.select(is_trivial, _filled(alpha, 0), tau)
    divisor = build.select(is_trivial, one, alpha - beta)
    below = tail / across(divisor, x.dimensions)
    vector = build.select(place.eq(number), _filled(x, 1), below)
    return beta, tau, vector


def _squares(x: Op) -> Op:
    """|x|**2, real."""
    if not x.element_type.is_complex:
        return x * x
    real, imag = x.builder.real(x), x.builder.imag(x)
    return real * real + imag * imag


def _typed(x: Op, element_type: ElementType) -> Op:
    if x.element_type is element_type:
        return x
    return x.builder.complex(x, _filled(x, 0))


def product_of_reflectors(a: Op, taus: Op) -> list[Op]:
    """Return the first columns of Q, the product of the reflectors stored in `a`, shape of `a`."""
    is_diagonal = index(a, a.rank - 2).eq(index(a, a.rank - 1))
    identity = a.builder.select(is_diagonal, _filled(a, 1), _filled(a, 0))
    return [_reflected(a, taus, identity, is_adjoint=False)]


def times_reflectors(a: Op, taus: Op, target: Op, *, is_left: bool, is_adjoint: bool) -> list[Op]:
    """Return Q, or its adjoint, times the target, or with `is_left` unset the target times it."""
    if is_left:
        return [_reflected(a, taus, target, is_adjoint=is_adjoint)]
    turned = _reflected(a, taus, conjugate(transposed(target)), is_adjoint=not is_adjoint)
    return [conjugate(transposed(turned))]


def _reflected(a: Op, taus: Op, target: Op, *, is_adjoint: bool) -> Op:
    """Q, or its adjoint, times the target: one reflector after the other, from either end."""
    count = taus.dimensions[-1]

    def step(number: Op, target: Op, a: Op, taus: Op) -> Sequence[Op]:
        build = target.builder
        k = number if is_adjoint else (count - 1) - number
        x = column(a, k)
        place = index(x, a.rank - 2)
        below = build.select(place.gt(k), x, _filled(x, 0))
        vector = build.select(place.eq(k), _filled(x, 1), below)
        tau = build.dynamic_slice(taus, starts(taus, k, taus.rank - 1), (*taus.dimensions[:-1], 1))
        tau = build.reshape(tau, (*tau.dimensions, 1))
        projected = product(conjugate(transposed(vector)), target)
        change = scaled_by(projected, conjugate(tau) if is_adjoint else tau)
        return [target - scaled_by(across(vector, target.dimensions), change), a, taus]

    return counted(count, [target, a, taus], step)[0]
