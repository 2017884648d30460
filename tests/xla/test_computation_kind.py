"""Which computations own buffers of the program, and which those of one thread."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InvalidModuleError
from lowtide.xla.analysis.computation_kind import computation_kinds

TEXT = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
fused { x = f32[4] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum }
wrapped { v = f32[4] parameter(0)
  ROOT o = f32[4] negate(v) }
one { x.1 = f32[4] parameter(0)
  ROOT n.1 = f32[4] negate(x.1) }
two { x.2 = f32[4] parameter(0)
  ROOT n.2 = f32[4] call(x.2), to_apply=one }
cond { s.c = f32[4] parameter(0)
  ROOT k = pred[] constant(false) }
body { s.b = f32[4] parameter(0)
  k.b = pred[] constant(false)
  ROOT c.b = f32[4] conditional(k.b, s.b, s.b), true_computation=one, false_computation=two }
unused { ROOT q = f32[4] parameter(0) }
ENTRY e { p = f32[4] parameter(0)
  f = f32[] fusion(p), kind=kLoop, calls=fused
  w = f32[4] while(p), condition=cond, body=body
  h = ((f32[4]), f32[4], u32[]) async-start(w), calls=wrapped
  d = f32[4] async-done(h)
  ROOT t = (f32[], f32[4]) tuple(f, d) }
"""


def test_control_flow_runs_global_computations_and_kernels_thread_local_ones():
    kinds = computation_kinds(parse_hlo(TEXT))
    names = [x.name for x in kinds.global_computations]
    assert sorted(names) == ["body", "cond", "e", "one", "two", "wrapped"]
    assert names[-1] == "e" and names.index("one") < names.index("two") < names.index("body")
    assert [x.name for x in kinds.thread_local] == ["sum", "fused"]


CUSTOM = 'custom_call_target="f", called_computations={wrapped}'


@pytest.mark.parametrize("operation", ["map(w), dimensions={0}", "custom-call(w)"])
def test_one_computation_cannot_be_both(operation):
    is_map = operation.startswith("map")
    callee = "scalar" if is_map else "wrapped"
    attribute = "to_apply=scalar" if is_map else CUSTOM
    text = TEXT.replace(
        "  d = f32[4] async-done(h)",
        f"  m = f32[4] {operation}, {attribute}\n"
        "  v.e = f32[] constant(1)\n  y.e = f32[] call(v.e), to_apply=scalar\n"
        "  d = f32[4] async-done(h)",
    ).replace(
        "unused {", "scalar { v.s = f32[] parameter(0)\n ROOT r.s = f32[] negate(v.s) }\nunused {"
    )
    with pytest.raises(InvalidModuleError, match=rf"m: .* runs computation {callee} with buffers"):
        computation_kinds(parse_hlo(text))
