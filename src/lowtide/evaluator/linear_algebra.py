"""Fourier transforms, Cholesky decomposition and triangular solve.

Batches are computed together; sums and solutions of narrow types are computed in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lowtide.evaluator.numeric import widen
from lowtide.evaluator.values import Value, Values, as_array
from lowtide.ir.attributes import Cholesky, Fft, TriangularSolve
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction


# -- fft ---------------------------------------------------------------------------------------

_TRANSFORMS: Final[dict[str, Callable[..., Any]]] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


def fft(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the transform of the last dimensions, computed in f64; IFFT and IRFFT divide by n."""
    attributes = instruction.attributes_as(Fft)
    operand = as_array(operands[0])
    shape = instruction.shape
    length = attributes.length
    dimensions = operand.shape[: operand.ndim - len(length)]
    if not operand.size or 0 in length:
        return np.zeros((*dimensions, *shape.dimensions[len(dimensions) :]), _dtype(instruction))
    axes = tuple(range(len(dimensions), operand.ndim))
    wide = operand.astype(np.complex128 if operand.dtype.kind == "c" else np.float64)
    result = _TRANSFORMS[attributes.kind](wide, length, axes) if axes else wide
    return np.asarray(result).astype(_dtype(instruction))


def _dtype(instruction: Instruction) -> np.dtype[Any]:
    return DTYPES[instruction.shape.element_type]


# -- cholesky ----------------------------------------------------------------------------------


def cholesky(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the factor of each matrix, the other triangle 0; all NaN where there is none.

    Only the named triangle of the operand is read.
    """
    operand = as_array(operands[0])
    matrix = widen(operand)
    if instruction.attributes_as(Cholesky).lower:
        factor = cholesky_lower(matrix)
    else:
        factor = _adjoint(cholesky_lower(_adjoint(matrix)))
    failed = ~np.isfinite(np.diagonal(factor, axis1=-2, axis2=-1)).all(axis=-1)
    factor[failed] = np.nan
    return factor.astype(operand.dtype, copy=False)


def cholesky_lower(matrix: Array) -> Array:
    """Return L with `L @ adjoint(L)` equal to the matrix, of whose lower triangle it is made.

    Shape [..., n, n]. The columns from the first negative pivot on are NaN or infinite.
    """
    factor = np.tril(matrix)
    for k in range(matrix.shape[-1]):
        row = factor[..., k, :k]
        pivot = factor[..., k, k].real - np.sum((row * row.conj()).real, axis=-1)
        root = np.sqrt(np.where(pivot > 0, pivot, np.nan))
        below = factor[..., k + 1 :, :k] @ row.conj()[..., np.newaxis]
        column = factor[..., k + 1 :, k] - below[..., 0]
        factor[..., k + 1 :, k] = column / root[..., np.newaxis]
        factor[..., k, k] = root
    return factor


def _adjoint(matrix: Array) -> Array:
    return np.conj(np.swapaxes(matrix, -1, -2))


# -- triangular solve --------------------------------------------------------------------------


def triangular_solve(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return x with `op(a) @ x = b`, or `x @ op(a) = b` where a is not on the left side."""
    options = instruction.attributes_as(TriangularSolve)
    a, b = (as_array(x) for x in operands)
    return solve_triangular(a, b, options).astype(b.dtype, copy=False)


def solve_triangular(a: Array, b: Array, options: TriangularSolve) -> Array:
    """Return the solution by substitution, of shapes [..., n, n] and [..., n, m] or [..., m, n].

    Only the triangle of `a` that `options.lower` names is read, and not its diagonal where that
    is taken as ones.
    """
    a, b = widen(a), widen(b)
    lower = options.lower
    if options.transpose_a == "ADJOINT":
        a = np.conj(a)
    if options.transpose_a != "NO_TRANSPOSE":
        a, lower = np.swapaxes(a, -1, -2), not lower
    if not options.left_side:  # x op(a) = b is op(a)' x' = b'
        a, lower, b = np.swapaxes(a, -1, -2), not lower, np.swapaxes(b, -1, -2)
    x = _substitute(a, b, lower=lower, unit_diagonal=options.unit_diagonal)
    return x if options.left_side else np.swapaxes(x, -1, -2)


def _substitute(a: Array, b: Array, *, lower: bool, unit_diagonal: bool) -> Array:
    x = b.copy()
    size = a.shape[-1]
    for i in range(size) if lower else reversed(range(size)):
        known = slice(i) if lower else slice(i + 1, size)
        row = x[..., i, :] - (a[..., i : i + 1, known] @ x[..., known, :])[..., 0, :]
        x[..., i, :] = row if unit_diagonal else row / a[..., i, i, np.newaxis]
    return x


HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.CHOLESKY: cholesky,
    Opcode.FFT: fft,
    Opcode.TRIANGULAR_SOLVE: triangular_solve,
}
