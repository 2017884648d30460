"""Remainders by constants that are rounded down: of one integer, and of many at a time."""

import numpy as np
import pytest

import lowtide
from lowtide.client.executable.anew import compile_anew
from lowtide.inspection.kernel_texts import kernel_texts
from lowtide.options import Options

DIVISORS = (1, 3, 5, 7, 10, 31, 641, 65521, 1_000_003, (1 << 30) + 1, (1 << 31) - 1)

PART = """  c{n} = s32[] constant({divisor})
  d{n} = s32[{size}] broadcast(c{n}), dimensions={{}}
  r{n} = s32[{size}] remainder(x, d{n})
  p{n} = pred[{size}] compare(r{n}, z), direction=LT
  raised{n} = s32[{size}] add(r{n}, d{n})
  f{n} = s32[{size}] select(p{n}, raised{n}, r{n})
"""


def _text(size: str) -> str:
    parts = [PART.format(n=n, divisor=x, size=size) for n, x in enumerate(DIVISORS)]
    names = ", ".join([f"f{n}" for n in range(len(DIVISORS))])
    types = ", ".join([f"s32[{size}]"] * len(DIVISORS))
    return (
        f"HloModule m\n\nENTRY e {{\n  x = s32[{size}] parameter(0)\n  zero = s32[] constant(0)\n"
        f"  z = s32[{size}] broadcast(zero), dimensions={{}}\n{''.join(parts)}"
        f"  ROOT t = ({types}) tuple({names})\n}}\n"
    )


def _dividends() -> np.ndarray:
    """Integers next to multiples of the divisors and to both ends, and some of all magnitudes."""
    rng = np.random.default_rng(3)
    ends = np.array([-(1 << 31), -(1 << 31) + 1, -1, 0, 1, (1 << 31) - 2, (1 << 31) - 1])
    found = [ends, rng.integers(-(1 << 31), 1 << 31, 50)]
    for divisor in DIVISORS:
        most = (1 << 31) // divisor
        multiples = rng.integers(-most, most + 1, 6) * divisor
        found += [multiples - 1, multiples, multiples + 1]
    return np.clip(np.concatenate(found), -(1 << 31), (1 << 31) - 1).astype(np.int32)


def test_remainders_of_one_integer() -> None:
    executable = lowtide.compile(lowtide.parse_hlo(_text("")), cache=False)
    for x in _dividends():
        assert [int(r) for r in executable(x)] == [int(x) % d for d in DIVISORS], x


def test_remainders_of_many() -> None:
    x = _dividends()
    executable = lowtide.compile(lowtide.parse_hlo(_text(str(x.size))), cache=False)
    for found, divisor in zip(executable(x), DIVISORS, strict=True):
        np.testing.assert_array_equal(found, x.astype(np.int64) % divisor)


@pytest.mark.parametrize("target", ["cpu", "cpu:avx2"])
def test_of_one_integer_products_are_taken(target: str) -> None:
    planned = compile_anew(lowtide.parse_hlo(_text("")), Options(target=target))
    texts = "".join([text for _, text in kernel_texts(planned)])
    assert "sdiv" not in texts
    assert "i128" in texts
