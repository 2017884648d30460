"""Factorizations of matrices [..., m, n] by LAPACK, called as JAX calls it on CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.graphs.shared.arrays import sliced
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.graphs.shared.elementwise import ones_like, zeros_like
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.ir import Shape, array_shape, tuple_shape
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.ops.custom_call import LAPACK_LETTERS, lapack_target, options_text


def has_routines(kind: ElementType) -> bool:
    """Whether there are routines for matrices of a type."""
    return kind in LAPACK_LETTERS


def _called(
    b: Builder, routine: str, operands: Sequence[Op], results: Sequence[Shape], **options: str
) -> list[Op]:
    """The results of a routine, by the type of the first operand; options are characters."""
    shape = results[0] if len(results) == 1 else tuple_shape([*results])
    target = lapack_target(routine, operands[0].element_type)
    found = b.custom_call(target, operands, shape, backend_config=options_text(options))
    if len(results) == 1:
        return [found]
    return [b.get_tuple_element(found, i) for i in range(len(results))]


def _info(x: Op) -> Shape:
    return array_shape(ElementType.S32, x.dimensions[:-2])


def hermitian_spectrum(b: Builder, x: Op) -> tuple[Op, Op]:
    """Return ascending eigenvalues [..., n], and eigenvectors in columns, of Hermitian matrices.

    Only the lower triangle is read.
    """
    values = array_shape(x.element_type.part, x.dimensions[:-1])
    shapes = [array_shape(x.element_type, x.dimensions), values, _info(x)]
    vectors, found, _ = _called(b, "syevd", [x], shapes, mode="V", uplo="L")
    return found, vectors


def singular_values(b: Builder, x: Op, *, full: bool) -> tuple[Op, Op, Op]:
    """Return descending singular values, U, and the adjoint of V; all vectors with `full`."""
    *batch, m, n = x.dimensions
    least = min(m, n)
    shapes = [
        array_shape(x.element_type, x.dimensions),
        array_shape(x.element_type.part, (*batch, least)),
        array_shape(x.element_type, (*batch, m, m if full else least)),
        array_shape(x.element_type, (*batch, n if full else least, n)),
        _info(x),
    ]
    _, values, u, v, _ = _called(b, "gesdd", [x], shapes, mode="A" if full else "S")
    return values, u, v


def orthogonal_triangular(b: Builder, x: Op, *, full: bool) -> tuple[Op, Op]:
    """Return Q and R: Q [..., m, m] with `full`, else of as many columns as R has rows."""
    *batch, m, n = x.dimensions
    least = min(m, n)
    taus = array_shape(x.element_type, (*batch, least))
    shape = array_shape(x.element_type, x.dimensions)
    reflectors, factors = _called(b, "geqrf", [x], [shape, taus])
    width = m if full else least
    wide = b.slice(reflectors, [0] * x.rank, [*batch, m, min(n, width)], [1] * x.rank)
    if width > n:
        zero = b.constant(0, x.element_type)
        wide = b.pad(wide, zero, [*[(0, 0)] * (x.rank - 1), (0, width - n)])
    made = array_shape(x.element_type, (*batch, m, width))
    (q,) = _called(b, "orgqr", [wide, factors], [made])
    rows = b.slice(reflectors, [0] * x.rank, [*batch, width, n], [1] * x.rank)
    places = array_shape(ElementType.S32, rows.dimensions)
    is_above = b.iota(places, x.rank - 2).le(b.iota(places, x.rank - 1))
    zeros = b.broadcast(b.constant(0, x.element_type), rows.dimensions, [])
    return q, b.select(is_above, rows, zeros)


def lower_upper(b: Builder, x: Op) -> tuple[Op, Op]:
    """Return L and U in one matrix [..., n, n], and the rows of x in their order, s32 [..., n]."""
    *batch, n, _ = x.dimensions
    pivots = array_shape(ElementType.S32, (*batch, n))
    shape = array_shape(x.element_type, x.dimensions)
    both, swaps, _ = _called(b, "getrf", [x], [shape, pivots, _info(x)])
    last, whole, sizes = len(batch), [slice(None)] * len(batch), pivots.dimensions
    order = numbers = b.iota(pivots, last)
    for row in range(n):
        other = expand(b, sliced(b, swaps, [*whole, slice(row, row + 1)]) - 1, sizes)
        own = expand(b, sliced(b, order, [*whole, slice(row, row + 1)]), sizes)
        is_other = numbers.eq(other)
        there = reduce(b, "sum", b.select(is_other, order, zeros_like(b, order)), [last], keep=True)
        order = b.select(numbers.eq(row), expand(b, there, sizes), b.select(is_other, own, order))
    return both, order


def least_squares(b: Builder, x: Op, y: Op) -> Op:
    """Return the shortest solutions [..., n, k] that are nearest to x s = y."""
    values, u, v = singular_values(b, x, full=False)
    most = reduce(b, "max", values, [values.rank - 1], keep=True)
    limit = most * (max(x.dimensions[-2:]) * float(np.finfo(DTYPES[values.element_type]).eps))
    is_kept = values.gt(expand(b, limit, values.dimensions))
    ones = ones_like(b, values)
    inverse = b.select(is_kept, ones / b.select(is_kept, values, ones), zeros_like(b, values))
    part = contraction.matmul(b, _adjoint(b, u), y)
    inverse = b.convert(inverse, x.element_type)
    part = part * b.broadcast(inverse, part.dimensions, range(inverse.rank))
    return contraction.matmul(b, _adjoint(b, v), part)


def _adjoint(b: Builder, x: Op) -> Op:
    return contraction.conjugate(b, contraction.swapped(b, x))
