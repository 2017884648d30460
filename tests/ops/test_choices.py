# ruff: noqa: E501
"""Reducers that choose: which of them give the same for parts as for all."""

from __future__ import annotations

import pytest
from tests.codegen.gpu.programs import text_of

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ops.choices import chooses_alike, chooses_in_order
from lowtide.ops.symmetry import is_symmetric

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


@pytest.mark.parametrize(
    ("name", "is_alike"), [("argmin", True), ("anymax", False), ("first", False), ("largest", True)]
)
def test_equal_numbers_choose_by_their_side(name: str, is_alike: bool) -> None:
    """Of equal ones two of these take the left; a maximum is one number, as the least place is."""
    module = parse_hlo(text_of(ENTRY))
    assert chooses_alike(module.computations[name]) is is_alike


SYMMETRIC = {
    "scaled": ("b = f32[] add(x, y)", "k = f32[] constant(2)", "ROOT r = f32[] multiply(b, k)"),
    "hidden": ("b = f32[] negate(y)", "ROOT r = f32[] subtract(x, b)"),
    "minus": ("ROOT r = f32[] subtract(x, y)",),
    "least": ("c = pred[] compare(x, y), direction=LT", "ROOT r = f32[] select(c, x, y)"),
    "sums": ("a = f32[] add(x, y)", "b = f32[] multiply(y, x)", "ROOT r = f32[] add(b, a)"),
}


@pytest.mark.parametrize(
    ("name", "is_same"),
    [("scaled", True), ("hidden", False), ("minus", False), ("least", True), ("sums", True)],
)
def test_operands_that_change_places(name: str, is_same: bool) -> None:
    lines = "\n".join(SYMMETRIC[name])
    text = f"HloModule m\nENTRY e {{\nx = f32[] parameter(0)\ny = f32[] parameter(1)\n{lines}\n}}"
    assert is_symmetric(parse_hlo(text).entry) is is_same


def test_whole_numbers_choose_alike() -> None:
    """The least of two integers is one number, whichever comes first."""
    text = """HloModule m\nENTRY e {
      x = s32[] parameter(0)
      y = s32[] parameter(1)
      c = pred[] compare(x, y), direction=LT
      ROOT r = s32[] select(c, x, y)
    }"""
    assert is_symmetric(parse_hlo(text).entry)


@pytest.mark.parametrize(("met", "is_same"), [("maximum(b, b)", True), ("maximum(b, j)", False)])
def test_operands_of_one_type_are_told_apart(met: str, is_same: bool) -> None:
    """The greatest of whole numbers and its least place, which is no number to compare with."""
    text = f"""HloModule m\nENTRY e {{
      a = s32[] parameter(0)
      i = s32[] parameter(1)
      b = s32[] parameter(2)
      j = s32[] parameter(3)
      d = s32[] {met}
      more = pred[] compare(a, d), direction=GT
      equal = pred[] compare(a, d), direction=EQ
      value = s32[] select(more, a, d)
      least = s32[] minimum(i, j)
      other = s32[] select(more, i, j)
      place = s32[] select(equal, least, other)
      ROOT r = (s32[], s32[]) tuple(value, place)
    }}"""
    assert is_symmetric(parse_hlo(text).entry) is is_same
