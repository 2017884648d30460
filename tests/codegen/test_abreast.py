"""Vectors that are computed side by side, since each is a long chain of instructions."""

import numpy as np
import pytest
from tests.codegen.cpu.reduction.kernels import check_program
from tests.codegen.cpu.reduction.test_fused import HEADER, SOFTMAX
from tests.codegen.loops import TARGETS, check, target_of
from tests.codegen.test_loop import kernel

from lowtide.codegen.cpu.cost import widest
from lowtide.codegen.cpu.loop import plan_loop
from lowtide.codegen.cpu.reduction.form import form_of
from lowtide.codegen.cpu.reduction.grid import grid_of, total_count
from lowtide.codegen.elements.operands import members
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.function import module_text

ABREAST = {"native": 2, "avx2": 4}
LANES = {"native": 16, "avx2": 8}

needs_wide = pytest.mark.skipif(target_of("native").vector_bytes != 64, reason="no AVX-512")


def elementwise(opcode: str, size: int, type_: str = "f32") -> str:
    return kernel(f"y = {type_}[{size}] {opcode}(x)", x=f"{type_}[{size}]")


def longest(text: str, target: str) -> int:
    """Return the lanes of the longest vector of floats in a kernel of loops."""
    code = plan_loop(parse_hlo(text).entry.root, target_of(target)).emit()
    text = module_text(code.functions, code.globals)
    return max([x for x in (8, 16, 32, 64) if f"<{x} x float>" in text])


@needs_wide
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("opcode", "size", "is_wide"),
    [("tanh", 256, True), ("log", 1001, True), ("tanh", 40, False), ("negate", 256, False)],
)
def test_long_chains_in_long_lines_are_side_by_side(opcode, size, is_wide, target):
    expected = LANES[target] * (ABREAST[target] if is_wide else 1)
    assert longest(elementwise(opcode, size), target) == expected


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("opcode", ["exponential", "log-plus-one", "logistic", "tanh"])
@pytest.mark.parametrize(
    ("type_", "size"), [("f32", 256), ("f32", 1005), ("bf16", 321), ("f16", 128), ("f64", 513)]
)
def test_values(opcode, type_, size, target):
    check(elementwise(opcode, size, type_), target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", [64, 128, 200, 512])
def test_runs_along_rows(length, target):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, length), np.float32)
    check_program(HEADER + SOFTMAX.format(m=9, n=length), [x], ["rows"], target)


@needs_wide
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", [100, 512])
def test_totals_that_take_turns_are_as_many_as_before(length, target):
    root = fusion_of(SOFTMAX.format(m=9, n=length))
    form = form_of(root, target_of(target))
    found = grid_of(form, target_of(target))
    assert found.abreast == (ABREAST[target] if length % 64 == 0 else 1)
    assert found.lanes == LANES[target] * found.abreast
    assert total_count(found) * found.abreast == 4


def fusion_of(body: str):
    """Return the fusion of a whole entry."""
    inside = body.replace("ENTRY main", "inside")
    entry = body[: body.index("low =")].rstrip()
    shape = body.split("ROOT y = ")[1].split(" ")[0]
    call = f"\n  ROOT f = {shape} fusion(x), kind=kInput, calls=inside\n}}\n"
    return parse_hlo(HEADER + inside + entry + call).entry.root


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [256, 77])
def test_the_place_of_a_step_takes_no_vectors(size, target):
    body = f"""
        last = s64[] constant(4)
        at = s64[] subtract(last, n)
        zero = s64[] constant(0)
        part = f32[1,{size}] dynamic-slice(x, at, zero), dynamic_slice_sizes={{1,{size}}}
        y = f32[1,{size}] tanh(part)
    """
    text = kernel(body, x=f"f32[5,{size}]", n="s64[]")
    alone = longest(elementwise("tanh", size), target)
    assert longest(text, target) == alone
    check(text, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_that_are_spread_count_as_their_vectors(target):
    body = """
        wide = s64[77] broadcast(n), dimensions={}
        most = s64[77] add(x, wide)
        y = f32[77] convert(most)
    """
    found = members(parse_hlo(kernel(body, x="s64[77]", n="s64[]")).entry.root)
    assert widest(found) == 8
    check(kernel(body, x="s64[77]", n="s64[]"), target=target)


def test_single_numbers_count_where_there_is_nothing_else():
    found = members(parse_hlo(kernel("y = f64[] add(x, x)", x="f64[]")).entry.root)
    assert widest(found) == 8
