"""The judge of `benchmarks/jax_suite.py`: what counts as a wrong result."""

import importlib.util
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("jax")

PATH = Path(__file__).parents[2] / "benchmarks" / "jax_suite_child.py"
ONES = np.ones((2, 3), np.float32)


def judge() -> Any:
    spec = importlib.util.spec_from_file_location("jax_suite_child", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ALIKE = {
    "rounding": (ONES, ONES + np.float32(1e-6)),
    "not a number": (ONES * np.nan, ONES * np.nan),
    "bfloat16": (ONES.astype(ml_dtypes.bfloat16), (ONES * 1.01).astype(ml_dtypes.bfloat16)),
}
UNLIKE = {
    "a value": (ONES, ONES * 1.01),
    "a type": (ONES, ONES.astype(np.float64)),
    "sizes": (ONES, ONES.T),
    "an integer": (np.arange(3), np.array([0, 1, 3])),
    "an infinity": (ONES * np.inf, -ONES * np.inf),
    "a place of NaN": (ONES, ONES * np.nan),
    "64 bits": (ONES.astype(np.float64), ONES + 1e-7),
    "bfloat16": (ONES.astype(ml_dtypes.bfloat16), (ONES * 2).astype(ml_dtypes.bfloat16)),
    "a complex value": (ONES + 1j, ONES - 1j),
}


@pytest.mark.parametrize("name", ALIKE)
def test_rounding_is_no_difference(name: str) -> None:
    assert judge().difference(*ALIKE[name]) is None


@pytest.mark.parametrize("name", UNLIKE)
def test_what_differs_is_told(name: str) -> None:
    assert judge().difference(*UNLIKE[name])
