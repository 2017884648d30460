"""Bundles compute what their parts do, bit for bit, for any number of threads."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codegen.bundles.programs import (
    assert_same_bits,
    bundles_of,
    program_of,
    results,
    without_bundles,
)
from tests.native.test_random_modules import RECIPES, reads_bits
from tests.random_modules import random_module
from tests.random_modules.recipe import COMMON_TYPES, Recipe

from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.ir.thunk import BundleThunk, ConditionalThunk, WhileThunk, all_thunks
from lowtide.testing.check_pass import seeded_arguments

LOOPS = Recipe(
    ("loops", "branches", "in place", "calls", "elementwise", "indexing", "reduction", "sorting"),
    element_types=COMMON_TYPES,
    max_instructions=14,
    shared_results=True,
)
"""Loops in loops, branches in loops, and values that want one place."""


def check_seed(seed: int) -> int:
    """Compare; return the number of bundles."""
    recipe = (*RECIPES, LOOPS, LOOPS)[seed % (len(RECIPES) + 2)]
    module = random_module(seed, recipe)
    try:
        program = program_of(module, 1 + seed % 2, ("native", "avx2")[seed // 7 % 2])
    except UnsupportedOpError:
        return 0
    if reads_bits(module):
        return 0
    arguments = seeded_arguments(module, seed)
    assert_same_bits(program, *arguments)
    with suppress(InputError):  # Only arguments that lie as their layouts say can be consumed.
        assert_same_bits(program, *arguments, consume=True)
    return len(bundles_of(program))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 32))
def test_random_modules(seed: int) -> None:
    check_seed(seed)


def test_most_random_modules_have_bundles() -> None:
    assert sum([check_seed(seed) > 0 for seed in range(20)]) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2_000, 200))
def test_many_random_modules(start: int) -> None:
    for seed in range(start, start + 200):
        check_seed(seed)


NESTED = """HloModule nested

inner_less { s = (s32[], f32[4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=2
  ROOT c = pred[] compare(i, n), direction=LT }

inner { s = (s32[], f32[4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  half = f32[] constant(0.5)
  halves = f32[4] broadcast(half), dimensions={}
  j = s32[] add(i, one)
  y = f32[4] multiply(x, halves)
  z = f32[4] sine(y)
  w = f32[4] add(z, x)
  ROOT t = (s32[], f32[4], s32[]) tuple(j, w, n) }

outer_less { s = (s32[], s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT c = pred[] compare(i, n), direction=LT }

up { x = f32[4] parameter(0)
  ROOT y = f32[4] exponential(x) }

less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }

down { x = f32[4] parameter(0)
  ROOT y = f32[4] sort(x), dimensions={0}, to_apply=less }

outer { s = (s32[], s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  y = f32[4] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  two = s32[] constant(2)
  start = (s32[], f32[4], s32[]) tuple(zero, x, i)
  l = (s32[], f32[4], s32[]) while(start), condition=inner_less, body=inner
  w = f32[4] get-tuple-element(l), index=1
  rest = s32[] remainder(i, two)
  odd = pred[] compare(rest, one), direction=EQ
  v = f32[4] conditional(odd, w, w), true_computation=up, false_computation=down
  j = s32[] add(i, one)
  ROOT t = (s32[], s32[], f32[4], f32[4]) tuple(j, n, y, v) }

ENTRY main {
  x = f32[4] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], s32[], f32[4], f32[4]) tuple(zero, n, x, x)
  l = (s32[], s32[], f32[4], f32[4]) while(start), condition=outer_less, body=outer
  a = f32[4] get-tuple-element(l), index=2
  b = f32[4] get-tuple-element(l), index=3
  ROOT t = (f32[4], f32[4]) tuple(a, b) }
"""
"""A loop in a loop, a branch in a loop, and a state whose elements change places."""


@pytest.mark.parametrize("trips", (0, 1, 2, 7))
@pytest.mark.parametrize("threads", (1, 2))
def test_nested_loops_are_one_bundle(trips: int, threads: int) -> None:
    program = program_of(NESTED, threads)
    (bundle,) = bundles_of(program)
    assert program.thunks == (bundle,)
    kinds = [type(x) for x in all_thunks(bundle.parts)]
    assert kinds.count(WhileThunk) == 2
    assert kinds.count(ConditionalThunk) == 1
    x = np.array([0.1, -2.0, 3.5, np.inf], np.float32)
    assert_same_bits(program, x, np.int32(trips))


def test_one_thread_and_two_compute_the_same_bits() -> None:
    x = np.random.default_rng(0).standard_normal(4).astype(np.float32)
    one, two = (results(program_of(NESTED, n), x, np.int32(5)) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.tobytes() == b.tobytes()


SWITCH = """HloModule chosen

first { x = s32[3] parameter(0)
  ROOT y = s32[3] add(x, x) }

second { x = s32[3] parameter(0)
  ROOT y = s32[3] negate(x) }

third { x = s32[3] parameter(0)
  ROOT y = s32[3] multiply(x, x) }

ENTRY main {
  i = s32[] parameter(0)
  x = s32[3] parameter(1)
  one = s32[] constant(1)
  j = s32[] subtract(i, one)
  ROOT c = s32[3] conditional(j, x, x, x), branch_computations={first, second, third}
}
"""


@pytest.mark.parametrize("index", (-5, 0, 1, 2, 3, 100))
def test_branches_are_chosen_as_thunks_choose_them(index: int) -> None:
    program = program_of(SWITCH)
    assert bundles_of(program)
    x = np.array([3, -4, 5], np.int32)
    assert_same_bits(program, np.int32(index), x)
    expected = [x + x, -x, x * x][index - 1 if 1 <= index <= 3 else 2]
    np.testing.assert_array_equal(results(program, np.int32(index), x)[0], expected)


AROUND = """HloModule around

less { s = (s32[], f32[4], f32[4096], f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=4
  ROOT c = pred[] compare(i, n), direction=LT }

body { s = (s32[], f32[4], f32[4096], f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  big = f32[4096] get-tuple-element(s), index=2
  q = f32[] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  first = f32[1] slice(x), slice={[0:1]}
  f = f32[] reshape(first)
  r = f32[] multiply(q, f)
  rs = f32[4096] broadcast(r), dimensions={}
  grown = f32[4096] add(big, rs)
  z = f32[4096] sine(grown)
  some = f32[4] slice(z), slice={[8:12]}
  y = f32[4] add(x, some)
  last = f32[1] slice(y), slice={[3:4]}
  p = f32[] reshape(last)
  n = s32[] get-tuple-element(s), index=4
  ROOT t = (s32[], f32[4], f32[4096], f32[], s32[]) tuple(j, y, z, p, n) }

ENTRY main {
  x = f32[4] parameter(0)
  big = f32[4096] parameter(1)
  q = f32[] parameter(2)
  n = s32[] parameter(3)
  zero = s32[] constant(0)
  start = (s32[], f32[4], f32[4096], f32[], s32[]) tuple(zero, x, big, q, n)
  ROOT l = (s32[], f32[4], f32[4096], f32[], s32[]) while(start), condition=less, body=body }
"""
"""A loop with a kernel that the threads share, and small ones around it."""


@pytest.mark.parametrize("threads", (1, 2))
def test_values_outlive_bundles_within_a_loop_that_is_none(threads: int) -> None:
    program = program_of(AROUND, threads)
    loops = [x for x in program.thunks if isinstance(x, WhileThunk)]
    assert any(isinstance(x, BundleThunk) for y in loops for x in y.body)
    rng = np.random.default_rng(1)
    x, big = (rng.standard_normal(n).astype(np.float32) for n in (4, 4096))
    assert_same_bits(program, x, big, np.float32(0.25), np.int32(6))


EMPTY = """HloModule empty

less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }

ENTRY main {
  x = f32[0] parameter(0)
  y = f32[3] parameter(1)
  z = f32[0] add(x, x)
  w = f32[3] sine(y)
  v = f32[3] sort(w), dimensions={0}, to_apply=less
  ROOT t = (f32[0], f32[3]) tuple(z, v) }
"""


def test_values_without_bytes() -> None:
    program = program_of(EMPTY)
    assert_same_bits(program, np.zeros(0, np.float32), np.array([3, 1, 2], np.float32))


DONATED = """HloModule donated, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }

less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }

ENTRY main {
  x = f32[5] parameter(0)
  y = f32[5] parameter(1)
  a = f32[5] sine(y)
  b = f32[5] subtract(x, a)
  c = f32[5] sort(b), dimensions={0}, to_apply=less
  ROOT t = (f32[5], f32[5]) tuple(c, a) }
"""


def test_donated_arguments() -> None:
    program = program_of(DONATED)
    assert bundles_of(program)
    x, y = (np.random.default_rng(n).standard_normal(5).astype(np.float32) for n in (0, 1))
    assert_same_bits(program, x, y)
    assert_same_bits(program, x, y, consume=True)
    kept = results(program, x, y)
    for a, b in zip(kept, results(program, x, y, consume=True), strict=True):
        assert a.tobytes() == b.tobytes()


HALVES = """HloModule halves, buffer_donor={ (0, {}) }
ENTRY main {
  p = f64[4] parameter(0)
  halves = s32[4,2] bitcast-convert(p)
  ROOT t = (s32[4,2], f64[4]) tuple(halves, p) }
"""
"""A value stored in two parts within a loop that runs once, and loaded whole behind it."""


@pytest.mark.parametrize("target", ("native", "avx2"))
def test_values_stored_in_parts(target: str) -> None:
    program = program_of(HALVES, target=target)
    assert bundles_of(program)
    x = np.array([1.5, -2.25, 3e300, 0.1])
    assert_same_bits(program, x)
    assert_same_bits(program, x, consume=True)


def test_programs_without_their_bundles_have_none() -> None:
    program = without_bundles(program_of(NESTED))
    assert not bundles_of(program)
