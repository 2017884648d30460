"""Results that lie over operands of another type of equal width: planned so, and right when run."""

import numpy as np
import pytest
from tests.ways_to_run import run, run_emulated, run_native

from lowtide.compiler.options import PlanOptions
from lowtide.compiler.pipeline import plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.target_record import CPU_TARGET, GPU_TARGET

SORTED = """HloModule m

less {{
  a = {read}[] parameter(0)
  b = {read}[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}}

sum {{
  u = f32[] parameter(0)
  v = f32[] parameter(1)
  ROOT w = f32[] add(u, v)
}}

ENTRY main {{
  p = {read}[24,192] parameter(0)
  s = {read}[24,192] sort(p), dimensions={{1}}, to_apply=less
  {work}
}}"""

CONVERTED = "k = {read}[24,192] multiply(s, s)\n ROOT r = {made}[24,192] convert(k)"

BY_ROWS = """f = f32[24,192] convert(s)
  zero = f32[] constant(0)
  total = f32[24] reduce(f, zero), dimensions={1}, to_apply=sum
  totals = f32[24,192] broadcast(total), dimensions={0}
  ROOT r = f32[24,192] divide(f, totals)"""

WORK = [
    (read, made, CONVERTED.format(read=read, made=made))
    for read, made in (
        *(("u32", "f32"), ("f32", "s32"), ("s16", "f16"), ("s64", "f64"), ("s8", "u8")),
        *(("f16", "bf16"), ("f64", "s64")),
    )
] + [("s32", "f32", BY_ROWS)]


@pytest.mark.parametrize(("read", "made", "work"), WORK)
@pytest.mark.parametrize("target", [CPU_TARGET, GPU_TARGET])
def test_there_is_one_array(read, made, work, target) -> None:
    module = parse_hlo(SORTED.format(read=read, work=work))
    found = plan(module, PlanOptions(target=target)).report.to_json()["ladder"]["arena_bytes"]
    array = module.entry.root.shape.nbytes
    assert array <= found < array + array // 2


@pytest.mark.parametrize(("read", "made", "work"), WORK)
def test_results_are_right(read, made, work) -> None:
    text = SORTED.format(read=read, work=work)
    drawn = np.random.default_rng(1).integers(1, 9, (24, 192))
    given = [drawn.astype({"f": "float", "s": "int", "u": "uint"}[read[0]] + read[1:])]
    (wanted,) = run(text, given)
    for way in (run_native, run_emulated):
        (found,) = way(text, given)
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=1e-6, err_msg=made
        )
