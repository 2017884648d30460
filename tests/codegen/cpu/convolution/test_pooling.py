"""Windows that reduce, and windows that select, give what the evaluator gives."""

import random

import pytest
from tests.codegen.cpu.convolution.running import check, target_of
from tests.codegen.cpu.convolution.windows import Window, array, drawn_window, window_text

from lowtide.codegen.cpu.convolution.reduce_window import plan_reduce_window
from lowtide.codegen.cpu.convolution.select_and_scatter import plan_select_and_scatter
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.function import module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64

ALONE = Window()
Sizes = tuple[int, ...]
Windows = tuple[Window, ...]


def places(sizes: Sizes, windows: Windows) -> list[int]:
    """How many places windows have along each dimension."""
    return [w.places(n) for n, w in zip(sizes, windows, strict=True)]


def reducing(kind: str, type_: str, sizes: Sizes, windows: Windows) -> str:
    """A module that reduces windows."""
    return f"""HloModule one
f {{
  a = {type_}[] parameter(0)
  b = {type_}[] parameter(1)
  ROOT r = {type_}[] {kind}(a, b)
}}
ENTRY main {{
  x = {array(type_, sizes)} parameter(0)
  i = {type_}[] parameter(1)
  ROOT r = {array(type_, places(sizes, windows))} reduce-window(x, i),
    {window_text(windows)}, to_apply=f
}}""".replace(",\n    ", ", ")


def selecting(direction: str, kind: str, type_: str, sizes: Sizes, windows: Windows) -> str:
    """A module that scatters to what windows select."""
    window = window_text(windows) + ", " if windows else ""
    return f"""HloModule one
better {{
  a = {type_}[] parameter(0)
  b = {type_}[] parameter(1)
  ROOT r = pred[] compare(a, b), direction={direction}
}}
f {{
  a = {type_}[] parameter(0)
  b = {type_}[] parameter(1)
  ROOT r = {type_}[] {kind}(a, b)
}}
ENTRY main {{
  x = {array(type_, sizes)} parameter(0)
  s = {array(type_, places(sizes, windows))} parameter(1)
  i = {type_}[] parameter(2)
  ROOT r = {array(type_, sizes)} select-and-scatter(x, s, i), {window}select=better, scatter=f
}}"""


def drawn(seed: int, *, plain: bool) -> tuple[Sizes, Windows]:
    """Sizes and windows with room; `plain` ones are alone along the last dimension."""
    draw = random.Random(seed)
    while True:
        rank = draw.choice([1, 2, 3, 4])
        sizes = tuple([draw.choice([1, 2, 3, 5, 9, 17]) for _ in range(rank)])
        windows = [ALONE if draw.random() < 0.3 else drawn_window(draw, x) for x in sizes]
        if plain:
            sizes = (*sizes, draw.choice([2, 3, 16, 17, 70]))
            windows = [Window(w.size, w.stride, w.low, w.high, 1, w.dilation) for w in windows]
            windows.append(ALONE)
        elif draw.random() < 0.5:
            windows[-1] = ALONE
        if all(places(sizes, tuple(windows))):
            return sizes, tuple(windows)


KINDS = [
    ("maximum", "f32"),
    ("add", "f32"),
    ("add", "bf16"),
    ("minimum", "s8"),
    ("multiply", "f64"),
    ("add", "c64"),
    ("or", "pred"),
    ("subtract", "f32"),
]


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize(("kind", "type_"), KINDS)
def test_reductions(kind: str, type_: str, target: str) -> None:
    for seed in range(4):
        sizes, windows = drawn(seed, plain=True)
        check(plan_reduce_window, reducing(kind, type_, sizes, windows), target)


def test_two_values_at_once() -> None:
    text = """HloModule one
f {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GE
  v = f32[] select(g, a, b)
  k = s32[] select(g, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k)
}
ENTRY main {
  x = f32[2,7,8,19] parameter(0)
  y = s32[2,7,8,19] parameter(1)
  i = f32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = (f32[2,4,4,19], s32[2,4,4,19]) reduce-window(x, y, i, j), WINDOW, to_apply=f
}"""
    windows = (ALONE, Window(3, 2, 1, 1), Window(2, 2), ALONE)
    check(plan_reduce_window, text.replace("WINDOW", window_text(windows)))


def test_what_is_left_to_loops() -> None:
    for windows in ((ALONE, Window(2)), (Window(2, base=2), ALONE)):
        root = parse_hlo(reducing("add", "f32", (5, 6), windows)).entry.root
        assert plan_reduce_window(root, target_of("native")) is None


POOLED = ((2, 9, 10, 20), (ALONE, Window(3, 2, 0, 1), Window(3, 2, 1, 1), ALONE))


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize(
    ("direction", "kind", "type_"),
    [
        ("GE", "add", "f32"),
        ("LE", "add", "bf16"),
        ("GT", "maximum", "s32"),
        ("GE", "multiply", "f64"),
        ("GE", "add", "u8"),
        ("GE", "or", "pred"),
        ("NE", "add", "c64"),
    ],
)
def test_selections(direction: str, kind: str, type_: str, target: str) -> None:
    check(plan_select_and_scatter, selecting(direction, kind, type_, *POOLED), target)


def test_any_window_that_selects() -> None:
    for seed in range(50):
        sizes, windows = drawn(seed, plain=False)
        name = "avx2" if seed % 3 == 0 else "native"
        check(plan_select_and_scatter, selecting("GE", "add", "f32", sizes, windows), name)


def test_a_number_selects_itself() -> None:
    check(plan_select_and_scatter, selecting("GE", "add", "f32", (), ()))


def test_large_windows_and_planes() -> None:
    large = (ALONE, Window(9, 3, 4, 4), Window(5, 2, 2, 2), ALONE)
    check(plan_select_and_scatter, selecting("GE", "add", "f32", (1, 50, 60, 17), large))
    dense = (ALONE, Window(2, 1, 1, 0), Window(3, 1, 1, 1), ALONE)
    kernel = check(plan_select_and_scatter, selecting("GE", "add", "f32", (1, 99, 98, 3), dense))
    assert kernel.plan.thread_bytes <= 256 << 10


def test_objects_for_neon() -> None:
    reduce = parse_hlo(reducing("maximum", "f32", *POOLED)).entry.root
    select = parse_hlo(selecting("GE", "add", "f32", *POOLED)).entry.root
    for planner, root in ((plan_reduce_window, reduce), (plan_select_and_scatter, select)):
        plan = planner(root, AARCH64)
        assert plan is not None
        code = plan.emit()
        assert KernelCompiler(AARCH64).object_code(module_text(code.functions, code.globals))
