"""Kernels that compute one element: what loops there could be is not tried."""

import numpy as np
import pytest

import lowtide
from lowtide.codegen import domain

COUNTER = """
HloModule m
ENTRY main {
  i = s32[] parameter(0)
  table = f32[7,3] parameter(1)
  j = s32[] remainder(i, i)
  row = f32[1,1] dynamic-slice(table, i, j), dynamic_slice_sizes={1,1}
  twice = f32[1,1] add(row, row)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT both = (f32[1,1], s32[]) tuple(twice, next)
}
"""


def refuse(*given: object) -> None:
    raise AssertionError("tried")


def test_one_element_is_computed_without_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "trial_of", refuse)
    program = lowtide.compile(lowtide.parse_hlo(COUNTER), cache=False)
    table = np.arange(21, dtype=np.float32).reshape(7, 3)
    twice, following = program(np.int32(5), table)
    assert np.asarray(twice).tolist() == [[30.0]] and int(np.asarray(following)) == 6


def test_two_elements_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "trial_of", refuse)
    text = "HloModule m\nENTRY main {\n x = f32[2] parameter(0)\n ROOT y = f32[2] negate(x)\n}\n"
    with pytest.raises(AssertionError, match="tried"):
        lowtide.compile(lowtide.parse_hlo(text), cache=False)
