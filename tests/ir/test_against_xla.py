"""Literals, shardings and shapes print as XLA prints them."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo

hlo = pytest.importorskip("jaxlib._hlo")

FLOATS = [
    "f64", "f32", "f16", "bf16", "f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e3m4",
    "f8e5m2fnuz", "f8e4m3fnuz", "f6e3m2fn", "f6e2m3fn",
]  # fmt: skip
LITERALS = [
    *[(f"{kind}[5]", "{0.5, -1.25, 3, 0.1, 1e-1}") for kind in FLOATS],
    *[(f"{kind}[2]", "{nan, -nan}") for kind in FLOATS if not kind.startswith("f6")],
    *[(f"{kind}[2]", "{inf, -inf}") for kind in ("f64", "f32", "f16", "bf16", "f8e5m2")],
    ("f32[4]", "{1e-40, 123456789, 1e16, 3.4028235e38}"),
    ("f64[4]", "{1e22, 0.1, 1e-300, 123456789012345678}"),
    ("f32[2]", "{nan(0x7), -nan(0x1)}"),
    ("f32[2,2]", "{{1,2},{3,4}}"),
    ("f32[2,1]", "{{1},{2}}"),
    ("f32[1,1,1]", "{{{1}}}"),
    ("f32[1,2,2,2]", "{{{{1,2},{3,4}},{{1,2},{3,4}}}}"),
    ("f32[1,1,2,2,2]", "{{{{{1,2},{3,4}},{{1,2},{3,4}}}}}"),
    ("f32[0]", "{}"),
    ("f32[2,0]", "{{},{}}"),
    ("f32[2,0,1]", "{{},{}}"),
    ("f32[0,2]", "{}"),
    ("f32[1,1,1,0]", "{{{{}}}}"),
    ("f32[1,0,1,1]", "{{}}"),
    ("pred[2,2]", "{{1,0},{0,1}}"),
    ("pred[]", "true"),
    ("c64[2]", "{(1,2),(3,-4.5)}"),
    ("s4[2]", "{7,-8}"),
    ("u64[1]", "{18446744073709551615}"),
    ("f32[4]", "3"),
    ("f8e8m0fnu[3]", "{0.25, 1, 1e-30}"),
    ("f4e2m1fn[3]", "{1.5, -6, 0}"),
    ("(f32[2], s32[])", "({1,2}, 3)"),
]
SHARDINGS = [
    "{replicated}", "{manual}", "{maximal device=3}", "{unknown}",
    "{devices=[2,2]<=[4] last_tile_dims={replicated, manual}}",
    "{devices=[4,1]0,1,2,3}",
    "{devices=[2,2,1]<=[4] last_tile_dim_replicate}",
    "{devices=[1,1,4]<=[4] last_tile_dim_replicate}",
    "{devices=[2,1,2,2]<=[8] last_tile_dims={replicated,replicated}}",
    "{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}",
    "{devices=[2,1,2]1,0,3,2 last_tile_dim_replicate}",
    "{devices=[2,1,1,2]<=[4] last_tile_dims={manual,replicated}}",
    "{devices=[1,1,2]<=[2] last_tile_dims={manual}}",
    "{replicated shard_as 1}",
    '{manual metadata={op_name="a"}}',
    "{devices=[2,2]<=[2,2]T(0,1)}",
    "{devices=[4,2]<=[2,2,2]T(2,0,1)}",
    "{devices=[4,2]<=[2,2,2]T(2,1,0)}",
    "{devices=[2,1,2,2]<=[8] last_tile_dims={replicated,manual}}",
    "{devices=[2,1,2,2]0,1,2,3,4,5,6,7 last_tile_dims={replicated,manual}}",
    "{devices=[2,1,2,2]<=[8] last_tile_dims={manual,manual}}",
    "{devices=[1,2,4]<=[2,4]T(1,0) last_tile_dim_replicate}",
    "{devices=[2,2]<=[2,1,2]T(2,1,0)}",
    "{mesh['x'=2,'y'=2], [{'x'}, {'y', ?}]}",
    "{mesh['x'=4], [{'x':(1)2}, {}], replicated={'x':(2)2}}",
    """{mesh['x'=2], [{'x'}, {}], metadata={op_name="a"}}""",
    """{mesh['x'=2], [{'x'}, {}], metadata={{op_name="a"}, {op_name="b"}}}""",
]  # fmt: skip
SHAPES = [
    "f32[]", "f32[2,3]{0,1}", "bf16[8,128]{1,0:T(8,128)(2,1)}", "s4[7]{0:E(4)}", "f32[]{:S(5)}",
    "f32[<=4,2]", "f32[?,2]", "(f32[2], (), (token[]))", "f32[4,4]{1,0:D(D,C)}",
    "f32[8]{0:T(128)L(16)S(1)}", "u8[2]{0:SC(0:1)}", "opaque[]", "f32[2]{0:T(*,8)}",
]  # fmt: skip


def same(text: str) -> None:
    assert str(parse_hlo(text)).strip() == hlo.hlo_module_from_text(text).to_string().strip()


@pytest.mark.parametrize(("shape", "literal"), LITERALS)
def test_literals(shape: str, literal: str) -> None:
    same(f"HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({literal})\n}}\n")


@pytest.mark.parametrize(
    "value", ["1.5", "1.49", "3", "6", "12", "1e-40", "5e-324", "2e-39", "9e-39", "2.5e38", "nan"]
)
def test_exponents(value: str) -> None:
    same(f"HloModule m\nENTRY e {{\n  ROOT c = f8e8m0fnu[] constant({value})\n}}\n")


@pytest.mark.parametrize("value", ["(nan(0x123), 1)", "(-nan(0x5), -nan(0x7))", "(1, -nan)"])
def test_bits_of_complex_nans(value: str) -> None:
    same(f"HloModule m\nENTRY e {{\n  ROOT c = c64[] constant({value})\n}}\n")


def test_a_dot_without_an_algorithm_may_say_so() -> None:
    dimensions = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    same(
        "HloModule m\nENTRY e {\n  p = f32[2,2] parameter(0)\n"
        f"  ROOT c = f32[2,2] dot(p, p), {dimensions}, algorithm=unset\n}}\n"
    )


def test_a_key_that_stands_twice() -> None:
    attributes = 'frontend_attributes={b="1",a="2",b="3"}'
    same(f"HloModule m\nENTRY e {{\n  ROOT p = f32[] parameter(0), {attributes}\n}}\n")


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_shardings(sharding: str) -> None:
    same(f"HloModule m\nENTRY e {{\n  ROOT p = f32[8,8] parameter(0), sharding={sharding}\n}}\n")


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    same(f"HloModule m\nENTRY e {{\n  ROOT p = {shape} parameter(0)\n}}\n")
