"""Modules in a wasteful order, for tests of what takes plans apart."""

from lowtide import compiler
from lowtide.compiler import ModulePlan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.verifier import verify

WASTEFUL = """HloModule wasteful, is_scheduled=true

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[1024] parameter(0), metadata={op_name="x"}
  zero = f32[] constant(0)
  wide0 = f32[1024] exponential(x)
  wide1 = f32[1024] cosine(x)
  wide2 = f32[1024] sine(x)
  wide3 = f32[1024] tanh(x)
  sum0 = f32[] reduce(wide0, zero), dimensions={0}, to_apply=add
  sum1 = f32[] reduce(wide1, zero), dimensions={0}, to_apply=add
  sum2 = f32[] reduce(wide2, zero), dimensions={0}, to_apply=add
  sum3 = f32[] reduce(wide3, zero), dimensions={0}, to_apply=add
  ROOT all = (f32[], f32[], f32[], f32[]) tuple(sum0, sum1, sum2, sum3)
}
"""
"""Four arrays of 4,096 bytes live at once, one would do."""


def planned(text: str) -> ModulePlan:
    """Return our own plan of a module given as text."""
    module = parse_hlo(text)
    verify(module)
    return compiler.plan(module, compiler.PlanOptions("input"))
