"""Vectors divided by one value are rounded as the processor rounds quotients."""

import ml_dtypes
import numpy as np
import pytest

import lowtide
from lowtide.codegen.cpu import division

MODULE = """HloModule division

ENTRY main {{
  x = {type}[{rows},{length}] parameter(0)
  y = {type}[{rows}] parameter(1)
  by = {type}[{rows},{length}] broadcast(y), dimensions={{0}}
  ROOT quotient = {type}[{rows},{length}] divide(x, by)
}}
"""
TYPES = {"f32": np.float32, "f64": np.float64}
BFLOATS = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
ARITHMETIC = {"add": np.add, "divide": np.divide, "multiply": np.multiply, "subtract": np.subtract}


@pytest.fixture(autouse=True)
def slow_divisions(monkeypatch):
    """Processors that divide fast multiply by reciprocals here, too."""
    monkeypatch.setattr(division, "has_quick_division", lambda _: False)


def _run(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    text = MODULE.format(type=name, rows=x.shape[0], length=x.shape[1])
    return np.asarray(lowtide.compile(lowtide.parse_hlo(text), cache=False)(x, y))


def _fractions(rng: np.random.Generator, dtype: type, size: object) -> np.ndarray:
    """Numbers from 1 to 2, many of them next to an end."""
    found = rng.uniform(1, 2, size).astype(dtype)
    unit = np.finfo(dtype).eps
    steps = rng.integers(1, 40, size)
    kind = rng.integers(0, 4, size)
    found = np.where(kind == 0, 2 - unit * steps, found)
    return np.where(kind == 1, 1 + unit * steps, found).astype(dtype)


@pytest.mark.parametrize("name", TYPES)
def test_fractions_of_all_kinds_are_rounded_to_nearest(name):
    rng = np.random.default_rng(7)
    x = _fractions(rng, TYPES[name], (2048, 1024))
    y = _fractions(rng, TYPES[name], 2048)
    np.testing.assert_array_equal(_run(name, x, y), x / y[:, None])


@pytest.mark.parametrize("name", TYPES)
def test_quotients_next_to_the_middle_of_two_numbers_are_rounded_to_nearest(name):
    """With b m = a 2**(p + 1) + r, a / b is r / b of a last bit off m, which has p + 1 bits."""
    rng = np.random.default_rng(9)
    bits = np.finfo(TYPES[name]).nmant + 1
    whole = 1 << (bits + 1)
    divisors = [int(x) | 1 for x in rng.integers(whole // 4, whole // 2, 200)]
    x = np.zeros((len(divisors), 256))
    for row, b in enumerate(divisors):
        inverse = pow(b, -1, whole)
        for column in range(256):
            r = 2 * column - 255
            m = r * inverse % whole
            x[row, column] = (b * m - r) // whole if m >= whole // 2 else b
    y = np.array(divisors, TYPES[name])
    x = x.astype(TYPES[name])
    np.testing.assert_array_equal(_run(name, x, y), x / y[:, None])


@pytest.mark.parametrize("name", TYPES)
def test_any_bits_are_divided(name):
    rng = np.random.default_rng(8)
    whole = {"f32": np.uint32, "f64": np.uint64}[name]
    x = rng.integers(0, np.iinfo(whole).max, (512, 256), whole, endpoint=True).view(TYPES[name])
    y = rng.integers(0, np.iinfo(whole).max, 512, whole, endpoint=True).view(TYPES[name])
    info = np.finfo(TYPES[name])
    y[:8] = [0, -0.0, np.inf, -np.inf, np.nan, info.max, info.smallest_subnormal, 1]
    x[:, :8] = y[:8]
    y[8:200] = _fractions(rng, TYPES[name], 192)
    with np.errstate(all="ignore"):
        want = x / y[:, None]
    got = _run(name, x, y)
    np.testing.assert_array_equal(got, want)
    is_number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(want)[is_number])


def test_all_bfloats_are_divided():
    """By all fractions of one power of two, by other powers, and by what is no number."""
    others = np.array([0, -0.0, np.inf, np.nan, 1e-38, 3e38, 2.0**-30, 2.0**30, 3e9, 3e-10])
    y = np.concatenate([BFLOATS[0x3F80:0x4000], others.astype(ml_dtypes.bfloat16)])
    x = np.broadcast_to(BFLOATS, (len(y), len(BFLOATS)))
    with np.errstate(all="ignore"):
        want = np.float32(x) / np.float32(y)[:, None]
    got = np.float32(_run("bf16", x, y))
    np.testing.assert_array_equal(got, np.float32(want.astype(ml_dtypes.bfloat16)))
    is_number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(want)[is_number])


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("opcode", ARITHMETIC)
def test_bfloats_with_any_bits_are_computed_with(opcode, target):
    text = f"""HloModule m
    ENTRY e {{
      x = bf16[{1 << 16}] parameter(0)
      y = bf16[{1 << 16}] parameter(1)
      ROOT z = bf16[{1 << 16}] {opcode}(x, y)
    }}"""
    run = lowtide.compile(lowtide.parse_hlo(text), target=target)
    rng = np.random.default_rng(3)
    for x in (BFLOATS, rng.permutation(BFLOATS), np.repeat(BFLOATS[0x7F80:0x8000], 512)):
        y = rng.permutation(BFLOATS)
        with np.errstate(all="ignore"):
            want = ARITHMETIC[opcode](np.float32(x), np.float32(y)).astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(np.float32(run(x, y)), np.float32(want))
