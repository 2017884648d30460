"""Calls of LAPACK in native code: the bits that XLA:CPU gives, which calls the same library."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.ir import UnsupportedOpError
from lowtide.ir.literal import Array
from lowtide.llvm import lapack

jax = pytest.importorskip("jax")
jnp, linalg = jax.numpy, jax.lax.linalg

SIZES = ((1, 1), (2, 3, 5, 5), (40, 40), (0, 3, 3))
TALL = ((6, 4), (2, 4, 6))
TYPES = (np.float32, np.float64, np.complex64, np.complex128)


def hermitian(x: Any) -> Any:
    return (x + jnp.conj(jnp.swapaxes(x, -1, -2))) / 2


def by_qr(x: Any) -> Any:
    return linalg.svd(x, algorithm=linalg.SvdAlgorithm.QR)


def solved(x: Any) -> Any:
    return linalg.tridiagonal_solve(*[x[..., i % x.shape[-1], :] for i in range(3)], x)


def in_turned_layout(x: Any) -> Any:
    """Matrices whose batch lies between their rows and columns."""
    return jnp.linalg.eig(jnp.moveaxis(x, 0, -1).swapaxes(0, 1).transpose(2, 1, 0))


SQUARE: dict[str, Callable[..., Any]] = {
    "eig": linalg.eig,
    "eigvals": jnp.linalg.eigvals,
    "schur": linalg.schur,
    "hessenberg": linalg.hessenberg,
    "eigh": lambda x: jnp.linalg.eigh(hermitian(x)),
    "eigh of the upper half": lambda x: linalg.eigh(x, lower=False, symmetrize_input=False),
    "tridiagonal": linalg.tridiagonal,
    "tridiagonal solve": solved,
}
ANY: dict[str, Callable[..., Any]] = {
    "svd": jnp.linalg.svd,
    "thin svd": lambda x: jnp.linalg.svd(x, full_matrices=False),
    "singular values": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "svd by qr": by_qr,
}


def matrix(sizes: tuple[int, ...], dtype: type) -> Array:
    random = np.random.default_rng(len(sizes))
    made = random.standard_normal(sizes) + 1j * random.standard_normal(sizes)
    return made.astype(dtype) if np.dtype(dtype).kind == "c" else made.real.astype(dtype)


def check(function: Callable[..., Any], *given: Array) -> None:
    with jax.enable_x64(True):
        wanted = jax.tree.leaves(jax.jit(function)(*given))
        found = jax.tree.leaves(lowtide.jit(function)(*given))
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def together(functions: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    return lambda *given: [[f(x) for f in functions.values()] for x in given]


@pytest.mark.parametrize("dtype", TYPES)
def test_square_matrices(dtype: type) -> None:
    check(together(SQUARE), *[matrix(sizes, dtype) for sizes in SIZES])


@pytest.mark.parametrize("dtype", TYPES)
def test_matrices_of_any_form(dtype: type) -> None:
    check(together(ANY), *[matrix(sizes, dtype) for sizes in (*SIZES, *TALL)])


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_any_layout(dtype: type) -> None:
    check(in_turned_layout, matrix((3, 4, 4), dtype))


@pytest.mark.parametrize("name", ["eigvals", "schur", "singular values", "eigh"])
def test_what_has_no_result_is_nan(name: str) -> None:
    bad = matrix((3, 4, 4), np.float32)
    bad[1, 2, 0], bad[2, 0, 1] = np.nan, np.inf
    check({**SQUARE, **ANY}[name], bad)


ODD = (
    ("lapack_sgeev_ffi", "f32[3,4]", "(f32[3], f32[3], c64[3,4], c64[3,4], s32[])"),
    ("lapack_sgeev_ffi", "f32[3,3]", "(f32[3], f32[3], f32[3,3], c64[3,3], s32[])"),
    ("lapack_ssyevd_ffi", "f32[3,3]", "(f32[3,3], f32[2], s32[])"),
    ("lapack_ssyevd_ffi", "f32[3]", "(f32[3,3], f32[3], s32[])"),
    ("lapack_ssyevd_ffi", "f64[3,3]", "(f64[3,3], f64[3], s32[])"),
    ("lapack_sgesdd_ffi", "f32[3,3]", "(f32[3,3], f32[3], f32[3,2], f32[3,3], s32[])"),
    ("lapack_sgesdd_ffi", "f32[3,3]", "f32[3]"),
)


@pytest.mark.parametrize(("target", "operand", "result"), ODD)
def test_a_call_that_is_not_what_its_name_says_is_refused(
    target: str, operand: str, result: str
) -> None:
    text = f"""HloModule m
    ENTRY e {{
      a = {operand} parameter(0)
      ROOT r = {result} custom-call(a), custom_call_target="{target}"
    }}"""
    with pytest.raises(UnsupportedOpError, match="not those of s"):
        lowtide.compile(lowtide.parse_hlo(text))


def test_without_scipy_the_call_is_refused_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lapack._routines.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "scipy.linalg.cython_lapack", None)
    try:
        with pytest.raises(UnsupportedOpError, match=r"test_lapack.*pip install scipy"):
            lowtide.jit(lambda x: jnp.linalg.eigvals(x))(np.eye(3, dtype=np.float32))
    finally:
        lapack._routines.cache_clear()
