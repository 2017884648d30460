"""HLO texts run natively and by the evaluator, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.compiler import PlanOptions
from lowtide.evaluator import Token, evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import Array
from lowtide.llvm.target import Target, host_target, restricted
from lowtide.runtime.cpu.call import LinkedExecutable

TARGETS = ("native", "avx2")


@cache
def target_of(name: str) -> Target:
    """Return the processor that runs this, or one with fewer features."""
    return restricted(host_target(), name)


def run(
    text: str, inputs: Sequence[Array], target: str = "native", stage: str = "input"
) -> list[Array]:
    """Return the arrays of the result of native code."""
    compiled = build(parse_hlo(text), CpuBackend(2, target_of(target)), PlanOptions(stage))
    result: Any = LinkedExecutable(compiled.program)(*inputs)
    return [np.asarray(x) for x in value_leaves(result) if not isinstance(x, Token)]


def expected(text: str, inputs: Sequence[Array]) -> list[Array]:
    """Return the arrays of the result of the evaluator."""
    with np.errstate(all="ignore"):
        result = evaluate(parse_hlo(text), inputs)
    return [x for x in value_leaves(result) if not isinstance(x, Token)]


def check(
    text: str,
    inputs: Sequence[Array],
    target: str = "native",
    stage: str = "input",
    tolerance: float = 0.0,
) -> None:
    """Raise AssertionError unless both agree, to `tolerance` times the largest magnitude."""
    before = [x.copy() for x in inputs]
    for got, wanted in zip(run(text, inputs, target, stage), expected(text, inputs), strict=True):
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        if tolerance:
            _close(got, wanted, tolerance)
        else:
            np.testing.assert_array_equal(_wide(got), _wide(wanted))
            assert got.dtype.kind != "f" or _same_zeros(got, wanted)
    for array, old in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(_wide(array), _wide(old))


def _wide(array: Array) -> Array:
    """The values as a type of NumPy's own that has all of them, and whose NaN it knows."""
    if array.dtype.kind in "biu":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _same_zeros(a: Array, b: Array) -> bool:
    zero = a == 0
    return bool((np.signbit(a[zero]) == np.signbit(b[zero])).all())


def _close(got: Array, wanted: Array, tolerance: float) -> None:
    a, b = _wide(got), _wide(wanted)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)) or 1.0
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)
