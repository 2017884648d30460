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
