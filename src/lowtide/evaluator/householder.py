"""Householder reflectors as LAPACK stores them: `I - tau * v @ adjoint(v)`, v[0] = 1.

The vectors stand below the diagonal of a matrix, the factors `tau` apart. All functions take
batches: matrices are [..., m, n]. Source of the conventions: E. Anderson et al. (1999), "LAPACK
Users' Guide".
"""

from __future__ import annotations

import numpy as np

from lowtide.ir.literal import Array


def reflector(x: Array) -> tuple[Array, Array, Array]:
    """Return (beta, tau, v) such that the adjoint reflector takes x, [..., m], to beta e1."""
    alpha, tail = x[..., 0], x[..., 1:]
    rest = np.linalg.norm(tail, axis=-1)
    trivial = (rest == 0) & (alpha.imag == 0)
    beta = -np.copysign(np.hypot(np.abs(alpha), rest), alpha.real)
    tau = np.where(trivial, 0, (beta - alpha) / np.where(trivial, 1, beta))
    divisor = np.where(trivial, 1, alpha - beta)
    v = np.concatenate([np.ones_like(x[..., :1]), tail / divisor[..., np.newaxis]], axis=-1)
    return np.where(trivial, alpha, beta).astype(x.dtype), tau.astype(x.dtype), v.astype(x.dtype)


def apply_left(matrix: Array, tau: Array, v: Array) -> Array:
    """Return the reflector times the matrix; `tau` is [...] and `v` is [..., m]."""
    row = v.conj()[..., np.newaxis, :] @ matrix
    change = tau[..., np.newaxis, np.newaxis] * (v[..., np.newaxis] * row)
    result: Array = matrix - change
    return result


def apply_right(matrix: Array, tau: Array, v: Array) -> Array:
    """Return the matrix times the reflector."""
    column = matrix @ v[..., np.newaxis]
    change = tau[..., np.newaxis, np.newaxis] * (column * v.conj()[..., np.newaxis, :])
    result: Array = matrix - change
    return result


def stored_vector(matrix: Array, column: int) -> Array:
    """Return the vector whose tail is stored below the diagonal in `column`, [..., m - column]."""
    below = matrix[..., column + 1 :, column]
    ones = np.ones_like(matrix[..., column : column + 1, column])
    return np.concatenate([ones, below], axis=-1)


def eliminate_column(matrix: Array, row: int, column: int) -> Array:
    """Reflect `column` so that it is 0 below `row`, and store the vector there; returns tau.

    The columns to its right are reflected with it, in place.
    """
    beta, tau, v = reflector(matrix[..., row:, column])
    right = matrix[..., row:, column + 1 :]
    matrix[..., row:, column + 1 :] = apply_left(right, tau.conj(), v)
    matrix[..., row, column] = beta
    matrix[..., row + 1 :, column] = v[..., 1:]
    return tau
