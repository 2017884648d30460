"""What is computed now, and what is not."""

import numpy as np
import pytest

import lowtide
from lowtide.ir import ElementType, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.clone import clone_module
from lowtide.ir.literal import array_literal
from lowtide.ir.printer import fingerprint
from lowtide.ir.shape import array_shape
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

SUM = "sum {\np = s32[] parameter(0)\nq = s32[] parameter(1)\nROOT s = s32[] add(p, q)\n}"
A = "a = s32[4] constant({1, 2, 3, 4})\n"

CASES: dict[str, tuple[str, str]] = {
    "elementwise": (
        f"{A}b = s32[4] constant({{4, 3, 2, 1}})\nROOT c = s32[4] multiply(a, b)",
        "ROOT c = s32[4] constant({4, 6, 6, 4})",
    ),
    "a chain": (
        f"{A}b = s32[4] negate(a)\nc = s32[4] multiply(b, b)\nROOT d = s32[4] add(c, a)",
        "ROOT d = s32[4] constant({2, 6, 12, 20})",
    ),
    "a comparison": (
        f"{A}b = s32[4] constant({{4, 2, 2, 5}})\nROOT c = pred[4] compare(a, b), direction=LT",
        "ROOT c = pred[4] constant({1, 0, 0, 1})",
    ),
    "a reduction": (
        f"{A}z = s32[] constant(0)\nROOT r = s32[] reduce(a, z), dimensions={{0}}, to_apply=sum",
        "ROOT r = s32[] constant(10)",
    ),
    "a slice at a constant place": (
        f"{A}i = s32[] constant(2)\nROOT r = s32[2] dynamic-slice(a, i), dynamic_slice_sizes={{2}}",
        "ROOT r = s32[2] constant({3, 4})",
    ),
    "a product": (
        "a = s32[2,2] constant({{1,2},{3,4}})\nb = s32[2,2] constant({{0,1},{1,0}})\n"
        "ROOT r = s32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "ROOT r = s32[2,2] constant({{2,1},{4,3}})",
    ),
    "broadcasts of numbers": (
        "a = f32[] constant(2)\nas = f32[64] broadcast(a), dimensions={}\n"
        "b = f32[] constant(3)\nbs = f32[64] broadcast(b), dimensions={}\n"
        "c = pred[64] compare(as, bs), direction=LT\nROOT r = f32[64] select(c, as, bs)",
        "r = f32[] constant(2)\nROOT rs = f32[64] broadcast(r), dimensions={}",
    ),
    "nothing grows": (f"{A}ROOT r = s32[4,100] broadcast(a), dimensions={{0}}", ""),
    "no padding": (f"{A}z = s32[] constant(0)\nROOT r = s32[100] pad(a, z), padding=0_96", ""),
    "no conversion to a wider type": (
        "a = s8[4] constant({1, 2, 3, 4})\nROOT r = s32[4] convert(a)",
        "",
    ),
    "no counting": ("ROOT r = s32[4] iota(), iota_dimension=0", ""),
    "what the text leaves out": (
        "a = s32[4] constant({...})\nROOT r = s32[4] negate(a)",
        "ROOT r = s32[4] constant({0, -1, -2, -3})",
    ),
    "nothing behind a barrier": (f"{A}b = s32[4] opt-barrier(a)\nROOT r = s32[4] negate(b)", ""),
    "no random numbers": (
        "a = f32[] constant(0)\nb = f32[] constant(1)\n"
        "ROOT r = f32[] rng(a, b), distribution=rng_uniform",
        "",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES.keys())
def test_folding(before: str, after: str) -> None:
    text = f"HloModule m\n{SUM}\nENTRY main {{\n{{}}\n}}"
    module = lowtide.parse_hlo(text.replace("{}", before, 1))
    verify(module)
    original = clone_module(module)
    (step,) = parse_passes("constant-folding")
    assert bool(step.run(module)) == bool(after)
    verify(module)
    assert step.run(module) == 0
    expected = lowtide.parse_hlo(text.replace("{}", after or before, 1))
    assert fingerprint(module) == fingerprint(expected), str(module)
    if after:
        assert_same_values(original, module)


def with_large_constant(lines: str) -> lowtide.Module:
    """A module in which the constant `w` has 16 KiB."""
    text = f"HloModule m\nENTRY main {{\nw = f32[4096] constant({{...}})\n{lines}\n}}"
    module = lowtide.parse_hlo(text)
    w = module.entry.instructions["w"]
    literal = array_literal(array_shape(ElementType.F32, (4096,)), np.arange(4096.0))
    w.set_attributes(Constant(literal))
    return module


def test_a_large_constant_takes_the_place_of_one_that_dies() -> None:
    (step,) = parse_passes("constant-folding")
    alone = with_large_constant("ROOT n = f32[4096] negate(w)")
    assert step.run(alone)
    assert alone.entry.root.opcode is Opcode.CONSTANT
    shared = with_large_constant(
        "n = f32[4096] negate(w)\nROOT t = (f32[4096], f32[4096]) tuple(w, n)"
    )
    assert not step.run(shared)


def test_work_is_bounded() -> None:
    (step,) = parse_passes("constant-folding{work=1000}")
    assert not step.run(with_large_constant("ROOT n = f32[4096] negate(w)"))
