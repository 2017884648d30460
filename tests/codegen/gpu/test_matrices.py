"""Cholesky decompositions and triangular systems on the emulator beside the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.codegen.gpu.programs import TARGET, flat, templates

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.emulator.device import on_emulated_device
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo

RANDOM = np.random.default_rng(0)
KINDS = {"f32": np.float32, "f64": np.float64, "c64": np.complex64}


def near(text: str, *arguments: np.ndarray) -> list[str]:
    """Return the templates of a module whose results on the emulator are the evaluator's."""
    program = build(parse_hlo(text), GpuBackend(TARGET)).program
    (mine,) = flat(on_emulated_device(program)(*arguments))
    (theirs,) = flat(evaluate(parse_hlo(text), arguments))
    assert np.array_equal(np.isnan(mine), np.isnan(theirs))
    size = np.nanmax(np.abs(theirs), initial=1.0)
    assert np.nanmax(np.abs(mine - theirs), initial=0.0) <= 1e-5 * size
    return templates(program)


def matrices(type_: str, *sizes: int) -> np.ndarray:
    found = RANDOM.normal(size=sizes)
    if type_.startswith("c"):
        found = found + 1j * RANDOM.normal(size=sizes)
    return found.astype(KINDS[type_])


@pytest.mark.parametrize(
    ("type_", "batch", "size", "lower"),
    [("f32", 3, 5, "true"), ("f64", 1, 70, "false"), ("c64", 2, 33, "true"), ("f32", 1, 1, "true")],
)
def test_factors(type_: str, batch: int, size: int, lower: str) -> None:
    x = matrices(type_, batch, size, size)
    x = x @ x.conj().transpose(0, 2, 1) + size * np.eye(size, dtype=x.dtype)
    shape = f"{type_}[{batch},{size},{size}]"
    text = f"HloModule m\n\nENTRY e {{\n  x = {shape} parameter(0)\n"
    text += f"  ROOT c = {shape} cholesky(x), lower={lower}\n}}\n"
    assert near(text, x) == ["cholesky"]


def test_what_has_no_factor_is_nan() -> None:
    text = "HloModule m\n\nENTRY e {\n  x = f32[2,3,3] parameter(0)\n"
    text += "  ROOT c = f32[2,3,3] cholesky(x), lower=true\n}\n"
    x = np.stack([np.eye(3), -np.eye(3)]).astype(np.float32)
    assert near(text, x) == ["cholesky"]


@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("transposed", ["NO_TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize(
    ("type_", "batch", "size", "columns", "lower"),
    [("f32", 2, 7, 3, "true"), ("f64", 1, 20, 40, "false"), ("c64", 2, 12, 1, "true")],
)
def test_triangular_systems(
    left: str, transposed: str, type_: str, batch: int, size: int, columns: int, lower: str
) -> None:
    a = matrices(type_, batch, size, size) / size
    a = a.astype(KINDS[type_]) + 2 * np.eye(size, dtype=KINDS[type_])
    sizes = (batch, size, columns) if left == "true" else (batch, columns, size)
    shape = f"{type_}[{','.join(map(str, sizes))}]"
    text = (
        f"HloModule m\n\nENTRY e {{\n  a = {type_}[{batch},{size},{size}] parameter(0)\n"
        f"  b = {shape} parameter(1)\n  ROOT x = {shape} triangular-solve(a, b), "
        f"left_side={left}, lower={lower}, unit_diagonal={'true' if size == 7 else 'false'}, "
        f"transpose_a={transposed}\n}}\n"
    )
    assert near(text, a, matrices(type_, *sizes)) == ["triangular solve"]
