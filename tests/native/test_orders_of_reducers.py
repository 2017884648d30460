"""Reducers that no order of applying makes equal: the result has to be that of some order.

The reducer is Welford's: means, sums of squares and counts of two groups make those of both. Next
to an infinity its result hangs on which values meet first (a difference of two infinite means is
NaN, an infinite mean alone is not), and HLO leaves the order open. What is not open: each value and
the start value count once, and nothing else does.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Final, TypeAlias

import numpy as np
import pytest
from tests.native.comparing import compiled

Triple: TypeAlias = "tuple[np.float32, np.float32, np.float32]"
Counts: TypeAlias = "tuple[int, int, int]"
"""How many there are of numbers, the start value among them, and of infinities of either sign."""

START: Final = np.float32(0.25)

ITEMS: Final = (0.37, np.inf, -np.inf)

TEXT: Final = """
HloModule m
merge {{
  ma = f32[] parameter(0)
  sa = f32[] parameter(1)
  na = f32[] parameter(2)
  mb = f32[] parameter(3)
  sb = f32[] parameter(4)
  nb = f32[] parameter(5)
  one = f32[] constant(1)
  n = f32[] add(na, nb)
  least = f32[] maximum(n, one)
  w = f32[] divide(nb, least)
  d = f32[] subtract(mb, ma)
  dw = f32[] multiply(d, w)
  m = f32[] add(ma, dw)
  dd = f32[] multiply(d, d)
  ddn = f32[] multiply(dd, na)
  ddnw = f32[] multiply(ddn, w)
  ss = f32[] add(sa, sb)
  s = f32[] add(ss, ddnw)
  ROOT r = (f32[], f32[], f32[]) tuple(m, s, n)
}}
ENTRY main {{
  x = f32[{rows},{columns}] parameter(0)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  start = f32[] constant(0.25)
  zeros = f32[{rows},{columns}] broadcast(zero), dimensions={{}}
  ones = f32[{rows},{columns}] broadcast(one), dimensions={{}}
  ROOT y = (f32[{kept}], f32[{kept}], f32[{kept}]) reduce(x, zeros, ones, start, zero, one),
    dimensions={{{dimension}}}, to_apply=merge
}}
"""


def merged(a: Triple, b: Triple) -> Triple:
    """Return what two groups make together."""
    with np.errstate(all="ignore"):
        count = a[2] + b[2]
        share = b[2] / np.maximum(count, np.float32(1))
        apart = b[0] - a[0]
        return a[0] + apart * share, a[1] + b[1] + apart * apart * a[2] * share, count


def kinds(triple: tuple[np.float32, ...]) -> tuple[str, ...]:
    """Return of each number whether it is finite, NaN, or which infinity."""
    return tuple([str(float(x)) if not np.isfinite(x) else "finite" for x in triple])


@cache
def possible(counts: Counts) -> dict[tuple[str, ...], Triple]:
    """Return what some order makes of so many values, one of each kind.

    Finite numbers of two groups are taken for unequal, as drawn ones are.
    """
    total = sum(counts)
    if total == 1:
        triple = (np.float32(ITEMS[counts.index(1)]), np.float32(0), np.float32(1))
        return {kinds(triple): triple}
    found: dict[tuple[str, ...], Triple] = {}
    for first in product(*[range(x + 1) for x in counts]):
        if 0 < sum(first) < total:
            rest = tuple([x - y for x, y in zip(counts, first, strict=True)])
            for a in possible(first).values():
                for b in possible(rest).values():
                    triple = merged(a, b)
                    found[kinds(triple)] = triple
    return found


def drawn(rows: int, length: int) -> np.ndarray:
    """Return rows of which most have an infinity or two, first, last, and anywhere."""
    rng = np.random.default_rng(rows * 1000 + length)
    values = rng.uniform(0.1, 2, (rows, length)).astype(np.float32)
    for row in range(1, rows):
        for _ in range(rng.integers(0, 3)):
            place = rng.choice([0, length - 1, rng.integers(length)])
            values[row, place] = rng.choice(np.float32([np.inf, -np.inf]))
    return values


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 17, 40])
@pytest.mark.parametrize("rows", [2, 5, 19])
def test_some_order(rows, length, dimension):
    x = drawn(rows, length)
    sizes = (rows, length) if dimension == 1 else (length, rows)
    text = TEXT.format(rows=sizes[0], columns=sizes[1], kept=rows, dimension=dimension)
    results = compiled(text)(x if dimension == 1 else np.ascontiguousarray(x.T))
    for row, found in zip(x, zip(*map(np.asarray, results), strict=True), strict=True):
        signs = (int(np.isposinf(row).sum()), int(np.isneginf(row).sum()))
        assert kinds(found) in possible((length + 1 - sum(signs), *signs)), row
        assert found[2] == length + 1
        if not sum(signs):
            values = np.append(row, START)
            apart = values - values.mean()
            assert found[0] == pytest.approx(values.mean(), rel=1e-5)
            assert found[1] == pytest.approx((apart * apart).sum(), rel=1e-4)


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize(("rows", "length"), [(2, 100_003), (3, 70_000), (40, 9_001)])
def test_long_rows_in_parts(rows, length, dimension):
    values = np.random.default_rng(length).uniform(0.1, 2, (rows, length)).astype(np.float32)
    sizes = (rows, length) if dimension == 1 else (length, rows)
    text = TEXT.format(rows=sizes[0], columns=sizes[1], kept=rows, dimension=dimension)
    x = values if dimension == 1 else np.ascontiguousarray(values.T)
    mean, squares, count = map(np.asarray, compiled(text)(x))
    exact = np.concatenate([values, np.full((rows, 1), START)], axis=1).astype(np.float64)
    np.testing.assert_array_equal(count, length + 1)
    np.testing.assert_allclose(mean, exact.mean(1), rtol=1e-4)
    np.testing.assert_allclose(squares, exact.var(1) * (length + 1), rtol=1e-3)
