"""Sums with +0 stand where they make no other wait, and change the same zeros as before."""

from itertools import product

import numpy as np
import pytest

import lowtide
from lowtide.evaluator import array_leaves, evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.zero_sums import with_early_zeros

FUNCTION = """define void @f(ptr %p) {{
entry:
  %a = load float, ptr %p, align 4
  %b = fmul float %a, %a
  %c = fmul float %b, %a
{lines}
  store float %r, ptr %p, align 4
  ret void
}}
"""
ZERO = "0x0000000000000000"
MOVED = [
    (  # The other term of the next sum is known before.
        f"  %z = fadd float %c, {ZERO}\n  %r = fadd float %z, %b",
        f"  %z = fadd float %b, {ZERO}\n  %r = fadd float %c, %z",
    ),
    (
        f"  %z = fadd float {ZERO}, %c\n  %r = fadd float %b, %z",
        f"  %z = fadd float %b, {ZERO}\n  %r = fadd float %c, %z",
    ),
    (  # The first term of a difference is known before the second one.
        f"  %d = fsub float %b, %c\n  %r = fadd float %d, {ZERO}",
        f"  %d = fadd float %b, {ZERO}\n  %r = fsub float %d, %c",
    ),
    (
        f"  %d = fadd float %c, %b\n  %r = fadd float %d, {ZERO}",
        f"  %d = fadd float %b, {ZERO}\n  %r = fadd float %d, %c",
    ),
]
KEPT = [
    f"  %z = fadd float %b, {ZERO}\n  %r = fadd float %z, %c",  # It is early where it is.
    f"  %d = fsub float %c, %b\n  %r = fadd float %d, {ZERO}",
    f"  %z = fadd float %c, {ZERO}\n  %r = fsub float %z, %b",  # Not the same for b = +0.
    f"  %z = fadd float %c, {ZERO}\n  %s = fadd float %z, %b\n  %r = fmul float %s, %z",
    f"  %d = fsub float %b, %c\n  %z = fadd float %d, {ZERO}\n  %r = fmul float %d, %z",
    "  %z = fadd float %c, 0x8000000000000000\n  %r = fadd float %z, %b",
]


@pytest.mark.parametrize(("before", "after"), MOVED)
def test_they_are_moved_to_what_is_known_first(before: str, after: str) -> None:
    moved = with_early_zeros(FUNCTION.format(lines=before))
    assert moved.replace("\n\n", "\n") == FUNCTION.format(lines=after)
    assert with_early_zeros(moved).replace("\n\n", "\n") == FUNCTION.format(lines=after)


@pytest.mark.parametrize("lines", KEPT)
def test_they_are_kept(lines: str) -> None:
    assert with_early_zeros(FUNCTION.format(lines=lines)) == FUNCTION.format(lines=lines)


SUMS = """HloModule sums

ENTRY e {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  zero = f32[] constant(0)
  ab = f32[] multiply(a, b)
  abc = f32[] multiply(ab, c)
  n = f32[] negate(abc)
  z1 = f32[] add(n, zero)
  r1 = f32[] add(z1, ab)
  d2 = f32[] subtract(a, abc)
  r2 = f32[] add(d2, zero)
  d3 = f32[] add(abc, b)
  r3 = f32[] add(zero, d3)
  z4 = f32[] add(abc, zero)
  total = f32[] add(ab, z4)
  r4 = f32[] divide(total, total)
  r5 = f32[] divide(total, a)
  ROOT t = (f32[], f32[], f32[], f32[], f32[]) tuple(r1, r2, r3, r4, r5)
}
"""
NUMBERS = np.array([0.0, -0.0, 1.0, -1.0, 3e-39, -1e-45, 1e-30, np.inf, 2.5], np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_all_bits_are_those_of_the_evaluator() -> None:
    module = parse_hlo(SUMS)
    executable = lowtide.compile(module, cache=False)
    for given in product(NUMBERS, repeat=3):
        expected = array_leaves(evaluate(module, list(given)))
        for number, (a, b) in enumerate(zip(executable(*given), expected, strict=True)):
            same = np.isnan(a) and np.isnan(b)
            assert same or np.asarray(a).tobytes() == np.asarray(b).tobytes(), (number, given)
