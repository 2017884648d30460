"""Runs HLO text and JAX functions on the evaluator and on XLA:CPU, and compares."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from lowtide.evaluator import Interpreter, value_leaves
from lowtide.evaluator.evaluate import arguments_of
from lowtide.frontend.hlo_text import parse_hlo

NO_FAST_MATH = [("xla_cpu_enable_fast_math", False), ("xla_cpu_enable_fast_min_max", False)]


def run_text(text: str, *arguments: Any, seed: int = 0) -> list[Any]:
    """Return the leaves of the result of a module on the evaluator."""
    module = parse_hlo(text)
    values = arguments_of(module, arguments)
    return value_leaves(Interpreter(module, seed=seed).run(module.entry, values))


def run_xla(text: str, *arguments: Any) -> list[Any]:
    """Return the leaves of the result of a module on XLA:CPU."""
    jax = pytest.importorskip("jax")
    from jaxlib import _hlo, _jax, xla_client

    devices = xla_client.DeviceList(tuple(jax.devices("cpu")[:1]))
    module = _hlo.hlo_module_from_text(text)
    program = _jax.mlir.xla_computation_to_mlir_module(
        _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    )
    options = xla_client.CompileOptions()
    options.env_option_overrides = NO_FAST_MATH
    loaded = devices[0].client.compile_and_load(program, devices, options)
    with jax.enable_x64(True):
        buffers = [jax.device_put(x) for x in arguments]
        return [np.asarray(x) for x in loaded.execute(buffers)]


def check_text(text: str, *arguments: Any, tolerance: float = 1e-5) -> list[Any]:
    """Assert that the evaluator agrees with XLA:CPU; return its results."""
    found = run_text(text, *arguments)
    assert_same(found, run_xla(text, *arguments), tolerance)
    return found


def check_jax(function: Callable[..., Any], *arguments: Any, tolerance: float = 1e-5) -> None:
    """Assert that the HLO which JAX makes of a function evaluates to what JAX computes."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        jitted = jax.jit(function)
        expected = [np.asarray(x) for x in jax.tree.leaves(jitted(*arguments))]
        text = jitted.lower(*arguments).as_text(dialect="hlo")
    assert_same(run_text(text, *arguments), expected, tolerance)


def assert_same(found: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    """Assert equal dtypes and shapes, equal integers, and close other numbers."""
    assert [(x.dtype, x.shape) for x in found] == [(x.dtype, x.shape) for x in expected]
    for x, y in zip(found, expected, strict=True):
        if x.dtype.kind in "biu" or "int" in x.dtype.name:
            np.testing.assert_array_equal(x, y)
        else:
            wide = np.complex128
            np.testing.assert_allclose(x.astype(wide), y.astype(wide), tolerance, tolerance)


def dims(sizes: Sequence[int]) -> str:
    """Return sizes as they stand in HLO text, without braces."""
    return ",".join(map(str, sizes))
