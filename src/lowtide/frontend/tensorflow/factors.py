"""Ops of TensorFlow that invert and solve square matrices, and their determinants."""

from __future__ import annotations

import math

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, elimination
from lowtide.frontend.tensorflow.graph_def import DOMAIN


def _matrices(context: OpKernelContext) -> Op:
    """The first input [count, n, n], transposed with the attribute `adjoint`."""
    b, x = context.builder, context.input(0)
    if context.attribute("adjoint", flag, False):
        x = contraction.swapped(b, x)
    n = x.dimensions[-1]
    return b.reshape(x, [math.prod(x.dimensions[:-2]), n, n])


@op("MatrixInverse", domain=DOMAIN, inputs=1)
def matrix_inverse(context: OpKernelContext) -> None:
    """Give the inverse of each matrix."""
    b = context.builder
    found = elimination.inverted(b, _matrices(context))
    context.set_output(0, b.reshape(found, context.input(0).dimensions))


@op("MatrixSolve", domain=DOMAIN, inputs=2)
def matrix_solve(context: OpKernelContext) -> None:
    """Give x of A x = y for each matrix A."""
    b, y = context.builder, context.input(1)
    matrices = _matrices(context)
    right = b.reshape(y, [matrices.dimensions[0], *y.dimensions[-2:]])
    context.set_output(0, b.reshape(elimination.solved(b, matrices, right)[0], y.dimensions))


def _determinants(context: OpKernelContext) -> Op:
    b, matrices = context.builder, _matrices(context)
    count, n, _ = matrices.dimensions
    none = b.slice(matrices, [0, 0, 0], [count, n, 0], [1, 1, 1])
    found = elimination.solved(b, matrices, none)[1]
    return b.reshape(found, context.input(0).dimensions[:-2])


@op("MatrixDeterminant", domain=DOMAIN, inputs=1)
def matrix_determinant(context: OpKernelContext) -> None:
    """Give the determinant of each matrix."""
    context.set_output(0, _determinants(context))


@op("LogMatrixDeterminant", domain=DOMAIN, inputs=1)
def log_matrix_determinant(context: OpKernelContext) -> None:
    """Give the sign of each determinant, and the logarithm of its size."""
    b, found = context.builder, _determinants(context)
    context.set_outputs([b.sign(found), b.log(b.abs(found))])
