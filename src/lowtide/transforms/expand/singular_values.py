"""Singular values of real matrices by rotations of two columns at a time.

Source: M. Hestenes (1958), "Inversion of matrices by biorthogonalization and related results"; J.
Demmel and K. Veselic (1992), "Jacobi's method is more accurate than QR".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Opcode, array_shape, tuple_shape
from lowtide.ir.literal import DTYPES
from lowtide.transforms.expand.eigenvalues import (
    MOST_SWEEPS,
    angle,
    each_pair,
    filled,
    largest,
    sorted_by,
    turned,
)
from lowtide.transforms.expand.factorizations import by_reflectors, product_of_reflectors
from lowtide.transforms.expand.loops import (
    across,
    column,
    folded,
    index,
    product,
    scaled_by,
    transposed,
)
from lowtide.transforms.expand.support import spread_to

_SLACK: Final = 8
"""How many rounding errors (and the root of the number of rows) columns may be from orthogonal."""


def decomposed(a: Op, *, is_full: bool) -> list[Op]:
    """Return (descending singular values, U, transpose of V, info) of matrices [..., m, n].

    U and V are square where `is_full`, else they have min(m, n) columns. `info` is 1 where the
    operand is not finite.
    """
    is_wide = a.dimensions[-1] > a.dimensions[-2]
    tall = transposed(a) if is_wide else a
    scale = largest(tall)
    columns, v = _until_orthogonal(tall / across(scale, tall.dimensions))
    lengths = _lengths(columns)
    keys, columns = sorted_by(across(-lengths, columns.dimensions), columns)
    _, v = sorted_by(across(-lengths, v.dimensions), v)
    build = a.builder
    ends = [*a.dimensions[:-2], 1, columns.dimensions[-1]]
    short = -build.slice(keys, [0] * a.rank, ends)
    values = build.reshape(scaled_by(short, scale), ends[:-2] + ends[-1:])
    u = _orthonormal(columns, is_full=is_full)
    total = folded(lengths, Opcode.ADD, 0, a.rank - 1)
    is_wrong = build.reshape(~build.is_finite(total), a.dimensions[:-2])
    info = build.convert(is_wrong, ElementType.S32)
    return [values, v, transposed(u), info] if is_wide else [values, u, transposed(v), info]


def _lengths(columns: Op) -> Op:
    return columns.builder.sqrt(folded(columns * columns, Opcode.ADD, 0, columns.rank - 2))


def _until_orthogonal(a: Op) -> tuple[Op, Op]:
    """(A V, V), where the columns of the first are orthogonal, for square orthonormal V."""
    build = a.builder
    size = a.dimensions[-1]
    square = array_shape(a.element_type, (*a.dimensions[:-2], size, size))
    one, zero = [spread_to(build.constant(n, a.element_type), square.dimensions) for n in (1, 0)]
    shape = tuple_shape([array_shape(ElementType.S32), a.shape, square])

    def is_unsettled(state: Op) -> Op:
        number, a, _ = state
        return number.lt(MOST_SWEEPS) & _is_oblique(a)

    def sweep(state: Op) -> Op:
        number, *pair = state
        return state.builder.tuple([number + 1, *each_pair(size, pair, _rotated)])

    condition = build.sub_computation("is_unsettled", [shape], is_unsettled)
    body = build.sub_computation("sweep", [shape], sweep)
    identity = build.select(_diagonal(zero), one, zero)
    start = build.tuple([build.constant(0, ElementType.S32), a, identity])
    _, made, v = build.while_(condition, body, start)
    return made, v


def _diagonal(a: Op) -> Op:
    return index(a, a.rank - 2).eq(index(a, a.rank - 1))


def _is_oblique(a: Op) -> Op:
    """Whether two columns of one of the matrices are not orthogonal, up to rounding."""
    build = a.builder
    products = product(transposed(a), a)
    lengths = _lengths(a)
    epsilon = float(np.finfo(DTYPES[a.element_type]).eps)
    slack = epsilon * max(_SLACK, a.dimensions[-2] ** 0.5)
    bound = scaled_by(across(transposed(lengths), products.dimensions), lengths)
    least = filled(bound, epsilon**2)  # What is that small beside the largest element is noise.
    is_over = abs(products).gt(build.maximum(bound * filled(bound, slack), least))
    either = build.scalar_computation(Opcode.OR, ElementType.PRED)
    return build.reduce(is_over & ~_diagonal(products), build.constant(value=False), either)


def _rotated(p: Op, q: Op, a: Op, v: Op) -> Sequence[Op]:
    """Rotate columns p and q until they are orthogonal, and those of V with them."""
    one, other = column(a, p), column(a, q)
    pairs = ((one, one), (one, other), (other, other))
    cosine, sine = angle(*[folded(x * y, Opcode.ADD, 0, a.rank - 2) for x, y in pairs])
    return [turned(x, p, q, x.rank - 1, cosine, sine) for x in (a, v)]


def _orthonormal(columns: Op, *, is_full: bool) -> Op:
    """Orthogonal columns, of descending lengths, at length 1; more of them where `is_full`.

    By reflectors, which find directions also where columns are 0.
    """
    build = columns.builder
    missing = columns.dimensions[-2] - columns.dimensions[-1]
    if is_full and missing:
        columns = build.pad(columns, 0, [*[(0, 0)] * (columns.rank - 1), (0, missing)])
    r, taus = by_reflectors(columns)
    (q,) = product_of_reflectors(r, taus)
    diagonal = build.select(_diagonal(r), r, filled(r, 0))
    along = folded(diagonal, Opcode.ADD, 0, r.rank - 2)
    one = filled(along, 1)
    return scaled_by(q, build.select(along.lt(0), -one, one))
