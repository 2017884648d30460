"""Concatenations of many arrays: copied line by line, whatever the lines' lengths."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check

from lowtide.codegen.cpu.library.joining import plan_joining
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.target import host_target


def text_of(sizes: list[int], along: int, rest: list[int], layout: str = "", type_: str = "f32"):
    def shape(size: int) -> str:
        dims = [*rest[:along], size, *rest[along:]]
        return f"{type_}[{','.join(map(str, dims))}]{layout}"

    lines = [f"p{i} = {shape(x)} parameter({i})" for i, x in enumerate(sizes)]
    names = ", ".join([f"p{i}" for i in range(len(sizes))])
    result = f"ROOT c = {shape(sum(sizes))} concatenate({names}), dimensions={{{along}}}"
    return "\n  ".join(["HloModule m\nENTRY main {", *lines, result]) + "\n}"


def arrays_of(sizes: list[int], along: int, rest: list[int]):
    random = np.random.default_rng(0)
    return [
        random.random([*rest[:along], x, *rest[along:]], np.float32).astype(np.float32)
        for x in sizes
    ]


MANY = [3, 1, 0, 7, 2, 5, 1, 1, 4, 9, 2, 6]
CASES = {
    "outermost": ([1] * 20, 0, [3, 5]),
    "inside": (MANY, 1, [6, 40]),
    "innermost": ([40 * x for x in MANY], 1, [9]),
    "in pieces": ([20_000, *MANY, 40_001], 0, []),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_they_are_the_evaluators(case: str, target: str) -> None:
    check(text_of(*CASES[case]), arrays_of(*CASES[case]), target)


@pytest.mark.parametrize("case", [x for x in CASES if x != "outermost"])
def test_this_template_makes_them(case: str) -> None:
    root = parse_hlo(text_of(*CASES[case])).entry.root
    assert plan_joining(root, host_target()) is not None


def test_lines_lie_where_the_layout_has_them() -> None:
    text = text_of([2, 3] * 6, 1, [50, 4], "{0,1,2}")
    assert plan_joining(parse_hlo(text).entry.root, host_target()) is not None
    mixed = text.replace("p3 = f32[50,3,4]{0,1,2}", "p3 = f32[50,3,4]{2,1,0}")
    assert plan_joining(parse_hlo(mixed).entry.root, host_target()) is None
    random = np.random.default_rng(1)
    inputs = [random.random((50, size, 4), np.float32) for size in [2, 3] * 6]
    check(text, inputs)
    check(mixed, inputs)


@pytest.mark.parametrize("sizes", [[40] * 8, [1] * 20])
def test_few_arrays_and_short_lines_are_for_others(sizes: list[int]) -> None:
    text = text_of(sizes, 1, [30])
    assert plan_joining(parse_hlo(text).entry.root, host_target()) is None
