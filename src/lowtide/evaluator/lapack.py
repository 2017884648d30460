"""Factorizations and solutions by LAPACK, the `lapack_<type><routine>_ffi` that JAX calls on CPU.

Matrices are [..., m, n] with any batch. Results that LAPACK leaves undefined are zeros here, or
the operand. `info`, s32, is 0 for success, and counts from 1 where it names a column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lowtide.evaluator import householder
from lowtide.evaluator.linear_algebra import cholesky_lower, solve_triangular
from lowtide.evaluator.values import Value, Values, as_array
from lowtide.ir.attributes import TriangularSolve
from lowtide.ir.errors import unsupported
from lowtide.ir.literal import Array
from lowtide.ops.custom_call import call_options

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction

Int32Array = npt.NDArray[np.int32]


def no_failure(matrix: Array) -> Int32Array:
    """Return the `info` of success, one per matrix."""
    return np.zeros(matrix.shape[:-2], np.int32)


def _first_column(failed: Array) -> Int32Array:
    """Return the number from 1 of the first column marked, 0 where there is none; [..., n]."""
    if not failed.shape[-1]:
        return np.zeros(failed.shape[:-1], np.int32)
    first = np.argmax(failed, axis=-1) + 1
    return np.where(failed.any(axis=-1), first, 0).astype(np.int32)


def _diagonal(matrix: Array) -> Array:
    return np.diagonal(matrix, axis1=-2, axis2=-1)


def _adjoint(matrix: Array) -> Array:
    return np.conj(np.swapaxes(matrix, -1, -2))


# -- factorizations ----------------------------------------------------------------------------


def potrf(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (Cholesky factor, info); the other triangle is that of the operand."""
    matrix = as_array(operands[0])
    lower = call_options(instruction).get("uplo", "L") == "L"
    if lower:
        factor = cholesky_lower(matrix) + np.triu(matrix, 1)
    else:
        factor = _adjoint(cholesky_lower(_adjoint(matrix))) + np.tril(matrix, -1)
    return (factor, _first_column(np.isnan(_diagonal(factor))))


def getrf(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (L and U in one matrix, pivot rows from 1, info), with partial pivoting."""
    matrix = as_array(operands[0]).copy()
    rows, columns = matrix.shape[-2:]
    pivots = np.zeros((*matrix.shape[:-2], min(rows, columns)), np.int32)
    for k in range(min(rows, columns)):
        pivot = k + np.argmax(_magnitude(matrix[..., k:, k]), axis=-1)
        pivots[..., k] = pivot + 1
        _swap_rows(matrix, k, pivot)
        divisor = matrix[..., k : k + 1, k]
        factor = np.where(divisor == 0, matrix[..., k + 1 :, k], matrix[..., k + 1 :, k] / divisor)
        matrix[..., k + 1 :, k] = factor
        row = matrix[..., k : k + 1, k + 1 :]
        matrix[..., k + 1 :, k + 1 :] -= factor[..., np.newaxis] * row
    return (matrix, pivots, _first_column(_diagonal(matrix) == 0))


def _magnitude(array: Array) -> Array:
    """Return |re| + |im|, by which LAPACK chooses pivots."""
    magnitude: Array = np.abs(array.real) + np.abs(array.imag)
    return magnitude


def _swap_rows(matrix: Array, k: int, pivot: Array) -> None:
    places = pivot[..., np.newaxis, np.newaxis]
    chosen = np.take_along_axis(matrix, places, -2)
    np.put_along_axis(matrix, places, matrix[..., k : k + 1, :], -2)
    matrix[..., k : k + 1, :] = chosen


def geqrf(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (R, with the reflectors of Q below it, their factors tau)."""
    matrix = as_array(operands[0]).copy()
    count = min(matrix.shape[-2:])
    taus = [householder.eliminate_column(matrix, k, k) for k in range(count)]
    return (matrix, _stack(taus, matrix))


def geqp3(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (R and reflectors, column order from 1, taus): each time the longest column is next.

    Columns that the operand marks as fixed in front are not supported.
    """
    matrix, fixed = as_array(operands[0]).copy(), as_array(operands[1])
    if np.any(fixed):
        raise unsupported(instruction, "columns fixed in front are not evaluated; free ones are")
    columns = np.swapaxes(matrix, -1, -2)
    order = np.broadcast_to(np.arange(1, fixed.shape[-1] + 1), fixed.shape).astype(np.int32)
    taus = []
    for k in range(min(matrix.shape[-2:])):
        lengths = np.linalg.norm(matrix[..., k:, k:], axis=-2)
        longest = k + np.argmax(lengths, axis=-1)
        _swap_rows(columns, k, longest)
        _swap_rows(order[..., np.newaxis], k, longest)
        taus.append(householder.eliminate_column(matrix, k, k))
    return (matrix, order, _stack(taus, matrix))


def gehrd(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (Hessenberg form with the reflectors below it, taus, info)."""
    matrix = as_array(operands[0]).copy()
    chosen = call_options(instruction)
    size = matrix.shape[-1]
    low, high = int(chosen.get("low", "1")), int(chosen.get("high", str(size)))
    taus = np.zeros((*matrix.shape[:-2], max(size - 1, 0)), matrix.dtype)
    for k in range(low - 1, high - 1):
        beta, tau, v = householder.reflector(matrix[..., k + 1 : high, k])
        right = matrix[..., :high, k + 1 : high]
        matrix[..., :high, k + 1 : high] = householder.apply_right(right, tau, v)
        below = matrix[..., k + 1 : high, k + 1 :]
        matrix[..., k + 1 : high, k + 1 :] = householder.apply_left(below, tau.conj(), v)
        matrix[..., k + 1, k] = beta
        matrix[..., k + 2 : high, k] = v[..., 1:]
        taus[..., k] = tau
    return (matrix, taus, no_failure(matrix))


def sytrd(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (the reflectors, diagonal, the one beside it, taus, info) of Hermitian matrices.

    Only the triangle that the option `uplo` names is read; the reflectors stand there, beyond the
    diagonals. The upper form is the lower one of the matrix with rows and columns in reverse.
    """
    given = as_array(operands[0])
    lower = call_options(instruction).get("uplo", "L") == "L"
    turned = given if lower else given[..., ::-1, ::-1]
    half = np.tril(turned, -1)
    real = np.apply_along_axis(np.diag, -1, _diagonal(turned).real) if turned.size else turned.real
    matrix = half + _adjoint(half) + real.astype(given.dtype)
    size = matrix.shape[-1]
    taus = np.zeros((*matrix.shape[:-2], max(size - 1, 0)), matrix.dtype)
    stored = np.triu(turned, 1)
    for k in range(size - 1):
        beta, tau, v = householder.reflector(matrix[..., k + 1 :, k])
        rest = householder.apply_right(matrix[..., k + 1 :, k + 1 :], tau, v)
        matrix[..., k + 1 :, k + 1 :] = householder.apply_left(rest, tau.conj(), v)
        matrix[..., k + 1, k] = beta
        stored[..., k + 1, k] = beta
        stored[..., k + 2 :, k] = v[..., 1:]
        taus[..., k] = tau
    places = np.arange(size)
    stored[..., places, places] = _diagonal(matrix).real
    diagonal = _diagonal(matrix).real.copy()
    beside = np.diagonal(matrix, -1, axis1=-2, axis2=-1).real.copy()
    if not lower:
        stored, diagonal = stored[..., ::-1, ::-1].copy(), diagonal[..., ::-1].copy()
        beside, taus = beside[..., ::-1].copy(), taus[..., ::-1].copy()
    return (stored, diagonal, beside, taus, no_failure(matrix))


def _stack(taus: list[Array], matrix: Array) -> Array:
    if taus:
        return np.stack(taus, axis=-1)
    return np.zeros((*matrix.shape[:-2], 0), matrix.dtype)


# -- products and solutions --------------------------------------------------------------------


def orgqr(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the first columns of Q, the product of the reflectors in operand 0."""
    matrix, taus = (as_array(x) for x in operands)
    rows, columns = matrix.shape[-2:]
    q = np.broadcast_to(np.eye(rows, columns, dtype=matrix.dtype), matrix.shape).copy()
    for k in reversed(range(taus.shape[-1])):
        v = householder.stored_vector(matrix, k)
        q[..., k:, :] = householder.apply_left(q[..., k:, :], taus[..., k], v)
    return q


def ormqr(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return Q or its adjoint, from either side, times operand 2."""
    matrix, taus, target = (as_array(x) for x in operands)
    chosen = call_options(instruction)
    left, adjoint = chosen.get("left") == "true", chosen.get("transpose") == "true"
    result = target.copy() if left else _adjoint(target)
    # c @ op(q) is the adjoint of op'(q) @ adjoint(c)
    forward = adjoint if left else not adjoint
    count = taus.shape[-1]
    for k in range(count) if forward else reversed(range(count)):
        tau = taus[..., k].conj() if forward else taus[..., k]
        v = householder.stored_vector(matrix, k)
        result[..., k:, :] = householder.apply_left(result[..., k:, :], tau, v)
    return result if left else _adjoint(result)


_TRANSPOSES: Final = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def trsm(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the solution of a triangular system with matrix operand 0."""
    chosen = call_options(instruction)
    solve = TriangularSolve(
        left_side=chosen["side"] == "L",
        lower=chosen["uplo"] == "L",
        unit_diagonal=chosen["diag"] == "U",
        transpose_a=_TRANSPOSES[chosen["trans_x"]],
    )
    return solve_triangular(as_array(operands[0]), as_array(operands[1]), solve)


def gtsv(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (dl, d, du, solution, info) of a tridiagonal system; dl, d and du are the operands.

    Operands: the diagonals below, at and above the main one, of equal length (the first entry of
    dl and the last one of du are not read), and the right-hand sides [..., n, m].
    """
    dl, d, du, b = (as_array(x) for x in operands)
    size = d.shape[-1]
    matrix = np.zeros((*d.shape, size), d.dtype)
    places = np.arange(size)
    matrix[..., places, places] = d
    matrix[..., places[1:], places[:-1]] = dl[..., 1:]
    matrix[..., places[:-1], places[1:]] = du[..., :-1]
    solution, info = b.copy(), no_failure(matrix)
    for batch in np.ndindex(info.shape):
        try:
            solution[batch] = np.linalg.solve(matrix[batch], b[batch])
        except np.linalg.LinAlgError:
            info[batch] = size
    return (dl, d, du, solution, info)


# -- names -------------------------------------------------------------------------------------


def target_names(routine: str, types: str = "sdcz") -> list[str]:
    """Return the targets of a routine: one per type s (f32), d (f64), c (c64) and z (c128)."""
    return [f"lapack_{letter}{routine}_ffi" for letter in types]


def _each_type(routine: str, handler: Handler, types: str = "sdcz") -> dict[str, Handler]:
    return dict.fromkeys(target_names(routine, types), handler)


TARGETS: Final[dict[str, Handler]] = {
    **_each_type("gehrd", gehrd),
    **_each_type("geqp3", geqp3),
    **_each_type("geqrf", geqrf),
    **_each_type("getrf", getrf),
    **_each_type("gtsv", gtsv),
    **_each_type("potrf", potrf),
    **_each_type("hetrd", sytrd, "cz"),
    **_each_type("sytrd", sytrd, "sd"),
    **_each_type("trsm", trsm),
    **_each_type("orgqr", orgqr, "sd"),
    **_each_type("ormqr", ormqr, "sd"),
    **_each_type("ungqr", orgqr, "cz"),
    **_each_type("unmqr", ormqr, "cz"),
}
"""What computes each routine, by the name of its custom-call target."""
