"""Ops of TensorFlow that factorize matrices: spectra, singular values, orthogonal and triangular.

Vectors are those of LAPACK: beside TensorFlow's they may have another sign.
"""

from __future__ import annotations

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, elimination, factorizations
from lowtide.frontend.graphs.shared.arrays import sliced
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.elementwise import zeros_like
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType


def _matrices(context: OpKernelContext) -> Op:
    """The first input [..., m, n] for which there are routines; raises GraphError for others."""
    x = context.input(0)
    if x.rank < 2 or not factorizations.has_routines(x.element_type):
        raise context.error(f"expected matrices of f32, f64, c64 or c128, found {x.shape}")
    return x


def _square(context: OpKernelContext) -> Op:
    x = _matrices(context)
    if x.dimensions[-1] != x.dimensions[-2]:
        raise context.error(f"expected square matrices, found {x.shape}")
    return x


@op("SelfAdjointEigV2", domain=DOMAIN, inputs=1)
def self_adjoint_eig(context: OpKernelContext) -> None:
    """Give ascending eigenvalues of Hermitian matrices, and the vectors that belong to them."""
    b, x = context.builder, _square(context)
    values, vectors = factorizations.hermitian_spectrum(b, x)
    context.set_output(0, b.convert(values, x.element_type))
    context.set_output(1, vectors)


@op("Svd", domain=DOMAIN, inputs=1)
def svd(context: OpKernelContext) -> None:
    """Give descending singular values, and both sets of vectors in columns."""
    b, x = context.builder, _matrices(context)
    is_full = context.attribute("full_matrices", flag, False)
    values, left, right = factorizations.singular_values(b, x, full=is_full)
    right = contraction.conjugate(b, contraction.swapped(b, right))
    context.set_outputs([values, left, right])


@op("Qr", domain=DOMAIN, inputs=1)
def qr(context: OpKernelContext) -> None:
    """Give orthogonal columns and the upper triangle that make up each matrix."""
    is_full = context.attribute("full_matrices", flag, False)
    found = factorizations.orthogonal_triangular(context.builder, _matrices(context), full=is_full)
    context.set_outputs([*found])


@op("Lu", domain=DOMAIN, inputs=1)
def lu(context: OpKernelContext) -> None:
    """Give both triangles in one matrix, and the order of the rows."""
    b = context.builder
    both, order = factorizations.lower_upper(b, _square(context))
    kind = context.element_type("output_idx_type", ElementType.S32)
    context.set_outputs([both, b.convert(order, kind)])


@op("MatrixSolveLs", domain=DOMAIN, inputs=3)
def matrix_solve_ls(context: OpKernelContext) -> None:
    """Give the shortest of the solutions that are nearest to the right sides."""
    if context.attribute("fast", flag, True):
        raise context.error("fast=True, by normal equations, is not supported; fast=False is")
    found = factorizations.least_squares(context.builder, _matrices(context), context.input(1))
    context.set_output(0, found)


# -- bands ---------------------------------------------------------------------------------------


def _diagonals(context: OpKernelContext) -> list[Op]:
    """The upper, the main and the lower diagonal [..., n] of an input [..., 3, n]."""
    b, x = context.builder, context.input(0)
    if x.rank < 2 or x.dimensions[-2] != 3:
        raise context.error(f"expected three diagonals [..., 3, n], found {x.shape}")
    whole = [slice(None)] * (x.rank - 2)
    sizes = [*x.dimensions[:-2], x.dimensions[-1]]
    return [
        b.reshape(sliced(b, x, [*whole, slice(i, i + 1), slice(None)]), sizes) for i in range(3)
    ]


@op("TridiagonalSolve", domain=DOMAIN, inputs=2)
def tridiagonal_solve(context: OpKernelContext) -> None:
    """Give the solutions for matrices of three diagonals, which are read as whole ones."""
    b, y = context.builder, context.input(1)
    upper, main, lower = _diagonals(context)
    n = main.dimensions[-1]
    sizes = [*main.dimensions, n]
    places = array_shape(ElementType.S32, tuple(sizes))
    offset = b.iota(places, len(sizes) - 1) - b.iota(places, len(sizes) - 2)
    matrix = b.broadcast(b.constant(0, main.element_type), sizes, [])
    rows = range(len(sizes) - 1)
    for shift, diagonal in ((1, upper), (0, main), (-1, lower)):
        matrix = b.select(offset.eq(shift), b.broadcast(diagonal, sizes, rows), matrix)
    flat = b.reshape(matrix, [main.shape.element_count // n if n else 0, n, n])
    right = b.reshape(y, [flat.dimensions[0], *y.dimensions[-2:]])
    found = elimination.solved(b, flat, right)[0]
    context.set_output(0, b.reshape(found, y.dimensions))


@op("TridiagonalMatMul", domain=DOMAIN, inputs=4)
def tridiagonal_matmul(context: OpKernelContext) -> None:
    """Give products of matrices of three diagonals [..., 1, n] with matrices [..., n, k]."""
    b, (upper, main, lower, y) = context.builder, context.inputs()
    zero, last = b.constant(0, y.element_type), y.rank - 2

    def times(diagonal: Op, shift: int) -> Op:
        around = [(0, 0)] * y.rank
        around[last] = (-shift, shift)
        moved = b.pad(y, zero, around)
        column = b.reshape(diagonal, [*diagonal.dimensions[:-2], diagonal.dimensions[-1]])
        return moved * b.broadcast(column, moved.dimensions, range(column.rank))

    context.set_output(0, times(upper, 1) + times(main, 0) + times(lower, -1))


@op("BandedTriangularSolve", domain=DOMAIN, inputs=2)
def banded_solve(context: OpKernelContext) -> None:
    """Give solutions for triangular matrices given by their diagonals [..., k, n]."""
    b, x, y = context.builder, context.input(0), context.input(1)
    is_lower = context.attribute("lower", flag, True)
    *batch, count, n = x.dimensions
    sizes = [*batch, n, n]
    places = array_shape(ElementType.S32, tuple(sizes))
    offset = b.iota(places, len(sizes) - 1) - b.iota(places, len(sizes) - 2)
    whole = [slice(None)] * len(batch)
    matrix = b.broadcast(b.constant(0, x.element_type), sizes, [])
    for row in range(count):
        shift = -row if is_lower else count - 1 - row
        diagonal = sliced(b, x, [*whole, slice(row, row + 1), slice(None)])
        diagonal = b.reshape(diagonal, [*batch, n])
        wide = b.broadcast(diagonal, sizes, range(len(batch) + 1))
        matrix = b.select(offset.eq(shift), wide, matrix)
    how = "ADJOINT" if context.attribute("adjoint", flag, False) else "NO_TRANSPOSE"
    context.set_output(0, b.triangular_solve(matrix, y, lower=is_lower, transpose_a=how))


# -- dense diagonals ------------------------------------------------------------------------------


@op("Diag", domain=DOMAIN, inputs=1)
def diag(context: OpKernelContext) -> None:
    """Give an array of twice the dimensions with the input where both halves are equal."""
    b, x = context.builder, context.input(0)
    n = x.shape.element_count
    sizes = [n, n]
    wide = along(b, b.reshape(x, [n]), 0, sizes)
    places = array_shape(ElementType.S32, (n, n))
    found = b.select(b.iota(places, 0).eq(b.iota(places, 1)), wide, zeros_like(b, wide))
    context.set_output(0, b.reshape(found, [*x.dimensions, *x.dimensions]))


@op("DiagPart", domain=DOMAIN, inputs=1)
def diag_part(context: OpKernelContext) -> None:
    """Give the elements at which both halves of the dimensions are equal."""
    b, x = context.builder, context.input(0)
    half = x.dimensions[: x.rank // 2]
    if [*half, *half] != [*x.dimensions]:
        raise context.error(f"expected dimensions twice, found {x.shape}")
    n = array_shape(ElementType.S32, half).element_count
    flat = b.reshape(x, [n, n])
    places = array_shape(ElementType.S32, (n, n))
    kept = b.select(b.iota(places, 0).eq(b.iota(places, 1)), flat, zeros_like(b, flat))
    context.set_output(0, b.reshape(reduce(b, "sum", kept, [1]), half))
