"""Constants without values in the text: zeros where a module runs, unknown elsewhere."""

import numpy as np

import lowtide
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.transforms.elided_values import fill_elided_values

TEXT = """HloModule m
ENTRY main {
  x = f32[64] parameter(0)
  i = s32[] parameter(1)
  a = f32[64] constant({...})
  b = f32[64] constant({...})
  k = f32[2] constant({1, 2})
  c = f32[64] add(a, x)
  d = f32[64] add(b, x)
  e = f32[64] multiply(c, d)
  o = f32[1] dynamic-slice(k, i), dynamic_slice_sizes={1}
  ROOT t = (f32[64], f32[1]) tuple(e, o)
}"""


def test_those_without_values_become_known() -> None:
    module = parse_hlo(TEXT)
    assert fill_elided_values(module) == 2
    assert fill_elided_values(module) == 0
    found = {x.name: x.attributes for x in module.entry.instructions.values()}
    literals = [found[name].literal for name in "abk"]
    assert [x.elided for x in literals] == [False] * 3
    assert not literals[0].array.any()


def test_what_runs_keeps_no_memory_for_them() -> None:
    program = lowtide.compile(parse_hlo(TEXT), cache=False)
    assert program.memory["constant_bytes"] == 8
    given = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(program(given, np.int32(1))[0], given * given)


def test_a_plan_by_itself_does_not_know_them() -> None:
    assert lowtide.explain(parse_hlo(TEXT)).constant_bytes == 8 + 2 * 256
