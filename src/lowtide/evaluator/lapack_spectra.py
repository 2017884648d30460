"""Eigenvalues and singular values by LAPACK, as JAX calls it on CPU.

Matrices are [..., m, n] with any batch. Vectors are unique up to their phase, and in a subspace of
equal values up to its rotation. A matrix without a result gives NaN and `info` 1.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from lowtide.evaluator.lapack import target_names
from lowtide.evaluator.values import Value, Values, as_array, as_tuple, zeros
from lowtide.ir.errors import unsupported
from lowtide.ir.literal import Array
from lowtide.ops.custom_call import call_options, spectrum_triangle

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction


def _results(instruction: Instruction) -> list[Array]:
    return [as_array(x) for x in as_tuple(zeros(instruction.shape))]


def syevd(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (eigenvectors in columns, ascending eigenvalues, info) of Hermitian matrices.

    Only the triangle that the option `uplo` names is read.
    """
    lower = call_options(instruction).get("uplo", "L") == "L"
    vectors, values, info = _results(instruction)
    for batch in _spectra(as_array(operands[0]), "L" if lower else "U", vectors, values):
        info[batch] = 1
    return (vectors, values, info)


def eigh(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (eigenvectors in columns, ascending eigenvalues) of Hermitian matrices: XLA's call."""
    vectors, values = _results(instruction)
    _spectra(as_array(operands[0]), spectrum_triangle(instruction), vectors, values)
    return (vectors, values)


def _spectra(
    matrix: Array, triangle: Literal["L", "U"], vectors: Array, values: Array
) -> list[tuple[int, ...]]:
    """Store the spectrum of each matrix of a batch, by one triangle; return which have none."""
    failed = []
    for batch in np.ndindex(values.shape[:-1]):
        try:
            values[batch], vectors[batch] = np.linalg.eigh(matrix[batch], triangle)
        except np.linalg.LinAlgError:
            values[batch], vectors[batch] = np.nan, np.nan
            failed.append(batch)
    return failed


def gesdd(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (the operand, descending singular values, U, adjoint of V, info).

    The option `mode` asks for all vectors (A), as many as values (S) or none (N: zeros).
    """
    matrix = as_array(operands[0])
    mode = call_options(instruction).get("mode", "A")
    _, values, u, vt, info = _results(instruction)
    for batch in np.ndindex(info.shape):
        try:
            if mode == "N":
                values[batch] = np.linalg.svd(matrix[batch], compute_uv=False)
                continue
            parts = np.linalg.svd(matrix[batch], full_matrices=mode == "A")
            u[batch], values[batch], vt[batch] = parts
        except np.linalg.LinAlgError:
            u[batch], values[batch], vt[batch], info[batch] = np.nan, np.nan, np.nan, 1
    return (matrix, values, u, vt, info)


def geev(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (eigenvalues, left and right eigenvectors in columns, info).

    Eigenvalues of a real matrix are two arrays, real and imaginary parts. Vectors have length 1.
    """
    matrix = as_array(operands[0])
    chosen = call_options(instruction)
    *_, left, right, info = _results(instruction)
    values = np.zeros(matrix.shape[:-1], left.dtype)
    for batch in np.ndindex(info.shape):
        try:
            values[batch], found = np.linalg.eig(matrix[batch])
            if chosen.get("compute_right") == "V":
                right[batch] = found
            if chosen.get("compute_left") == "V":
                left[batch] = _left_vectors(found)
        except np.linalg.LinAlgError:
            values[batch], left[batch], right[batch], info[batch] = np.nan, np.nan, np.nan, 1
    parts = (values,) if matrix.dtype.kind == "c" else (values.real.copy(), values.imag.copy())
    return (*parts, left, right, info)


def _left_vectors(right: Array) -> Array:
    """Return the left eigenvectors, of length 1, that belong to the right ones in columns.

    Raises LinAlgError where the right ones do not span the space: the matrix is defective.
    """
    left: Array = np.linalg.inv(right).conj().T
    left /= np.linalg.norm(left, axis=0)
    return left


def gees(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (Schur form, vectors, eigenvalues, how many are selected: none, info).

    Eigenvalues of a real matrix are two arrays, real and imaginary parts. Raises UnsupportedOpError
    where SciPy is not installed.
    """
    try:
        linalg: Any = import_module("scipy.linalg")
    except ImportError:
        raise unsupported(
            instruction, "Schur forms are those of SciPy (pip install scipy)"
        ) from None
    matrix = as_array(operands[0])
    is_real = matrix.dtype.kind != "c"
    form, vectors, *_, selected, info = _results(instruction)
    values = np.zeros(matrix.shape[:-1], np.result_type(matrix.dtype, np.complex64))
    for batch in np.ndindex(info.shape):
        kind = "real" if is_real else "complex"
        try:
            form[batch], vectors[batch] = linalg.schur(matrix[batch], kind, check_finite=False)
            values[batch] = _of_schur_form(form[batch])
        except np.linalg.LinAlgError:
            form[batch], vectors[batch], values[batch], info[batch] = np.nan, np.nan, np.nan, 1
    if call_options(instruction).get("mode", "V") != "V":
        vectors[...] = 0
    parts = (values.real.copy(), values.imag.copy()) if is_real else (values,)
    return (form, vectors, *parts, selected, info)


def _of_schur_form(form: Array) -> Array:
    """Return the eigenvalues of a triangle with blocks of two by two, whose diagonal is equal."""
    values = np.diagonal(form).astype(np.result_type(form.dtype, np.complex64))
    if form.dtype.kind == "c":
        return values
    for k in np.flatnonzero(np.diagonal(form, -1)):
        imaginary = np.sqrt(np.abs(form[k, k + 1])) * np.sqrt(np.abs(form[k + 1, k]))
        values[k] += 1j * imaginary
        values[k + 1] -= 1j * imaginary
    return values


TARGETS: Final[dict[str, Handler]] = {
    **dict.fromkeys(target_names("geev"), geev),
    **dict.fromkeys(target_names("gees"), gees),
    **dict.fromkeys(target_names("gesdd"), gesdd),
    **dict.fromkeys(target_names("gesvd"), gesdd),
    **dict.fromkeys(target_names("heevd", "cz"), syevd),
    **dict.fromkeys(target_names("syevd", "sd"), syevd),
}
"""What computes each routine, by the name of its custom-call target."""
