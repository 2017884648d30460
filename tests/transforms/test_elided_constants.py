"""Constants left out of the text count as equal in programs that run, and as unknown."""

from __future__ import annotations

import lowtide
from lowtide.ir import Opcode
from lowtide.transforms.common_subexpressions import merge_common_subexpressions
from lowtide.transforms.elided_constants import make_elided_alike

TEXT = """
HloModule m
ENTRY main {
  x = f32[64] parameter(0)
  a = f32[64] constant({...})
  b = f32[64] constant({...})
  c = f32[32] constant({...})
  d = f32[64] multiply(x, a)
  e = f32[64] multiply(x, b)
  ROOT t = (f32[64], f32[64], f32[32]) tuple(d, e, c)
}
"""


def test_alike_constants_of_equal_shapes_are_merged() -> None:
    module = lowtide.parse_hlo(TEXT)
    assert make_elided_alike(module) == 3
    assert make_elided_alike(module) == 0
    assert merge_common_subexpressions(module) == 2
    opcodes = [x.opcode for x in module.entry.instructions.values()]
    assert opcodes.count(Opcode.CONSTANT) == 2
    assert str(module).count("constant({...})") == 2


def test_no_arithmetic_is_left_out_for_values_that_are_not_known() -> None:
    compiled = lowtide.compile(lowtide.parse_hlo(TEXT), cache=False)
    assert "multiply" in compiled.as_text()
