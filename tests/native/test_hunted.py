"""Modules on which judges of the hunter once differed, each held against the evaluator."""

import pytest
from tests.native.comparing import compiled, flat, reference

from lowtide.checking.tolerances import assert_values_close
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments

MODULES = {
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
}


@pytest.mark.parametrize("name", MODULES)
def test_what_the_hunter_found(name):
    module = parse_hlo(MODULES[name])
    for seed in range(3):
        arguments = seeded_arguments(module, seed)
        expected = reference(module, arguments)
        got = compiled(module)(*arguments)
        assert len(flat(got)) == len(flat(expected))
        assert_values_close(got, expected, module.entry.root.shape)
