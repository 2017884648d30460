"""Cholesky and LU decomposition and triangular systems natively and by the evaluator."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check

from lowtide.codegen.cpu.library.lu import plan_lu
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.target import host_target

TYPES = {
    "f32": (np.float32, 1e-4),
    "f64": (np.float64, 1e-11),
    "c64": (np.complex64, 1e-4),
    "c128": (np.complex128, 1e-11),
    "bf16": (ml_dtypes.bfloat16, 3e-2),
}


def drawn(type_: str, shape):
    random = np.random.default_rng(5)
    values = random.standard_normal(shape)
    return values + 1j * random.standard_normal(shape) if type_[0] == "c" else values


def sizes(shape) -> str:
    return ",".join(map(str, shape))


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5, 5), (2, 2, 37, 37), (70, 70), (0, 4, 4)])
def test_cholesky(type_, shape):
    dtype, tolerance = TYPES[type_]
    values = drawn(type_, shape)
    matrix = values @ np.conj(np.swapaxes(values, -1, -2)) + shape[-1] * np.eye(shape[-1])
    if shape == (3, 5, 5):
        matrix[1, 2, 2] = -1  # one matrix of the batch has no factor
    for lower, target in zip(("true", "false"), TARGETS, strict=True):
        text = f"""
HloModule m

ENTRY main {{
  x = {type_}[{sizes(shape)}] parameter(0)
  ROOT y = {type_}[{sizes(shape)}] cholesky(x), lower={lower}
}}
"""
        check(text, [matrix.astype(dtype)], target, tolerance=tolerance)


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("type_", ["f32", "c128"])
def test_triangular_solve(type_, transpose):
    dtype, tolerance = TYPES[type_]
    shapes = [((), 1, 1), ((3,), 5, 7), ((), 37, 70)]
    flags = ("true", "false")
    for (batch, n, m), left, lower, unit in product(shapes, flags, flags, flags):
        if n > 5 and unit == "true":
            continue
        a = (drawn(type_, (*batch, n, n)) / n + 3 * np.eye(n)).astype(dtype)
        shape = (*batch, n, m) if left == "true" else (*batch, m, n)
        b = drawn(type_, shape).astype(dtype)
        text = f"""
HloModule m

ENTRY main {{
  a = {type_}[{sizes(a.shape)}] parameter(0)
  b = {type_}[{sizes(shape)}] parameter(1)
  ROOT x = {type_}[{sizes(shape)}] triangular-solve(a, b), left_side={left}, lower={lower},
      unit_diagonal={unit}, transpose_a={transpose}
}}
"""
        check(text, [a, b], "native" if n == 5 else "avx2", tolerance=tolerance)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize(
    "shape", [(5, 5), (3, 8, 8), (2, 2, 17, 9), (7, 6, 31), (31, 31), (0, 9, 9)]
)
def test_lu_of_small_matrices(type_, shape, target):
    """Scratch lies on the stack; one matrix of a batch has a column without a pivot."""
    dtype, tolerance = TYPES[type_]
    matrix = drawn(type_, shape)
    if shape == (3, 8, 8):
        matrix[1, :, 3] = 0
    letter = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}[type_]
    pivots, batch = sizes((*shape[:-2], min(shape[-2:]))), sizes(shape[:-2])
    rank = len(shape)
    columns = sizes([rank - 2, rank - 1, *reversed(range(rank - 2))])
    text = f"""
HloModule m

ENTRY main {{
  x = {type_}[{sizes(shape)}] parameter(0)
  ROOT y = ({type_}[{sizes(shape)}]{{{columns}}}, s32[{pivots}], s32[{batch}]) custom-call(x),
    custom_call_target="lapack_{letter}getrf_ffi"
}}
"""
    plan = plan_lu(parse_hlo(text).entry.root, host_target())
    assert plan is not None
    assert plan.thread_bytes == plan.shared_bytes == 0
    check(text, [matrix.astype(dtype)], target, tolerance=tolerance)
