"""Fusions that read a product, sum or window again in another place, as others may have fused."""

import pytest
from tests.native.comparing import compiled, reference

from lowtide.checking.tolerances import assert_values_close
from lowtide.compiler import DEFAULT_PLAN, PlanOptions
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments

HEAVY = {
    "dot": "d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "swapped dot": "d = f32[8,8] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
    "convolution": """g = f32[1,8,8] reshape(a)
  h = f32[3,8,8] slice(c), slice={[0:3],[0:8],[0:8]}
  k = f32[1,8,8] convolution(g, h), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
  d = f32[8,8] reshape(k)""",
    "reduce": "d = f32[8,8] reduce(c, z), dimensions={1}, to_apply=add",
    "reduce of rows": "d = f32[8,8] reduce(c, z), dimensions={2}, to_apply=add",
    "window": "d = f32[8,8] reduce-window(a, z), window={size=3x3 pad=1_1x1_1}, to_apply=add",
    "reverse": "d = f32[8,8] reverse(a), dimensions={0}",
}
AGAIN = {
    "transpose": "t = f32[8,8] transpose(d), dimensions={1,0}",
    "reverse": "t = f32[8,8] reverse(d), dimensions={1}",
    "element": """s = f32[1,1] slice(d), slice={[2:3],[3:4]}
  q = f32[] reshape(s)
  t = f32[8,8] broadcast(q), dimensions={}""",
    "row": """s = f32[1,8] slice(d), slice={[2:3],[0:8]}
  q = f32[8] reshape(s)
  t = f32[8,8] broadcast(q), dimensions={0}""",
    "pad": """s = f32[8,7] slice(d), slice={[0:8],[1:8]}
  t = f32[8,8] pad(s, z), padding=0_0x0_1""",
    "sum": """q = f32[8] reduce(d, z), dimensions={1}, to_apply=add
  t = f32[8,8] broadcast(q), dimensions={1}""",
    "reshape and transpose": """s = f32[4,16] reshape(d)
  u = f32[16,4] transpose(s), dimensions={1,0}
  t = f32[8,8] reshape(u)""",
    "the same": """s = f32[64] reshape(d)
  t = f32[8,8] reshape(s)""",
    "broadcast to a transpose": "t = f32[8,8] broadcast(d), dimensions={1,0}",
}
ENDS = {
    "one": "ROOT r = f32[8,8] add(d, t)",
    "other first": "ROOT r = f32[8,8] subtract(t, d)",
    "bound": """m = f32[1,1] slice(t), slice={[0:1],[1:2]}
  n = f32[] reshape(m)
  ROOT r = f32[8,8] clamp(z, d, n)""",
    "apart": """n = f32[8,8] negate(o)
  ROOT r = (f32[8,8], f32[8,8]) tuple(t, n)""",
    "apart, other first": """n = f32[8,8] negate(o)
  ROOT r = (f32[8,8], f32[8,8]) tuple(n, t)""",
    "two": """both = f32[8,8] add(d, t)
  ROOT r = (f32[8,8], f32[8,8]) tuple(d, both)""",
}
WAYS = (DEFAULT_PLAN, 2), (PlanOptions("input"), 1)


def text_of(heavy: str, again: str, end: str) -> str:
    result = "(f32[8,8], f32[8,8])" if " tuple(" in ENDS[end] else "f32[8,8]"
    return f"""HloModule m
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
fused {{
  a = f32[8,8] parameter(0)
  b = f32[8,8] parameter(1)
  c = f32[8,8,8] parameter(2)
  o = f32[8,8] parameter(3)
  z = f32[] constant(0)
  {HEAVY[heavy]}
  {AGAIN[again]}
  {ENDS[end]}
}}
ENTRY e {{
  a = f32[8,8] parameter(0)
  b = f32[8,8] parameter(1)
  c = f32[8,8,8] parameter(2)
  o = f32[8,8] sine(a)
  ROOT r = {result} fusion(a, b, c, o), kind=kLoop, calls=fused
}}
"""


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("heavy", HEAVY)
def test_what_is_read_again_elsewhere_is_right(heavy: str, again: str) -> None:
    for end in ENDS:
        module = parse_hlo(text_of(heavy, again, end))
        arguments = seeded_arguments(module, 0)
        expected = reference(module, arguments)
        for options, threads in WAYS:
            got = compiled(module, threads, options=options)(*arguments)
            assert_values_close(got, expected, module.entry.root.shape)
