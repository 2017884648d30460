"""Readers that never run, as far as the check of plans counts them."""

from lowtide.checking import check_plan
from lowtide.compiler import PlanOptions, plan
from lowtide.frontend.hlo_text import parse_hlo

TEXT = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }
fused {
  a = c64[8,1] parameter(0)
  b = c64[8,1] parameter(1)
  i = s32[] parameter(2)
  n = c64[8,1] negate(a)
  r = c64[8,1] slice(n), slice={[0:8], [0:1]}
  ROOT d = c64[8,1] dynamic-update-slice(a, b, i, i)
}
ENTRY e {
  a = c64[8,1] parameter(0)
  b = c64[8,1] parameter(1)
  i = s32[] parameter(2)
  ROOT f = c64[8,1] fusion(a, b, i), kind=kLoop, calls=fused
}
"""


def test_a_reader_that_nothing_needs_refuses_no_plan():
    made = plan(parse_hlo(TEXT), PlanOptions("input"))
    assert check_plan(made.module, made.assignment) == ()
