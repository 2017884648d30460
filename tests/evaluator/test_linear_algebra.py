import itertools

import ml_dtypes
import numpy as np
import pytest
from tests.evaluator.against_xla import check_text, dims, run_text

DTYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}


def random_array(element_type, *shape):
    rng = np.random.default_rng(len(shape))
    array = rng.normal(size=shape)
    if element_type.startswith("c"):
        array = array + 1j * rng.normal(size=shape)
    return array.astype(DTYPES[element_type])


def cholesky_text(element_type, lower):
    return f"""HloModule m
ENTRY e {{
  a = {element_type}[2,4,4] parameter(0)
  ROOT c = {element_type}[2,4,4] cholesky(a), lower={lower}
}}"""


@pytest.mark.parametrize("element_type", ["f32", "f64", "c64"])
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky(element_type, lower):
    matrix = random_array(element_type, 2, 4, 4)
    matrix = matrix @ matrix.conj().swapaxes(1, 2) + np.eye(4, dtype=matrix.dtype)
    matrix[1, 2, 2] = -5  # the second one has no factor
    (factor,) = check_text(cholesky_text(element_type, lower), matrix, tolerance=1e-4)
    other = np.triu(factor[0], 1) if lower == "true" else np.tril(factor[0], -1)
    assert not other.any()
    assert np.isnan(factor[1]).all()


def test_cholesky_reads_one_triangle():
    matrix = np.array([[[4, 99], [2, 5]]] * 2, np.float32)
    padded = np.tile(np.eye(4, dtype=np.float32), (2, 1, 1))
    padded[:, :2, :2] = matrix
    (factor,) = run_text(cholesky_text("f32", "true"), padded)
    assert factor[0, :2, :2].tolist() == [[2, 0], [1, 2]]


TRIANGULAR = list(itertools.product([True, False], repeat=3))


@pytest.mark.parametrize(("left", "lower", "unit"), TRIANGULAR)
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(left, lower, unit, transpose):
    a = random_array("c64", 2, 4, 4)
    b = random_array("c64", 2, *((4, 3) if left else (3, 4)))
    shape = f"c64[{dims(b.shape)}]"
    text = f"""HloModule m
ENTRY e {{
  a = c64[2,4,4] parameter(0)
  b = {shape} parameter(1)
  ROOT x = {shape} triangular-solve(a, b), left_side={str(left).lower()},
    lower={str(lower).lower()}, unit_diagonal={str(unit).lower()}, transpose_a={transpose}
}}"""
    (x,) = run_text(text, a, b)
    matrix = np.tril(a) if lower else np.triu(a)
    if unit:
        matrix[..., range(4), range(4)] = 1
    matrix = {
        "NO_TRANSPOSE": matrix,
        "TRANSPOSE": matrix.swapaxes(1, 2),
        "ADJOINT": matrix.swapaxes(1, 2).conj(),
    }[transpose]
    product = matrix @ x if left else x @ matrix
    np.testing.assert_allclose(product, b, 1e-2, 1e-2)


def test_triangular_solve_against_xla():
    text = """HloModule m
ENTRY e {
  a = f64[2,4,4] parameter(0)
  b = f64[2,3,4] parameter(1)
  ROOT x = f64[2,3,4] triangular-solve(a, b), lower=true, transpose_a=TRANSPOSE
}"""
    a, b = random_array("f64", 2, 4, 4), random_array("f64", 2, 3, 4)
    check_text(text, a, b, tolerance=1e-9)


def test_narrow_types_are_solved_in_f32():
    text = """HloModule m
ENTRY e {
  a = bf16[1,1] parameter(0)
  b = bf16[1,1] parameter(1)
  ROOT x = bf16[1,1] triangular-solve(a, b), left_side=true, lower=true
}"""
    a, b = np.full((1, 1), 3, ml_dtypes.bfloat16), np.full((1, 1), 1, ml_dtypes.bfloat16)
    (x,) = run_text(text, a, b)
    assert x.dtype == ml_dtypes.bfloat16
    assert x[0, 0] == ml_dtypes.bfloat16(1 / 3)


@pytest.mark.parametrize(
    ("kind", "source", "target", "length"),
    [
        ("FFT", "c64", "c64", [3, 4]),
        ("IFFT", "c128", "c128", [2, 3, 4]),
        ("RFFT", "f32", "c64", [5]),
        ("RFFT", "f64", "c128", [3, 4]),
        ("IRFFT", "c64", "f32", [5]),
        ("IRFFT", "c128", "f64", [2, 3, 4]),
    ],
)
def test_fft(kind, source, target, length):
    full = [2, *length]
    half = [*full[:-1], full[-1] // 2 + 1]
    operand, result = (half if kind == "IRFFT" else full), (half if kind == "RFFT" else full)
    text = f"""HloModule m
ENTRY e {{
  a = {source}[{dims(operand)}] parameter(0)
  ROOT c = {target}[{dims(result)}] fft(a), fft_type={kind}, fft_length={{{dims(length)}}}
}}"""
    check_text(text, random_array(source, *operand))


def test_fft_of_an_empty_batch():
    text = """HloModule m
ENTRY e {
  a = f32[0,6] parameter(0)
  ROOT c = c64[0,4] fft(a), fft_type=RFFT, fft_length={6}
}"""
    (found,) = run_text(text, np.zeros((0, 6), np.float32))
    assert (found.shape, found.dtype) == ((0, 4), np.complex64)
