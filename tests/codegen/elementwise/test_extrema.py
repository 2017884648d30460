"""The greater and the lesser of numbers: NaN and zeros of both signs, in one lane and in many."""

import numpy as np
import pytest
from tests.codegen.loops import target_of

import lowtide
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.processor import extremum
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function
from lowtide.options import Options

OPTIONS = {"native": Options(), "avx2": Options(target="cpu:avx2")}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40]


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("which", ["minimum", "maximum"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 7, 8, 16, 40])
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_each_pair_of_special_numbers(type_: str, lanes: int, which: str, target: str) -> None:
    dtype = {"f32": np.float32, "f64": np.float64}[type_]
    a, b = [x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL)]
    shape = f"{type_}[]" if lanes == 1 else f"{type_}[{lanes}]"
    text = f"""HloModule m
ENTRY e {{
  a = {shape} parameter(0)
  b = {shape} parameter(1)
  ROOT r = {shape} {which}(a, b)
}}"""
    program = lowtide.compile(lowtide.parse_hlo(text), options=OPTIONS[target])
    step = 9 if lanes == 1 else 3
    for first in range(0, len(a), step):
        given = [np.resize(np.roll(x, -first), lanes).astype(dtype) for x in (a, b)]
        given = [x[0] if lanes == 1 else x for x in given]
        found = np.asarray(program(*given))
        expected = _extremum(which, *given)
        np.testing.assert_array_equal(found, expected)
        ordered = ~np.isnan(expected)
        signs = np.signbit(found)[ordered], np.signbit(expected)[ordered]
        np.testing.assert_array_equal(*signs)


def _extremum(which: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What is expected: NaN if one is, and -0 is less than 0."""
    is_first = (a < b) | ((a == b) & np.signbit(a))
    least, most = np.where(is_first, a, b), np.where(is_first, b, a)
    chosen = least if which == "minimum" else most
    return np.where(np.isnan(a) | np.isnan(b), np.nan, chosen)


@pytest.mark.parametrize("which", ["minimum", "maximum"])
def test_the_sign_of_one_lane_is_not_tested(which: str) -> None:
    """What LLVM makes of its own extremum moves each number to an integer register and back."""
    fn = Function("f", parameters(a="float", b="float"))
    a, b = [Number(fn, target_of("avx2"), "float", 0, x) for x in ("%a", "%b")]
    extremum(which, a, b)
    assert not any("llvm." in x for x in fn.lines)
    extremum(which, a, a.constant(0.0))
    assert any(f"llvm.{which}" in x for x in fn.lines)
