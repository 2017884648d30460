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


OF_A_TUPLE = """HloModule m, is_scheduled=true
fused {
  a = f16[5] parameter(0)
  at = s32[] constant(2)
  update = f16[5] dynamic-update-slice(a, a, at)
  unread = f64[5] convert(update)
  b = f64[3] parameter(1)
  both = (f64[5], f64[3]) tuple(unread, b)
  second = f64[3] get-tuple-element(both), index=1
  ROOT results = (f16[5], f64[3]) tuple(update, second)
}
ENTRY e {
  p = f16[5] parameter(0)
  c = f16[5] add(p, p)
  b = f64[3] parameter(1)
  ROOT f = (f16[5], f64[3]) fusion(c, b), kind=kCustom, calls=fused
}
"""


def test_elements_of_a_tuple_that_nothing_takes_are_no_readers():
    made = plan(parse_hlo(OF_A_TUPLE), PlanOptions("input"))
    assert check_plan(made.module, made.assignment) == ()
