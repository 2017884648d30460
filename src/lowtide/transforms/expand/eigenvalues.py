"""Eigenvalues of real symmetric matrices by rotations of two rows and columns at a time.

Source: C. Jacobi (1846), "Ueber ein leichtes Verfahren, die in der Theorie der Saecularstoerungen
vorkommenden Gleichungen numerisch aufzuloesen"; G. Golub and C. Van Loan (2013), "Matrix
Computations", 8.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Opcode, array_shape, tuple_shape
from lowtide.ir.literal import DTYPES
from lowtide.transforms.expand.loops import (
    across,
    column,
    counted,
    folded,
    index,
    row,
    scaled_by,
    starts,
    transposed,
)
from lowtide.transforms.expand.support import spread_to

MOST_SWEEPS: Final = 24
"""Each sweep rotates every pair once. Convergence is quadratic: about 10 do for any size in use."""


def symmetric(a: Op, *, lower: bool) -> list[Op]:
    """Return (eigenvectors in columns, ascending eigenvalues, info) of matrices [..., n, n].

    Only one triangle is read. `info` is 1 where that is not finite or does not converge.
    """
    build = a.builder
    rows, columns = index(a, a.rank - 2), index(a, a.rank - 1)
    is_given = rows.ge(columns) if lower else rows.le(columns)
    whole = build.select(is_given, a, transposed(a))
    is_diagonal = rows.eq(columns)
    identity = build.select(is_diagonal, filled(a, 1), filled(a, 0))
    scale = largest(whole)
    made, vectors = _until_diagonal(whole / across(scale, a.dimensions), identity)
    diagonal = build.select(is_diagonal, made, filled(made, 0))
    values = scaled_by(folded(diagonal, Opcode.ADD, 0, a.rank - 2), scale)
    keys, vectors = sorted_by(across(values, a.dimensions), vectors)
    ends = [*a.dimensions[:-2], 1, a.dimensions[-1]]
    values = build.reshape(build.slice(keys, [0] * a.rank, ends), a.dimensions[:-1])
    is_wrong = _is_left(made) | ~build.is_finite(_summed(made * made))
    info = build.convert(build.reshape(is_wrong, a.dimensions[:-2]), ElementType.S32)
    return [vectors, values, info]


def largest(a: Op) -> Op:
    """Return the greatest absolute value of each matrix, 1 where that is 0 or none; [..., 1, 1]."""
    found = folded(folded(abs(a), Opcode.MAXIMUM, 0, a.rank - 1), Opcode.MAXIMUM, 0, a.rank - 2)
    is_number = found.gt(0) & a.builder.is_finite(found)
    return a.builder.select(is_number, found, filled(found, 1))


def filled(like: Op, number: float) -> Op:
    """Return a number for each element of an array."""
    return spread_to(like.builder.constant(number, like.element_type), like.dimensions)


def sorted_by(keys: Op, vectors: Op) -> list[Op]:
    """Return keys and columns in ascending order of their keys."""
    element_type = keys.element_type

    def is_before(a: Op, b: Op, _a: Op, _b: Op) -> Op:
        return a.lt(b)

    build = keys.builder
    order = build.sub_computation("is_before", [array_shape(element_type)] * 4, is_before)
    return list(build.sort([keys, vectors], order, is_stable=True))


def _until_diagonal(a: Op, vectors: Op) -> tuple[Op, Op]:
    """Sweep until nothing is left beside the diagonal, at most `MOST_SWEEPS` times."""
    build = a.builder
    size = a.dimensions[-1]
    shape = tuple_shape([array_shape(ElementType.S32), a.shape, vectors.shape])

    def is_unsettled(state: Op) -> Op:
        number, a, _ = state
        return number.lt(MOST_SWEEPS) & _is_full(a)

    def sweep(state: Op) -> Op:
        number, *pair = state
        return state.builder.tuple([number + 1, *each_pair(size, pair, _rotated)])

    condition = build.sub_computation("is_unsettled", [shape], is_unsettled)
    body = build.sub_computation("sweep", [shape], sweep)
    start = build.tuple([build.constant(0, ElementType.S32), a, vectors])
    _, made, found = build.while_(condition, body, start)
    return made, found


def _is_full(a: Op) -> Op:
    """Whether one of the matrices has something to speak of beside its diagonal."""
    build = a.builder
    either = build.scalar_computation(Opcode.OR, ElementType.PRED)
    return build.reduce(_is_left(a), build.constant(value=False), either)


def _is_left(a: Op) -> Op:
    """Whether each matrix has; shape [..., 1, 1]."""
    is_diagonal = index(a, a.rank - 2).eq(index(a, a.rank - 1))
    squares = a * a
    beside = a.builder.select(is_diagonal, filled(a, 0), squares)
    off, total = [_summed(x) for x in (beside, squares)]
    epsilon = float(np.finfo(DTYPES[a.element_type]).eps)
    return off.gt(total * filled(total, epsilon**2))


def _summed(x: Op) -> Op:
    return folded(folded(x, Opcode.ADD, 0, x.rank - 1), Opcode.ADD, 0, x.rank - 2)


def each_pair(size: int, carried: Sequence[Op], rotate: Callable[..., Sequence[Op]]) -> list[Op]:
    """Return what is carried after a step for each pair p < q, counted up to `size`."""
    first, second = [carried[0].builder.constant(n, ElementType.S32) for n in (0, 1)]

    def step(_: Op, p: Op, q: Op, *carried: Op) -> Sequence[Op]:
        build = p.builder
        is_last = (q + 1).ge(size)
        next_p = build.select(is_last, p + 1, p)
        next_q = build.select(is_last, p + 2, q + 1)
        return [next_p, next_q, *rotate(p, q, *carried)]

    return counted(size * (size - 1) // 2, [first, second, *carried], step)[2:]


def _rotated(p: Op, q: Op, a: Op, vectors: Op) -> list[Op]:
    """Rotate rows and columns p and q so that element (p, q) becomes 0."""
    over, under = row(a, p), row(a, q)
    app, apq, aqq = column(over, p), column(over, q), column(under, q)
    cosine, sine = angle(app, apq, aqq)
    for dimension in (a.rank - 2, a.rank - 1):
        a = turned(a, p, q, dimension, cosine, sine)
    return [a, turned(vectors, p, q, a.rank - 1, cosine, sine)]


def angle(app: Op, apq: Op, aqq: Op) -> tuple[Op, Op]:
    """Return (cosine, sine) of the rotation that makes [[app, apq], [apq, aqq]] diagonal."""
    build = apq.builder
    one, zero = filled(apq, 1), filled(apq, 0)
    is_zero = apq.eq(zero)
    ratio = (aqq - app) / build.select(is_zero, one, apq + apq)
    root = abs(ratio) + build.sqrt(one + ratio * ratio)
    tangent = build.select(ratio.lt(zero), -one / root, one / root)
    tangent = build.select(is_zero, zero, tangent)
    cosine = one / build.sqrt(one + tangent * tangent)
    return cosine, tangent * cosine


def turned(x: Op, p: Op, q: Op, dimension: int, cosine: Op, sine: Op) -> Op:
    """Return matrices with two rows (or columns) turned towards each other."""
    build = x.builder
    part = row if dimension == x.rank - 2 else column
    one, other = part(x, p), part(x, q)
    new = scaled_by(one, cosine) - scaled_by(other, sine)
    x = build.dynamic_update_slice(x, new, starts(x, p, dimension))
    new = scaled_by(one, sine) + scaled_by(other, cosine)
    return build.dynamic_update_slice(x, new, starts(x, q, dimension))
