"""Convolutions of bytes: signs, extremes, groups, padding by any number; several processors."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.byte_targets import TARGETS
from tests.codegen.cpu.convolution.running import check
from tests.codegen.cpu.convolution.windows import Convolution, Window, array, drawn_convolution
from tests.codegen.running import Kernel

from lowtide.codegen.cpu.convolution.convolution import plan_convolution, plan_fused_convolution
from lowtide.codegen.cpu.convolution.problem import problem_of
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES, Array

SAME = Window(3, 1, 1, 1)
SIGNS = list(itertools.product(("u8", "s8"), ("u8", "s8")))

FORMS = {
    "three features": Convolution(2, 3, 20, (9, 17), (Window(3, 2, 0, 1), Window(5, 2, 2, 2))),
    "units left over": Convolution(1, 37, 21, (6, 9), (SAME, SAME)),
    "whole units in place": Convolution(1, 64, 33, (9, 9), (Window(3), Window(3, 2))),
    "blocks of features": Convolution(1, 1030, 18, (5, 7), (SAME, SAME)),
    "features last in the kernel": Convolution(
        1, 44, 20, (5, 6), (SAME, SAME), orders=("", "o01i", "")
    ),
    "features first": Convolution(1, 12, 20, (5, 6), (SAME, SAME), orders=("bf01", "oi01", "bf01")),
    "few outputs": Convolution(1, 70, 3, (5, 6), (SAME, SAME)),
    "groups": Convolution(1, 10, 24, (5, 6), (SAME, SAME), 3),
    "depthwise": Convolution(2, 1, 1, (9, 11), (SAME, Window(5, 2, 1, 3)), 40),
    "two of each": Convolution(1, 2, 2, (9, 11), (SAME, SAME), 21),
    "dilated": Convolution(1, 9, 17, (9, 11), (Window(3, 1, 2, 2, 2, 1), Window(3, 2, 2, 2, 1, 2))),
}


def whole_range(seed: int, type_: ElementType, sizes: Sequence[int]) -> Array:
    """Any numbers of a type of few bits."""
    half = 1 << (min(type_.bits, 16) - 1)
    low = -half if type_.is_signed else 0
    found = np.random.default_rng(seed).integers(low, low + 2 * half, sizes)
    return found.astype(DTYPES[type_])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_all_signs(name: str, target: str) -> None:
    for types in SIGNS:
        text = replace(FORMS[name], types=(*types, "s32")).text
        check(plan_convolution, text, TARGETS[target], draw=whole_range)


@pytest.mark.parametrize("target", TARGETS)
def test_extremes(target: str) -> None:
    """Sums of many products that are all as large as they can be, of either sign."""
    ends = {ElementType.U8: (0, 255), ElementType.S8: (-128, 127)}
    forms = [FORMS["blocks of features"], FORMS["depthwise"]]
    for types, pick, form in itertools.product(SIGNS, itertools.product((0, 1), repeat=2), forms):

        def extreme(
            seed: int, type_: ElementType, sizes: Sequence[int], pick: tuple[int, ...] = pick
        ) -> Array:
            return np.full(sizes, ends[type_][pick[seed]], DTYPES[type_])

        text = replace(form, types=(*types, "s32")).text
        check(plan_convolution, text, TARGETS[target], draw=extreme)


def test_wider_integers() -> None:
    """Numbers of 16 bits, as zero points leave them, with those of 8 and 16."""
    for types in (("s16", "s16", "s32"), ("s16", "s8", "s32"), ("s8", "s16", "s32")):
        for name, target in itertools.product(FORMS, ("native", "avx2")):
            text = replace(FORMS[name], types=types).text
            check(plan_convolution, text, TARGETS[target], draw=whole_range)


def test_any_window_order_and_grouping() -> None:
    for seed in range(40):
        types = (*SIGNS[seed % 4], "s32")
        text = replace(drawn_convolution(1000 + seed), types=types).text
        problem = problem_of(parse_hlo(text).entry.root)
        if problem is None or not problem.products:
            continue
        target = TARGETS[list(TARGETS)[seed // 4 % len(TARGETS)]]
        check(plan_convolution, text, target, draw=whole_range)


def _padded(types: tuple[str, str], form: Convolution, value: int) -> str:
    """A fusion of a convolution with what pads its input by a number."""
    free = replace(form, types=(*types, "s32"))
    data, kernel, result = free.shapes
    pads = [(0, 0), *[(x.low, x.high) for x in form.windows], (0, 0)]
    sizes = [int(x) for x in data[data.index("[") + 1 : -1].split(",")]
    wide = [n + low + high for n, (low, high) in zip(sizes, pads, strict=True)]
    bare = replace(free, windows=tuple([replace(x, low=0, high=0) for x in form.windows]))
    bare = replace(bare, sizes=tuple(wide[1:-1]))
    padding = "x".join([f"{low}_{high}" for low, high in pads])
    return f"""HloModule fused
padded {{
  d = {data} parameter(0)
  w = {kernel} parameter(1)
  v = {types[0]}[] constant({value})
  x = {array(types[0], wide)} pad(d, v), padding={padding}
  ROOT c = {bare.call}
}}
ENTRY main {{
  a = {data} parameter(0)
  b = {kernel} parameter(1)
  ROOT f = {result} fusion(a, b), kind=kOutput, calls=padded
}}"""


BEYOND = Convolution(1, 6, 17, (2, 3), (Window(5, 1, 4, 4), Window(3, 2, 3, 4)))
FAR = Convolution(1, 8, 17, (9, 20), (Window(3, 1, 6, 6, 1, 6), Window()))
PADDED = ["three features", "units left over", "blocks of features", "groups", "depthwise"]


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("value", [0, 3, 127])
def test_padding_by_a_number(value: int, target: str) -> None:
    """Also where the window lies beside the data, whose border then is all that it meets."""
    for types in SIGNS:
        for form in (*[FORMS[x] for x in PADDED], BEYOND, FAR):
            text = _padded(types, form, value)
            check(plan_fused_convolution, text, TARGETS[target], draw=whole_range)


def test_padding_outside_of_the_kernel() -> None:
    """It is data like any other."""
    text = """HloModule apart
ENTRY main {
  d = u8[1,4,5,6] parameter(0)
  v = u8[] constant(7)
  x = u8[1,6,7,6] pad(d, v), padding=0_0x1_1x1_1x0_0
  w = s8[3,3,6,8] parameter(1)
  ROOT c = s32[1,4,5,8] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
}"""
    root = parse_hlo(text).entry.root
    plan = plan_convolution(root, TARGETS["native"])
    assert plan is not None
    kernel = Kernel(plan, TARGETS["native"])
    pad = whole_range(1, ElementType.U8, (1, 6, 7, 6))
    weights = whole_range(2, ElementType.S8, (3, 3, 6, 8))
    found = np.zeros((1, 4, 5, 8), np.int32)
    kernel([pad, weights, found])
    bare = text.replace("pad(d, v), padding=0_0x1_1x1_1x0_0", "parameter(0)")
    bare = bare.replace("d = u8[1,4,5,6] parameter(0)", "")
    np.testing.assert_array_equal(found, evaluate(parse_hlo(bare), [pad, weights]))
