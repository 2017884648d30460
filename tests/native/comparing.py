"""What native code computes beside what it has to compute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.compiler import DEFAULT_PLAN, PlanOptions
from lowtide.evaluator import array_leaves, evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.module import Module
from lowtide.llvm.target import Target, host_target, restricted
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable


@cache
def target_named(name: str) -> Target:
    """Return this processor, or the same without what it has beyond AVX2."""
    host = host_target()
    return host if name == "native" else restricted(host, name)


def compiled(
    module: Module | str,
    threads: int = 2,
    target: str = "native",
    options: PlanOptions = DEFAULT_PLAN,
) -> LinkedExecutable:
    """Return a module, or its text, as native code that keeps no memory between calls."""
    if isinstance(module, str):
        module = parse_hlo(module)
    program = build(module, CpuBackend(threads, target_named(target)), options).program
    return LinkedExecutable(program, options=CallOptions(huge_pages=False))


def flat(value: Any) -> list[np.ndarray]:
    """Return the arrays of a result, depth first."""
    return array_leaves(value)


def reference(module: Module | str, arguments: Sequence[Any]) -> Any:
    """Return what the evaluator computes."""
    if isinstance(module, str):
        module = parse_hlo(module)
    return evaluate(module, list(arguments))


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the greatest error by the greatest finite magnitude expected.

    It is infinite for other types, sizes, NaN or infinities, and for integers that differ.
    """
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind in "biu" or "int" in expected.dtype.name:
        return 0.0 if np.array_equal(got, expected) else float("inf")
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = got.astype(wide), expected.astype(wide)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf))
        magnitude = np.abs(b)
    scale = float(np.max(magnitude[np.isfinite(magnitude)], initial=0.0))
    worst = float(np.max(error, initial=0.0))
    return worst / scale if scale else worst
