"""Modules on which judges of the hunter once differed, each held against the evaluator."""

import pytest
from tests.native.comparing import compiled, flat, reference

from lowtide.checking.tolerances import assert_values_close
from lowtide.compiler import DEFAULT_PLAN, PlanOptions
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments

_FUSION = """
  ROOT d = (s32[4], s32[3,7,4]{2,0,1}) fusion(b, i), kind=kCustom, calls=fused"""

_OTHER_ORDER = """HloModule m
fused {{
  a = s32[3,7,4]{{2,0,1}} parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  b = s32[4] broadcast(z), dimensions={{}}
  c = s32[3,7,4]{{2,0,1}} dynamic-update-slice(a, a, i, i, i)
  ROOT d = (s32[4], s32[3,7,4]{{2,0,1}}) tuple(b, c)
}}
ENTRY e {{
  a = s32[84] parameter(0)
  b = s32[3,7,4]{{2,0,1}} reshape(a)
  i = s32[] parameter(1)
{call}{declared}
}}
"""
"""A reshape that moves elements, whose result is updated in place."""

_PANELS = """HloModule m
ENTRY e {{
  a = {type}[{rows}20,40] parameter(0)
{columns}
  ROOT d = {type}[{rows}20,9,{wide}] dot(a, b), {batch}lhs_contracting_dims={{{last}}},
    rhs_contracting_dims={{{k}}}
}}
"""
"""Columns side by side in panels, which lie apart from each other or on one another."""


def _panels(type_: str, wide: int) -> dict[str, str]:
    sliced = f"""  x = {type_}[9,48,{wide}] parameter(1)
  b = {type_}[9,40,{wide}] slice(x), slice={{[0:9], [4:44], [0:{wide}]}}"""
    again = f"""  x = {type_}[40,{wide}] parameter(1)
  b = {type_}[9,40,{wide}] broadcast(x), dimensions={{1,2}}"""
    between = f"  b = {type_}[9,2,40,{wide}] parameter(1)"
    one = {"type": type_, "wide": wide, "rows": "", "batch": "", "last": 1, "k": 1}
    batch = "lhs_batch_dims={0}, rhs_batch_dims={1}, "
    two = {"type": type_, "wide": wide, "rows": "2,", "batch": batch, "last": 2, "k": 2}
    return {
        f"parts of panels of {wide} {type_}": _PANELS.format(columns=sliced, **one),
        f"one panel of {wide} {type_} many times": _PANELS.format(columns=again, **one),
        f"panels of {wide} {type_} of two": _PANELS.format(
            columns=between, **two | {"batch": batch}
        ),
    }


MODULES = {
    **_panels("f32", 8),
    **_panels("f32", 16),
    **_panels("f32", 32),
    **_panels("f64", 8),
    "places that are one of two numbers": """HloModule m
ENTRY e {
  x = f32[5,2] parameter(0)
  t = f32[2,5] transpose(x), dimensions={1,0}
  zero = f32[] constant(0)
  p = f32[2,8] pad(t, zero), padding=0_0x0_3
  z = f32[2,8] broadcast(zero), dimensions={}
  c = pred[2,8] compare(p, z), direction=GT
  two = s32[] constant(2)
  three = s32[] constant(3)
  twos = s32[2,8] broadcast(two), dimensions={}
  threes = s32[2,8] broadcast(three), dimensions={}
  i = s32[2,8] select(c, threes, twos)
  j = s32[2,8,1] reshape(i)
  values = f32[1,4] constant({{1, 2, 3, -4}})
  g = f32[1,2,8] gather(values, j), offset_dims={0}, collapsed_slice_dims={1},
    start_index_map={1}, index_vector_dim=2, slice_sizes={1,1}
  g2 = f32[2,8] reshape(g)
  s = f32[2,5] slice(g2), slice={[0:2], [0:5]}
  ROOT r = f32[5,2] transpose(s), dimensions={1,0}
}
""",
    "convolution in a fusion in a fusion": """HloModule m, is_scheduled=true
inner {
  a = s8[1,5,2] parameter(0)
  b = s8[3,2,4] parameter(1)
  c = s8[1,5,2] negate(a)
  ROOT d = s8[1,5,4] convolution(c, b), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
}
outer {
  a = s8[10] parameter(0)
  b = s8[3,2,4] parameter(1)
  c = s8[1,5,2] reshape(a)
  d = s8[1,5,2] abs(c)
  e = s8[1,5,4] fusion(d, b), kind=kLoop, calls=inner
  ROOT f = s8[1,5,4] negate(e)
}
ENTRY e {
  a = s8[10] parameter(0)
  b = s8[3,2,4] parameter(1)
  ROOT c = s8[1,5,4] fusion(a, b), kind=kLoop, calls=outer
}
""",
    "one of two results of a fusion in a fusion": """HloModule m, is_scheduled=true
inner {
  a = bf16[5] parameter(0)
  b = bf16[4] slice(a), slice={[0:4]}
  c = bf16[1,4] reshape(b)
  ROOT d = (bf16[4], bf16[1,4]) tuple(b, c)
}
outer {
  a = bf16[5,1] parameter(0)
  b = bf16[5] reshape(a)
  c = (bf16[4], bf16[1,4]) fusion(b), kind=kInput, calls=inner
  ROOT d = bf16[1,4] get-tuple-element(c), index=1
}
ENTRY e {
  a = bf16[5,1] parameter(0)
  ROOT c = bf16[1,4] fusion(a), kind=kCustom, calls=outer
}
""",
    "two results of a fusion that are one update": """HloModule m, is_scheduled=true
fused {
  a = bf16[4,2] parameter(0)
  b = bf16[2,2] parameter(1)
  i = s32[] parameter(2)
  c = bf16[4,2] dynamic-update-slice(a, b, i, i)
  ROOT d = (bf16[4,2], bf16[4,2]) tuple(c, c)
}
ENTRY e {
  a = bf16[4,2] parameter(0)
  b = bf16[2,2] parameter(1)
  i = s32[] parameter(2)
  ROOT d = (bf16[4,2], bf16[4,2]) fusion(a, b, i), kind=kLoop, calls=fused
}
""",
    "two bitcasts of one scatter in a fusion": """HloModule m
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
fused {
  a = f32[4,2] parameter(0)
  b = f32[3,2] parameter(1)
  i = s32[3,1] parameter(2)
  c = f32[4,2] scatter(a, i, b), update_window_dims={1}, inserted_window_dims={0}, \
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  d = f32[8] bitcast(c)
  ROOT e = (f32[4,2], f32[8]) tuple(c, d)
}
ENTRY e {
  a = f32[4,2] parameter(0)
  n = f32[4,2] negate(a)
  b = f32[3,2] parameter(1)
  i = s32[3,1] parameter(2)
  ROOT d = (f32[4,2], f32[8]) fusion(n, b, i), kind=kInput, calls=fused
}
""",
    "one element of a convolution read by all lanes but the last": """HloModule m, is_scheduled=true
fused {
  a = s32[4,5] parameter(0)
  b = s8[1,4,6] parameter(1)
  c = s8[3,6,1] parameter(2)
  d = s8[1,2,1] convolution(b, c), window={size=3}, dim_labels=b0f_0io->b0f
  e = s32[1,2,1] convert(d)
  f = s32[2] reshape(e)
  i = s32[1] slice(f), slice={[0:1]}
  ROOT g = s32[5] gather(a, i), offset_dims={0}, collapsed_slice_dims={0}, \
    start_index_map={0}, index_vector_dim=0, slice_sizes={1,5}
}
ENTRY e {
  a = s32[4,5] parameter(0)
  b = s8[1,4,6] parameter(1)
  c = s8[3,6,1] parameter(2)
  ROOT g = s32[5] fusion(a, b, c), kind=kCustom, calls=fused
}
""",
    "exact functions between types": """HloModule m
ENTRY e {
  a = c64[5] parameter(0)
  b = f32[5] parameter(1)
  c = f64[5] real(a)
  d = f64[5] imag(b)
  e = f64[5] abs(b)
  f = f32[5] maximum(c, d)
  ROOT g = (f64[5], f64[5], f64[5], f32[5]) tuple(c, d, e, f)
}
""",
    "the source of a copy, which is a constant, among results": """HloModule m, is_scheduled=true
ENTRY e {
  a = f32[48] parameter(0)
  b = s32[] parameter(1)
  c = f32[] constant(0)
  d = (f32[], f32[], u32[]) copy-start(c)
  e = f32[] copy-done(d)
  ROOT f = (f32[48], s32[], f32[]) tuple(a, b, e)
}
""",
    "a scatter beside another result, both in several pieces": """HloModule m, is_scheduled=true
reducer {
  ROOT a = f32[] parameter(0)
  b = f32[] parameter(1)
}
fused {
  a = f32[7] parameter(0)
  z = f32[] constant(0)
  p = f32[17] pad(a, z), padding=0_10
  b = f32[17,1] reshape(p)
  i = s32[] constant(0)
  j = s32[8,1] broadcast(i), dimensions={}
  c = f32[17,1] reverse(b), dimensions={0,1}
  d = f32[8,1] slice(c), slice={[8:16], [0:1]}
  s = f32[17,1] scatter(b, j, d), update_window_dims={1}, inserted_window_dims={0}, \
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=reducer
  ROOT t = (f32[17,1], f32[8,1]) tuple(s, d)
}
ENTRY e {
  a = f32[7] parameter(0)
  ROOT f = (f32[17,1], f32[8,1]) fusion(a), kind=kInput, calls=fused
}
""",
    "a parameter that lies otherwise than its operand": """HloModule m
fused {
  a = f32[7,3]{0,1} parameter(0)
  b = f32[21]{0} reshape(a)
  c = f32[9]{0} slice(b), slice={[0:9]}
  d = f32[3,3]{0,1} reshape(c)
  e = f32[7,3]{1,0} dot(a, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[7,3]{1,0}, f32[7,3]{1,0}) tuple(a, e)
}
ENTRY e {
  a = f32[7,3]{1,0} parameter(0)
  ROOT t = (f32[7,3]{1,0}, f32[7,3]{0,1}) fusion(a), kind=kOutput, calls=fused
}
""",
    "a convolution behind which a bitcast moves dimensions": """HloModule m
fused {
  a = s8[2,3,4]{2,1,0} parameter(0)
  b = s8[4,2,1]{2,1,0} parameter(1)
  c = s32[4,3,7]{2,0,1} convolution(a, b), window={size=1 lhs_dilate=2}, dim_labels=fb0_oi0->fb0
  ROOT d = s32[4,7,3]{1,0,2} bitcast(c)
}
ENTRY e {
  a = s8[2,3,4]{2,1,0} parameter(0)
  b = s8[4,2,1]{2,1,0} parameter(1)
  ROOT d = s32[4,7,3]{1,0,2} fusion(a, b), kind=kOutput, calls=fused
}
""",
    "an operand of a product that a bitcast moved": """HloModule m
fused {
  a = f32[8,8]{0,1} parameter(0)
  b = f32[8,8]{1,0} bitcast(a)
  c = f32[8,5]{1,0} parameter(1)
  ROOT d = f32[8,5]{1,0} dot(b, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
ENTRY e {
  a = f32[8,8]{0,1} parameter(0)
  c = f32[8,5]{1,0} parameter(1)
  ROOT d = f32[8,5]{1,0} fusion(a, c), kind=kOutput, calls=fused
}
""",
    "a division by what holds the dividend": """HloModule m
ENTRY e {
  a = s32[17] parameter(0)
  b = s32[17] parameter(1)
  c = s32[17] or(a, b)
  ROOT d = s32[17] remainder(a, c)
}
""",
    "what is left of a half divided by itself": """HloModule m
ENTRY e {
  a = f16[1] parameter(0)
  b = f16[1] remainder(a, a)
  c = f16[3] parameter(1)
  d = f16[3] reverse(c), dimensions={0}
  ROOT t = (f16[1], f16[3], f16[3]) tuple(b, c, d)
}
""",
    "a product over no elements, of two dimensions": """HloModule m
fused {
  a = c64[3,4,0,2]{1,3,0,2} parameter(0)
  b = c64[2,5,0,3,4] parameter(1)
  ROOT d = c64[3,2,5] dot(a, b), lhs_batch_dims={0,3}, lhs_contracting_dims={1,2},
    rhs_batch_dims={3,0}, rhs_contracting_dims={4,2}
}
ENTRY e {
  a = c64[3,4,0,2]{1,3,0,2} parameter(0)
  b = c64[2,5,0,3,4] parameter(1)
  ROOT d = c64[3,2,5] fusion(a, b), kind=kOutput, calls=fused
}
""",
    "the part of a sum, in another type": """HloModule m
ENTRY e {
  a = c64[16,17] parameter(0)
  b = c64[16,17] add(a, a)
  c = bf16[16,17] real(b)
  ROOT t = (bf16[16,17], bf16[16,17]) tuple(c, c)
}
""",
    "the first of equal elements in a window that lies otherwise": """HloModule m
select {
  a = s8[] parameter(0)
  b = s8[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
add {
  a = s8[] parameter(0)
  b = s8[] parameter(1)
  ROOT c = s8[] add(a, b)
}
ENTRY e {
  a = pred[4,17,2]{0,2,1} parameter(0)
  b = s8[4,17,2]{0,2,1} convert(a)
  c = s8[1,9,2]{1,2,0} parameter(1)
  z = s8[] constant(0)
  ROOT d = s8[4,17,2]{0,1,2} select-and-scatter(b, c, z),
    window={size=4x4x1 stride=3x2x1 pad=0_0x2_2x0_0}, select=select, scatter=add
}
""",
    "an update with another result, of a fusion, where rows are no rows": _OTHER_ORDER.format(
        declared="", call=_FUSION
    ),
    "the same, said to be in place": _OTHER_ORDER.format(
        declared=", output_to_operand_aliasing={{1}: (0, {})}", call=_FUSION
    ),
    "the same, asynchronous": _OTHER_ORDER.format(
        declared="",
        call="""
  s = ((s32[3,7,4]{2,0,1}, s32[]), (s32[4], s32[3,7,4]{2,0,1})) fusion-start(b, i),
    kind=kCustom, calls=fused
  ROOT d = (s32[4], s32[3,7,4]{2,0,1}) fusion-done(s)""",
    ),
}


WAYS = (DEFAULT_PLAN, 2), (PlanOptions("scheduled"), 1), (PlanOptions("input"), 1)
"""How a module is compiled, and for how many threads: with one, small parts run as one function."""


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize(("options", "threads"), WAYS)
def test_what_the_hunter_found(name, options, threads):
    module = parse_hlo(MODULES[name])
    for seed in range(3):
        arguments = seeded_arguments(module, seed)
        expected = reference(module, arguments)
        got = compiled(module, threads, options=options)(*arguments)
        assert len(flat(got)) == len(flat(expected))
        assert_values_close(got, expected, module.entry.root.shape)
