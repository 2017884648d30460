"""Scans whose steps mix elements, in native code and by the evaluator."""

import numpy as np
import pytest
from tests.ways_to_run import run, run_native

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.transforms.expand.scan import expand_scans

SUM = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }"

PREFIX = """step {
  x = f32[4] parameter(0)
  c = f32[] parameter(1)
  n = f32[] reduce(x, c), dimensions={0}, to_apply=sum
  ROOT r = (f32[], f32[]) tuple(n, n)
}"""

SHARES = """step {
  x = f32[4] parameter(0)
  c = f32[] parameter(1)
  n = f32[] reduce(x, c), dimensions={0}, to_apply=sum
  b = f32[4] broadcast(n), dimensions={}
  o = f32[4] multiply(x, b)
  ROOT r = (f32[4], f32[]) tuple(o, n)
}"""

CONSTANT_BESIDE = """step {
  x = f32[] parameter(0)
  c = f32[] parameter(1)
  k = f32[2] constant({1.5, 2.5})
  n = f32[] add(x, c)
  ROOT r = (f32[2], f32[]) tuple(k, n)
}"""

OTHER_CARRY = """step {
  x = f32[] parameter(0)
  c = f32[5] parameter(1)
  n = f32[5] sine(c)
  ROOT r = (f32[], f32[5]) tuple(x, n)
}"""

TURNED = """step {
  x = f32[3,4] parameter(0)
  c = f32[4,3] parameter(1)
  t = f32[4,3] transpose(x), dimensions={1,0}
  n = f32[4,3] add(t, c)
  o = f32[3,4] transpose(n), dimensions={1,0}
  ROOT r = (f32[3,4], f32[4,3]) tuple(o, n)
}"""

NO_CARRY = """step {
  x = f32[4] parameter(0)
  z = f32[] constant(0)
  n = f32[] reduce(x, z), dimensions={0}, to_apply=sum
  ROOT r = (f32[]) tuple(n)
}"""

CASES = {
    "a reduction": (PREFIX, "f32[7,4]", "f32[]", "(f32[7], f32[])", 0),
    "along the last dimension": (SHARES, "f32[4,7]", "f32[]", "(f32[4,7], f32[])", 1),
    "no steps": (PREFIX, "f32[0,4]", "f32[]", "(f32[0], f32[])", 0),
    "slices of no elements": (
        PREFIX.replace("f32[4]", "f32[0]"),
        "f32[7,0]",
        "f32[]",
        "(f32[7], f32[])",
        0,
    ),
    "a result of other sizes": (CONSTANT_BESIDE, "f32[6]", "f32[]", "(f32[6,2], f32[])", 0),
    "a carry of other sizes": (OTHER_CARRY, "f32[6]", "f32[5]", "(f32[6], f32[5])", 0),
    "transposes, in the middle": (TURNED, "f32[3,5,4]", "f32[4,3]", "(f32[3,5,4], f32[4,3])", 1),
    "no carry": (NO_CARRY, "f32[7,4]", "", "(f32[7])", 0),
}


def _text(step, array, carry, result, dimension, reverse):
    given = f"  c = {carry} parameter(1)\n" if carry else ""
    operands = "x, c" if carry else "x"
    way = ", is_reverse=true" if reverse else ""
    return f"""HloModule m
{SUM}
{step}
ENTRY main {{
  x = {array} parameter(0)
{given}  ROOT y = {result} scan({operands}),
    dimensions={{{dimension}}}, num_carries={len(operands) // 3}{way}, to_apply=step
}}
"""


def _arrays(text):
    rng = np.random.default_rng(7)
    shapes = [x.shape.dimensions for x in parse_hlo(text).entry.parameters]
    return [rng.uniform(-1, 1, x).astype(np.float32) for x in shapes]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_native_code_runs_scans_as_the_evaluator_does(case, reverse):
    text = _text(*case, reverse)
    arrays = _arrays(text)
    got, wanted = run_native(text, arrays), run(text, arrays)
    assert len(got) == len(wanted) > 0
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_chains_of_elements_stay():
    step = "step { x = f32[4] parameter(0) c = f32[4] parameter(1) "
    step += "n = f32[4] add(x, c) ROOT r = (f32[4], f32[4]) tuple(n, n) }"
    text = _text(step, "f32[7,4]", "f32[4]", "(f32[7,4], f32[4])", 0, reverse=False)
    module = parse_hlo(text)
    assert expand_scans(module) == 0
    assert module.entry.root.opcode is Opcode.SCAN
