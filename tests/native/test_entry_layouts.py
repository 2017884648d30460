"""Arguments and results lie in memory as `entry_computation_layout` says, whatever runs inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.native.comparing import compiled, flat, reference

import lowtide
from lowtide.ir import Module, Opcode
from lowtide.transforms.layout.handed_on import obey_layouts
from lowtide.verifier import verify

BODY = """ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  q = (f32[4,5]{0,1}, f32[]) parameter(1)
  n = f32[2,3]{1,0} negate(p)
  a = f32[4,5]{0,1} get-tuple-element(q), index=0
  s = f32[] get-tuple-element(q), index=1
  w = f32[4,5]{0,1} broadcast(s), dimensions={}
  b = f32[4,5]{0,1} add(a, w)
  ROOT r = (f32[2,3]{1,0}, f32[4,5]{0,1}, f32[4,5]{0,1}) tuple(n, b, a)
}
"""
LAYOUT = (
    "entry_computation_layout={(f32[2,3]{0,1}, (f32[4,5]{1,0}, f32[]))"
    "->(f32[2,3]{0,1}, f32[4,5]{0,1}, f32[4,5]{1,0})}"
)
TEXTS = [f"HloModule m, {flag}{LAYOUT}\n{BODY}" for flag in ("", "is_scheduled=true, ")]


def arguments() -> list[Any]:
    p = np.arange(6, dtype=np.float32).reshape(2, 3)
    return [p, np.arange(20, dtype=np.float32).reshape(4, 5), np.float32(7)]


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_lie_as_callers_expect_them(text: str) -> None:
    found = flat(compiled(text)(*arguments()))
    for a, b in zip(found, flat(reference(text, arguments())), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [x.strides for x in found] == [(4, 8), (4, 16), (20, 4)]


@pytest.mark.parametrize("text", TEXTS)
def test_copies_stand_at_the_border(text: str) -> None:
    module = lowtide.parse_hlo(text)
    assert obey_layouts(module)
    verify(module)
    program = module.entry.program_shape
    assert module.entry_layout is not None
    assert program.parameters == module.entry_layout.parameters
    assert program.result == module.entry_layout.result
    assert copies(module) == 4
    assert obey_layouts(module) == 0


@pytest.mark.parametrize("text", TEXTS)
def test_explain_counts_the_copies_that_run(text: str) -> None:
    module = lowtide.parse_hlo(text)
    ladder = lowtide.explain(module).ladder
    assert ladder.arena_bytes == lowtide.compile(module).memory["ladder"]["arena_bytes"]


def test_a_donated_argument_in_another_layout_is_copied_first() -> None:
    text = """HloModule m, input_output_alias={ {}: (0, {}, must-alias) },
  entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  ROOT r = f32[2,3]{1,0} reverse(p), dimensions={0,1}
}
"""
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = flat(compiled(text)(np.asfortranarray(given), consume=True))
    np.testing.assert_array_equal(found, given[::-1, ::-1])
    assert found.strides == (4, 8)


def test_layouts_that_agree_need_no_copy() -> None:
    module = lowtide.parse_hlo(f"HloModule m\n{BODY}")
    assert obey_layouts(module) == 0


def copies(module: Module) -> int:
    return [x.opcode for x in module.entry.instructions.values()].count(Opcode.COPY)
