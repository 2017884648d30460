"""Cholesky decomposition and triangular systems natively and by the evaluator."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check

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
