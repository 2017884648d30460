"""Factorizations of large matrices by LAPACK's routines in native code, beside NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.target_record import CPU_ALONE, CPU_TARGET
from lowtide.ir import Opcode
from lowtide.ir.literal import Array
from lowtide.transforms.expand.custom_calls import expand_custom_calls

jax = pytest.importorskip("jax")
pytest.importorskip("scipy")
jnp, linalg = jax.numpy, jax.lax.linalg

TYPES = (np.float32, np.float64, np.complex64, np.complex128)
LARGE = 130
"""Rows from which each of the routines is called."""


def matrix(sizes: tuple[int, ...], dtype: type, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    made = random.standard_normal(sizes) + 1j * random.standard_normal(sizes)
    return made.astype(dtype) if np.dtype(dtype).kind == "c" else made.real.astype(dtype)


def definite(sizes: tuple[int, ...], dtype: type) -> Array:
    x = matrix(sizes, dtype)
    return (x @ x.conj().swapaxes(-1, -2) / sizes[-1] + np.eye(sizes[-1])).astype(dtype)


def close(found: Any, wanted: Array) -> None:
    single = np.finfo(wanted.dtype).eps > 1e-10
    scale = float(np.abs(wanted).max())
    assert np.abs(np.asarray(found) - wanted).max() <= scale * (2e-3 if single else 1e-10)


def run(function: Callable[..., Any], *given: Array) -> Any:
    with jax.enable_x64(True):
        return lowtide.jit(function)(*given)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_factors_give_the_matrix(dtype: type, batch: tuple[int, ...]) -> None:
    a, tall = definite((*batch, LARGE, LARGE), dtype), matrix((*batch, LARGE + 7, LARGE), dtype)
    factor = np.asarray(run(jnp.linalg.cholesky, a))
    assert not np.triu(factor, 1).any()
    close(factor @ factor.conj().swapaxes(-1, -2), a)
    upper = np.asarray(run(lambda x: linalg.cholesky(jnp.swapaxes(x, -1, -2)), a))
    close(upper @ upper.conj().swapaxes(-1, -2), a.swapaxes(-1, -2))
    q, r = [np.asarray(x) for x in run(jnp.linalg.qr, tall)]
    close(q @ r, tall)
    close(q.conj().swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(LARGE, dtype=dtype), a.shape))
    lu, _, order = [np.asarray(x) for x in run(linalg.lu, tall)]
    lower = np.tril(lu, -1) + np.eye(LARGE + 7, LARGE, dtype=dtype)
    swapped = np.take_along_axis(tall, order[..., np.newaxis], -2)
    close(lower @ np.triu(lu[..., :LARGE, :]), swapped)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("way", ["N", "T", "C"])
def test_triangular_equations(dtype: type, left: bool, lower: bool, way: str) -> None:
    a, b = definite((LARGE, LARGE), dtype), matrix((LARGE, LARGE - 9), dtype, 1)
    b = b if left else b.T.copy()

    def solved(a: Any, b: Any) -> Any:
        how = {"transpose_a": way != "N", "conjugate_a": way == "C"}
        return linalg.triangular_solve(a, b, left_side=left, lower=lower, **how)

    triangle = np.tril(a) if lower else np.triu(a)
    triangle = {"N": triangle, "T": triangle.T, "C": triangle.conj().T}[way]
    for turned in (False, True):  # As a transposed array comes from, either lies row by row.
        function = (lambda x, y: solved(x.T, y.T)) if turned else solved
        given = (a.T.copy(), b.T.copy()) if turned else (a, b)
        x = np.asarray(run(function, *given))
        close(triangle @ x if left else x @ triangle, b)


@pytest.mark.parametrize("order", ["1,0", "0,1"])
@pytest.mark.parametrize("result", ["1,0", "0,1"])
@pytest.mark.parametrize("alias", ["", ", output_to_operand_aliasing={{0}: (0, {})}"])
def test_any_order_where_it_lies(order: str, result: str, alias: str) -> None:
    shape = f"f64[{LARGE},{LARGE}]"
    text = f"""
HloModule m, is_scheduled=true
ENTRY main {{
  p = {shape}{{{order}}} parameter(0)
  two = {shape}{{{order}}} add(p, p)
  ROOT y = ({shape}{{{result}}}, s32[]) custom-call(two),
    custom_call_target="lapack_dpotrf_ffi", backend_config={{uplo = 76 : ui8}}{alias}
}}
"""
    a = definite((LARGE, LARGE), np.float64)
    found, info = lowtide.compile(parse_hlo(text))(a)
    assert info == 0
    close(np.tril(found), np.linalg.cholesky(2 * a))


def test_least_matrices_and_other_targets_call_nothing() -> None:
    """Small ones are a kernel, of arrays that lie row by row; tall ones are loops, as the least."""

    def text(n: int, rows: int) -> str:
        return f"""
HloModule m
ENTRY main {{
  p = f32[{rows},{n}] parameter(0)
  ROOT y = (f32[{rows},{n}]{{0,1}}, s32[{n}], s32[]) custom-call(p),
    custom_call_target="lapack_sgetrf_ffi", output_to_operand_aliasing={{{{0}}: (0, {{}})}}
}}
"""

    for n, rows, target, stays in (
        (4, 4, CPU_TARGET, False),
        (8, 9, CPU_TARGET, True),
        (8, 9, CPU_ALONE, False),
        (8, LARGE, CPU_TARGET, False),
        (LARGE, LARGE, CPU_TARGET, True),
        (LARGE, LARGE, CPU_ALONE, False),
    ):
        module = parse_hlo(text(n, rows))
        expand_custom_calls(module, target)
        calls = [x for x in module.entry.instructions.values() if x.opcode is Opcode.CUSTOM_CALL]
        assert bool(calls) == stays
        if stays and rows < LARGE:
            assert calls[0].shape.tuple_shapes[0].physical_order == (0, 1)
