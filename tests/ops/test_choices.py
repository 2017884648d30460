# ruff: noqa: E501
"""Reducers that choose: which of them give the same for parts as for all."""

from __future__ import annotations

import pytest
from tests.codegen.gpu.programs import text_of

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ops.choices import chooses_in_order

ENTRY = """
  x = f32[4] parameter(0)
  i = s32[4] iota(), iota_dimension=0
  n = f32[] constant(-inf)
  z = s32[] constant(0)
  p = (f32[], s32[]) reduce(x, i, n, z), dimensions={0}, to_apply=argmax
  q = (f32[], s32[]) reduce(x, i, n, z), dimensions={0}, to_apply=argmin
  r = (f32[], s32[]) reduce(x, i, n, z), dimensions={0}, to_apply=anymax
  v = (f32[], s32[]) reduce(x, i, n, z), dimensions={0}, to_apply=first
  s = f32[] reduce(x, n), dimensions={0}, to_apply=largest
  t = f32[] reduce(x, n), dimensions={0}, to_apply=minus
  ROOT u = ((f32[], s32[]), (f32[], s32[]), (f32[], s32[]), (f32[], s32[]), f32[], f32[]) tuple(p, q, r, v, s, t)
"""


@pytest.mark.parametrize(
    ("name", "is_same"),
    [
        ("argmax", True),
        ("argmin", True),
        ("anymax", True),
        ("first", False),
        ("largest", True),
        ("minus", False),
    ],
)
def test_choices_of_choices(name: str, is_same: bool) -> None:
    module = parse_hlo(text_of(ENTRY))
    assert chooses_in_order(module.computations[name]) is is_same


def test_instructions_that_were_made_late_are_found_first() -> None:
    """Passes put new instructions behind those that read them."""
    computation = parse_hlo(text_of(ENTRY)).computations["argmax"]
    old = next(x for x in computation.instructions.values() if x.opcode is Opcode.SELECT)
    late = computation.append("late", old.opcode, old.shape, old.operands, old.attributes)
    old.replace_all_uses_with(late)
    assert chooses_in_order(computation)
