"""What kernels ask for ahead of its use, by processor."""

import re
from dataclasses import replace

import pytest

from lowtide.codegen.cpu.fetching import fetching_for, has_quick_division
from lowtide.codegen.cpu.select import kernel_plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.function import module_text
from lowtide.llvm.target import Target

FEATURES = ("avx", "avx2", "avx512bw", "avx512dq", "avx512f", "avx512vl", "fma", "sse2")
INTEL = Target("x86_64-unknown-linux-gnu", "sapphirerapids", FEATURES, 64)
ZEN = replace(INTEL, cpu="znver4", features=(*FEATURES, "clzero"))

NEGATE = """HloModule m
ENTRY main {
  x = f32[4096,1024] parameter(0)
  ROOT y = f32[4096,1024] negate(x)
}
"""
HEADS = """HloModule m
ENTRY main {{
  x = f32[{0},{1},12,64] parameter(0)
  ROOT y = f32[{0},12,{1},64] transpose(x), dimensions={{0,2,1,3}}
}}
"""
PRODUCT = """HloModule m
ENTRY main {{
  w = f32[4096,4096] parameter(0)
  v = f32[1,4096] parameter(1)
  ROOT y = f32[1,4096] dot(v, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{}}}
}}
"""


def code_of(text: str, target: Target) -> str:
    code = kernel_plan(parse_hlo(text).entry.root, target).emit()
    return module_text(code.functions, code.globals)


def caches(text: str) -> set[int]:
    """The caches into which a kernel asks for what it will read."""
    return {4 - int(x) for x in re.findall(r"prefetch\.p0\(ptr %\S+, i32 0, i32 (\d)", text)}


def test_only_zen_5_divides_wide_vectors_as_they_come():
    zen_5 = replace(ZEN, cpu="znver5", features=(*ZEN.features, "avx512vp2intersect"))
    assert has_quick_division(zen_5)
    others = (INTEL, ZEN, replace(zen_5, vector_bytes=32))
    assert not any(map(has_quick_division, others))


@pytest.mark.parametrize(("target", "cache"), [(INTEL, 2), (ZEN, 1)])
def test_arrays_are_fetched_by_what_suits_the_processor(target, cache):
    text = code_of(NEGATE, target)
    assert caches(text) == {cache}
    assert f"i64 {fetching_for(target).arrays}" in text


@pytest.mark.parametrize("target", [INTEL, ZEN])
def test_arrays_that_are_read_in_short_runs_are_fetched_runs_ahead(target):
    text = code_of(HEADS.format(8, 128), target)
    assert caches(text) == {2 if target is INTEL else 1}
    assert f"i64 {4 * 12 * 64 * 4}" in text


@pytest.mark.parametrize("target", [INTEL, ZEN])
def test_arrays_of_few_runs_are_not_fetched(target):
    assert not caches(code_of(HEADS.format(128, 8), target))


@pytest.mark.parametrize("contracting", [0, 1])
def test_matrices_are_fetched_by_what_suits_the_processor(contracting):
    texts = [code_of(PRODUCT.format(contracting), x) for x in (INTEL, ZEN)]
    assert all(caches(x) for x in texts)
    assert texts[0] != texts[1]
    assert caches(texts[1]) == {1}


def test_fewer_features_are_the_same_processor():
    older = replace(ZEN, cpu="x86-64-v3", features=("avx2", "clzero", "fma"), vector_bytes=32)
    assert fetching_for(older) == fetching_for(ZEN) != fetching_for(INTEL)


def test_a_stencil_fetches_what_is_read_first():
    reads = ("a = f32[998,1000] slice(x), slice={[0:998],[0:1000]}",)
    reads += ("b = f32[998,1000] slice(x), slice={[1:999],[0:1000]}",)
    reads += ("c = f32[998,1000] slice(x), slice={[2:1000],[0:1000]}",)
    text = code_of(
        f"""HloModule m
f {{
  x = f32[1000,1000] parameter(0)
  {"  ".join(reads)}
  s = f32[998,1000] add(a, b)
  ROOT r = f32[998,1000] add(s, c)
}}
ENTRY main {{
  x = f32[1000,1000] parameter(0)
  ROOT y = f32[998,1000] fusion(x), kind=kLoop, calls=f
}}
""",
        replace(ZEN, vector_bytes=32, features=("avx", "avx2", "clzero", "fma", "sse2")),
    )
    assert len(re.findall(r"call void @llvm\.prefetch", text)) == 1


def test_a_row_that_ends_within_a_vector_is_stored_in_parts():
    text = NEGATE.replace("4096,1024", "63,37")
    avx2 = replace(INTEL, vector_bytes=32, features=("avx", "avx2", "fma", "sse2"))
    code = code_of(text, avx2)
    assert "masked.store" not in code
    assert "masked.store" in code_of(text, INTEL)
