"""Vectors that are quantized give what division, rounding and conversion give one by one."""

import numpy as np
import pytest

import lowtide
from lowtide.codegen.cpu import quantizing

MODULE = """HloModule quantizing

ENTRY main {{
  x = f32[{size}] parameter(0)
  s = f32[] constant({scale})
  scales = f32[{size}] broadcast(s), dimensions={{}}
  quotient = f32[{size}] divide(x, scales)
  whole = f32[{size}] round-nearest-even(quotient)
  z = f32[] constant({zero})
  zeros = f32[{size}] broadcast(z), dimensions={{}}
  moved = f32[{size}] add(zeros, whole)
  ROOT q = {type}[{size}] convert(moved)
}}
"""
ENDS = {"u8": (0, 255), "s8": (-128, 127)}
ODD = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -1e-45, 2.1e9, -2.2e9]
SCALES = [0.02, 1.0, 0.5, 1 / 3, 0.0078125, 1e-5, 1e-6, 3e4, 4e6, 0.1, 1e-38, 1e30]
"""Scales, the first and the last of which are beyond those that two products stand for."""


def _numbers(scale: float, seed: int) -> np.ndarray:
    """Halves of all integers there are and their neighbours, odd numbers, any others."""
    unit = np.float32(scale)
    with np.errstate(over="ignore"):
        found = [(np.arange(-600, 600) / 2).astype(np.float32) * unit]
        for _ in range(3):
            found += [np.nextafter(found[-1], np.float32(np.inf))]
            found += [np.nextafter(found[-2], np.float32(-np.inf))]
        rng = np.random.default_rng(seed)
        found += [(rng.uniform(-300, 300, 5000) * scale).astype(np.float32)]
        found += [np.array(ODD, np.float32), np.array(ODD[::-1], np.float32) * unit]
    return np.concatenate(found)


def _expected(x: np.ndarray, scale: float, zero: int, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        moved = np.rint(x / np.float32(scale)) + np.float32(zero)
    inside = np.clip(np.where(np.isnan(moved), 0, moved), *ENDS[name])
    return inside.astype(name.replace("u", "uint").replace("s", "int"))


@pytest.mark.parametrize("target", ["cpu", "cpu:avx2"])
@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_number_is_quantized_as_by_its_steps(scale: float, name: str, target: str) -> None:
    x = _numbers(scale, 3)
    for zero in (0, *ENDS[name], 121 if name == "u8" else -7):
        text = MODULE.format(type=name, size=x.size, scale=repr(scale), zero=zero)
        program = lowtide.compile(lowtide.parse_hlo(text), target=target, cache=False)
        found = np.asarray(program(x))
        np.testing.assert_array_equal(found, _expected(x, scale, zero, name), err_msg=str(zero))


def test_a_shift_that_is_no_integer_is_added_before_numbers_are_cut() -> None:
    x = _numbers(0.02, 4)
    text = MODULE.format(type="u8", size=x.size, scale=0.02, zero=7.5)
    found = np.asarray(lowtide.compile(lowtide.parse_hlo(text), cache=False)(x))
    with np.errstate(all="ignore"):
        moved = np.rint(x / np.float32(0.02)) + np.float32(7.5)
    inside = np.clip(np.where(np.isnan(moved), 0, moved), 0, 255)
    np.testing.assert_array_equal(found, inside.astype(np.uint8))


def test_two_products_stand_for_usual_scales() -> None:
    scales = np.exp(np.random.default_rng(5).uniform(-9, 9, 200)).astype(np.float32)
    assert all(quantizing.is_exact(float(x), -121, 134) for x in scales)
    assert not quantizing.is_exact(1e-30, 0, 255)
    assert not quantizing.is_exact(-0.5, 0, 255)
    assert not quantizing.is_exact(float("nan"), 0, 255)


def test_two_products_stand_for_no_scale_whose_reciprocal_is_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The test of a scale sees products that differ from the quotient."""
    quantizing.is_exact.cache_clear()
    monkeypatch.setattr(quantizing, "_inverse", lambda x: (np.float32(1 / x), np.float32(0)))
    assert not quantizing.is_exact(0.02, 0, 255)
    quantizing.is_exact.cache_clear()
