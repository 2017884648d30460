"""Reductions with what is fused before, between and behind them: rows, columns, several results."""

import numpy as np
import pytest
from tests.codegen.cpu.reduction.kernels import TARGETS, check_program

from lowtide.codegen.cpu.reduction import rows
from lowtide.codegen.cpu.reduction.caching import kept_values

HEADER = """
HloModule m
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
least { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] minimum(a, b) }
"""

SOFTMAX = """
ENTRY main {{
  x = f32[{m},{n}] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[{m}] reduce(x, low), dimensions={{1}}, to_apply=most
  tops = f32[{m},{n}] broadcast(top), dimensions={{0}}
  d = f32[{m},{n}] subtract(x, tops)
  e = f32[{m},{n}] exponential(d)
  s = f32[{m}] reduce(e, zero), dimensions={{1}}, to_apply=plus
  ss = f32[{m},{n}] broadcast(s), dimensions={{0}}
  ROOT y = f32[{m},{n}] divide(e, ss)
}}
"""

LOG_SOFTMAX = """
ENTRY main {{
  x = f32[{m},{n}] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[{m}] reduce(x, low), dimensions={{1}}, to_apply=most
  tops = f32[{m},{n}] broadcast(top), dimensions={{0}}
  d = f32[{m},{n}] subtract(x, tops)
  e = f32[{m},{n}] exponential(d)
  s = f32[{m}] reduce(e, zero), dimensions={{1}}, to_apply=plus
  l = f32[{m}] log(s)
  ls = f32[{m},{n}] broadcast(l), dimensions={{0}}
  y = f32[{m},{n}] subtract(d, ls)
  ROOT both = (f32[{m},{n}], f32[{m}]) tuple(y, l)
}}
"""

LAYER_NORM = """
ENTRY main {{
  x = f32[{m},{n}] parameter(0)
  scale = f32[{n}] parameter(1)
  mask = pred[{m},{n}] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[{m},{n}] broadcast(zero), dimensions={{}}
  t = f32[{m},{n}] tanh(x)
  z = f32[{m},{n}] select(mask, t, zeros)
  count = f32[] constant({n})
  counts = f32[{m}] broadcast(count), dimensions={{}}
  s = f32[{m}] reduce(z, zero), dimensions={{1}}, to_apply=plus
  mean = f32[{m}] divide(s, counts)
  means = f32[{m},{n}] broadcast(mean), dimensions={{0}}
  d = f32[{m},{n}] subtract(z, means)
  q = f32[{m},{n}] multiply(d, d)
  v = f32[{m}] reduce(q, zero), dimensions={{1}}, to_apply=plus
  variance = f32[{m}] divide(v, counts)
  small = f32[] constant(1e-5)
  smalls = f32[{m}] broadcast(small), dimensions={{}}
  sum = f32[{m}] add(variance, smalls)
  r = f32[{m}] rsqrt(sum)
  rs = f32[{m},{n}] broadcast(r), dimensions={{0}}
  o = f32[{m},{n}] multiply(d, rs)
  scales = f32[{m},{n}] broadcast(scale), dimensions={{1}}
  ROOT y = f32[{m},{n}] multiply(o, scales)
}}
"""


def drawn(rng, *sizes):
    return rng.standard_normal(sizes).astype(np.float32)


SHAPES = [(1, 5), (3, 16), (70, 3), (33, 10), (20, 65), (9, 200), (2, 3001), (300, 129)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_softmax(m, n, target):
    x = 10 * drawn(np.random.default_rng(0), m, n)
    x[0, 0] = -np.inf
    check_program(HEADER + SOFTMAX.format(m=m, n=n), [x], ["rows"], target)
    check_program(HEADER + LOG_SOFTMAX.format(m=m, n=n), [x], ["rows"], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_layer_norm(m, n, target):
    rng = np.random.default_rng(0)
    given = [drawn(rng, m, n), drawn(rng, n), rng.random((m, n)) < 0.8]
    check_program(HEADER + LAYER_NORM.format(m=m, n=n), given, ["rows"], target)


def test_a_softmax_without_numbers():
    """A row of infinities, and one with a NaN, say so; other rows know nothing of them."""
    x = drawn(np.random.default_rng(0), 5, 40)
    x[1] = -np.inf
    x[2, 7] = np.nan
    x[3, 3] = np.inf
    check_program(HEADER + SOFTMAX.format(m=5, n=40), [x], ["rows"])


STATISTICS = """
ENTRY main {{
  x = f32[{sizes}] parameter(0)
  g = f32[{sizes}] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[{sizes}] broadcast(zero), dimensions={{}}
  p = pred[{sizes}] compare(x, zeros), direction=GT
  passed = f32[{sizes}] select(p, g, zeros)
  q = f32[{sizes}] multiply(passed, x)
  a = f32[{kept}] reduce(passed, zero), dimensions={{{dimensions}}}, to_apply=plus
  b = f32[{kept}] reduce(q, zero), dimensions={{{dimensions}}}, to_apply=plus
  r = f32[{kept}] multiply(a, b)
  ROOT all = (f32[{sizes}], f32[{kept}], f32[{kept}]) tuple(passed, a, r)
}}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("sizes", "dimensions", "kernel"),
    [
        ((8, 7, 7, 40), (0, 1, 2), "columns"),
        ((8, 40, 7, 7), (0, 2, 3), "rows"),
        ((70, 300), (0,), "columns"),
        ((30000, 9), (0,), "columns"),
        ((70, 300), (1,), "rows"),
        ((4, 60000), (1,), "rows"),
        ((900, 5), (1,), "rows"),
    ],
)
def test_several_results_of_one_pass(sizes, dimensions, kernel, target):
    """Gradients of a rectifier and of statistics: what is stored on the way, and two sums."""
    rng = np.random.default_rng(0)
    kept = [x for d, x in enumerate(sizes) if d not in dimensions]
    module = STATISTICS.format(
        sizes=",".join(map(str, sizes)),
        kept=",".join(map(str, kept)),
        dimensions=",".join(map(str, dimensions)),
    )
    check_program(HEADER + module, [drawn(rng, *sizes), drawn(rng, *sizes)], [kernel], target)


BEHIND = """
ENTRY main {
  x = f32[6,50,24] parameter(0)
  b = f32[24,6] parameter(1)
  zero = f32[] constant(0)
  e = f32[6,50,24] exponential(x)
  s = f32[6,24] reduce(e, zero), dimensions={1}, to_apply=plus
  t = f32[24,6] transpose(s), dimensions={1,0}
  y = f32[24,6] add(t, b)
  ROOT r = f32[1,144] reshape(y)
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_result_that_is_written_transposed(target):
    rng = np.random.default_rng(0)
    check_program(HEADER + BEHIND, [drawn(rng, 6, 50, 24), drawn(rng, 24, 6)], [], target)


OVERWRITTEN = """
ENTRY main {
  x = f32[300,40] parameter(0)
  a = f32[300,40] sine(x)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  i = s32[300,40] iota(), iota_dimension=1
  many = s32[] constant(1000)
  manys = s32[300,40] broadcast(many), dimensions={}
  m = f32[300] reduce(a, low), dimensions={1}, to_apply=most
  ms = f32[300,40] broadcast(m), dimensions={0}
  p = pred[300,40] compare(a, ms), direction=EQ
  at = s32[300,40] select(p, i, manys)
  f = s32[300] reduce(at, many), dimensions={1}, to_apply=least
  fs = s32[300,40] broadcast(f), dimensions={0}
  o = pred[300,40] compare(fs, i), direction=EQ
  one = f32[300,40] convert(o)
  ROOT y = f32[300,40] subtract(a, one)
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_three_runs_along_a_row(target):
    """Reductions of two types, each of which needs the one before."""
    x = drawn(np.random.default_rng(0), 300, 40)
    check_program(HEADER + OVERWRITTEN, [x], ["rows"], target)


READ_ELSEWHERE = """
ENTRY main {
  x = f32[2,64] parameter(0)
  end = f32[2,3] parameter(1)
  low = f32[] constant(-inf)
  t = f32[2,64] tanh(x)
  d = f32[2,64] subtract(t, x)
  moved = f32[2,61] slice(d), slice={[0:2], [0:61]}
  rolled = f32[2,64] concatenate(end, moved), dimensions={1}
  top = f32[2] reduce(d, low), dimensions={1}, to_apply=most
  tops = f32[2,64] broadcast(top), dimensions={0}
  less = f32[2,64] subtract(d, tops)
  ROOT y = f32[2,64] add(rolled, less)
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_kept_for_a_row_is_not_read_for_another_place(target):
    """The tanh is dear, so it is kept from one run to the next; a slice reads it elsewhere."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(x).astype(np.float32) for x in ((2, 64), (2, 3))]
    check_program(HEADER + READ_ELSEWHERE, inputs, ["rows"], target)


RESIDUALS = """
ENTRY main {
  x = f32[5,96] parameter(0)
  low = f32[] constant(-inf)
  a = f32[5] reduce(x, low), dimensions={1}, to_apply=most
  as = f32[5,96] broadcast(a), dimensions={0}
  p = f32[5,96] subtract(x, as)
  q = f32[5,96] tanh(p)
  first = f32[5,96] add(x, q)
  b = f32[5] reduce(first, low), dimensions={1}, to_apply=most
  bs = f32[5,96] broadcast(b), dimensions={0}
  r = f32[5,96] subtract(first, bs)
  s = f32[5,96] tanh(r)
  second = f32[5,96] add(first, s)
  c = f32[5] reduce(second, low), dimensions={1}, to_apply=most
  cs = f32[5,96] broadcast(c), dimensions={0}
  t = f32[5,96] subtract(second, cs)
  u = f32[5,96] tanh(t)
  third = f32[5,96] add(second, u)
  d = f32[5] reduce(third, low), dimensions={1}, to_apply=most
  ds = f32[5,96] broadcast(d), dimensions={0}
  v = f32[5,96] subtract(third, ds)
  w = f32[5,96] tanh(v)
  ROOT fourth = f32[5,96] add(third, w)
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_each_run_along_a_row_keeps_what_the_next_ones_begin_with(target, monkeypatch):
    """No sum is computed again from the first on; a place that is free is taken by the next one."""
    seen = []

    def noted(form):
        seen.append([(x.value.name.split(".")[0], x.made, x.slot) for x in kept_values(form)])
        return kept_values(form)

    monkeypatch.setattr(rows, "kept_values", noted)
    x = np.random.default_rng(0).standard_normal((5, 96)).astype(np.float32)
    check_program(HEADER + RESIDUALS, [x], ["rows"], target)
    assert seen[-1] == [("first", 1, 0), ("second", 2, 1), ("third", 3, 0)]
