"""Reducers that no order of applying makes equal: the result has to be that of some order.

The reducer is Welford's: means, sums of squares and counts of two groups make those of both. Next
to an infinity its result hangs on which values meet first (a difference of two infinite means is
NaN, an infinite mean alone is not), and HLO leaves the order open. What is not open: each value and
the start value count once, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable
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


LAST: Final = """
HloModule m
last {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  zero = s32[] constant(0)
  none = pred[] compare(b, zero), direction=EQ
  ROOT r = s32[] select(none, a, b)
}}
ENTRY main {{
  x = s32[{sizes}] parameter(0)
  zero = s32[] constant(0)
  t = s32[{turned}] transpose(x), dimensions={{{order}}}
  ROOT y = s32[{kept}] reduce(t, zero), dimensions={{{reduced}}}, to_apply=last
}}
"""
"""The last number that is not 0: associative, and another one for operands that change places."""

FIRST: Final = """
HloModule m
first {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  is = pred[] compare(a, b), direction=GE
  most = f32[] maximum(a, b)
  place = s32[] select(is, i, j)
  ROOT r = (f32[], s32[]) tuple(most, place)
}}
ENTRY main {{
  x = f32[{sizes}] parameter(0)
  i = s32[{sizes}] parameter(1)
  least = f32[] constant(-inf)
  none = s32[] constant(-1)
  ROOT y = (f32[{kept}], s32[{kept}]) reduce(x, i, least, none), dimensions={{{reduced}}},
    to_apply=first
}}
"""


def joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize(
    ("sizes", "order", "reduced"),
    [
        ((1000,), (0,), (0,)),
        ((100_003,), (0,), (0,)),
        ((3, 70), (0, 1), (1,)),
        ((70, 3), (0, 1), (0,)),
        ((40, 9), (0, 1), (0, 1)),
        ((3, 5, 7), (0, 1, 2), (0, 2)),
        ((8, 16, 16), (1, 0, 2), (0, 1)),
        ((8, 16, 16), (2, 1, 0), (0, 1, 2)),
    ],
)
def test_numbers_keep_their_order(sizes, order, reduced, target):
    x = np.random.default_rng(len(sizes)).integers(0, 9, sizes).astype(np.int32)
    x[x < 4] = 0
    turned = x.transpose(order)
    kept = [n for d, n in enumerate(turned.shape) if d not in reduced]
    text = LAST.format(
        sizes=joined(sizes),
        turned=joined(turned.shape),
        order=joined(order),
        kept=joined(kept),
        reduced=joined(reduced),
    )
    rows = np.moveaxis(turned, reduced, range(-len(reduced), 0)).reshape(*kept, -1)
    back = (rows[..., ::-1] != 0).argmax(-1)[..., None]
    expected = np.take_along_axis(rows[..., ::-1], back, -1)[..., 0]
    np.testing.assert_array_equal(compiled(text, target=target)(x), expected)


@pytest.mark.parametrize("sizes", [(1000,), (5, 60), (60, 5)])
@pytest.mark.parametrize("from_the_end", [False, True])
def test_first_of_equal_ones(sizes, from_the_end):
    """Places that do not tell which number comes first: what comes first tells."""
    rng = np.random.default_rng(len(sizes))
    x = np.round(rng.normal(size=sizes)).astype(np.float32)
    places = rng.permutation(x.size).reshape(sizes).astype(np.int32)
    axis = len(sizes) - 1 if from_the_end else 0
    kept = [n for d, n in enumerate(sizes) if d != axis]
    text = FIRST.format(sizes=joined(sizes), kept=joined(kept), reduced=axis)
    most, place = compiled(text)(x, places)
    first = np.expand_dims(x.argmax(axis), axis)
    np.testing.assert_array_equal(most, x.max(axis))
    np.testing.assert_array_equal(place, np.take_along_axis(places, first, axis).squeeze(axis))
