"""Convolutions as kernels give what the evaluator gives, in whatever form they come."""

from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.cpu.convolution.running import check, numbers, target_of
from tests.codegen.cpu.convolution.windows import Convolution, Window, drawn_convolution
from tests.codegen.running import Kernel

from lowtide.backends.aot.backend import AotBackend
from lowtide.codegen.cpu.convolution.convolution import plan_convolution
from lowtide.codegen.cpu.convolution.problem import problem_of
from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType
from lowtide.llvm.function import module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64, Target, host_target

SAME = Window(3, low=1, high=1)
CASES = {
    "padded": Convolution(2, 17, 40, (9, 11), (SAME, SAME)),
    "inside": Convolution(1, 16, 32, (9, 20), (Window(3), Window(3))),
    "one by one": Convolution(2, 20, 33, (5, 7), (Window(), Window())),
    "strided": Convolution(1, 6, 20, (13, 14), (Window(7, 2, 3, 3), Window(7, 2, 2, 3))),
    "stem of three features": Convolution(1, 3, 35, (20, 21), (Window(7, 2, 3, 3),) * 2),
    "by the input": Convolution(
        1, 20, 17, (7, 8), (Window(3, 1, 2, 1, 2, 1, True),) * 2, orders=("", "01oi", "")
    ),
    "by the input, stride 3 over 2 taps": Convolution(
        1, 5, 18, (7,), (Window(2, 1, 1, 3, 3, 1, True),), orders=("", "0oi", "")
    ),
    "by the filter": Convolution(
        33, 2, 20, (12, 13), (Window(12, 1, 1, 1), Window(13, 1, 1, 1)),
        orders=("f01b", "i01o", "01bf"),
    ),
    "by the filter of a stride": Convolution(
        9, 3, 17, (11,), (Window(6, 1, 1, 1, 1, 2),), orders=("f0b", "i0o", "0bf")
    ),
    "depthwise": Convolution(2, 1, 1, (9, 10), (SAME, Window(3, 2, 1, 1)), 37),
    "two outputs of each feature": Convolution(1, 1, 2, (9, 10), (SAME, SAME), 19),
    "depthwise by the filter": Convolution(
        1, 2, 1, (8, 9), (Window(8, 1, 1, 1), Window(9, 1, 1, 1)), 1, 21,
        orders=("f01b", "i01o", "01bf"),
    ),
    "small groups": Convolution(1, 4, 4, (8, 9), (SAME, SAME), 8),
    "large groups": Convolution(1, 20, 24, (8, 9), (SAME, SAME), 3),
    "few outputs": Convolution(2, 40, 3, (8, 9), (SAME, SAME)),
    "one output in place": Convolution(2, 32, 1, (8, 9), (Window(3), Window(2))),
    "features first": Convolution(1, 5, 20, (8, 9), (SAME, SAME), orders=("bf01", "oi01", "bf01")),
    "small images": Convolution(7, 30, 50, (2, 3), (SAME, SAME)),
    "dilated and causal": Convolution(2, 16, 20, (40,), (Window(3, 1, 8, 0, 1, 4),)),
    "images cut off": Convolution(1, 8, 20, (9,), (Window(3, 1, -2, -1),)),
    "three dimensions": Convolution(1, 4, 20, (4, 5, 6), (SAME, Window(2), SAME)),
}  # fmt: skip
"""What the programs of people have, in small."""


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", CASES)
def test_forms(name: str, target: str) -> None:
    check(plan_convolution, CASES[name].text, target)


@pytest.mark.parametrize("name", CASES)
def test_forms_in_scratch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What small pieces need lies on the stack elsewhere, where nothing looks beyond its end."""
    monkeypatch.setattr(Target, "stack_bytes", property(lambda target: 0))
    check(plan_convolution, CASES[name].text, "avx2")


SMALL = {
    "bytes": Convolution(1, 16, 32, (16, 16), (SAME, SAME), types=("s8", "s8", "s32")),
    "bytes of one feature": Convolution(
        1, 1, 8, (59, 49), (Window(7, 2, 3, 3),) * 2, types=("s8", "s8", "s32")
    ),
    "wide lines of lanes": Convolution(1, 1, 1, (98,), (Window(9, 2, 4, 4),), 120),
}  # fmt: skip


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("name", SMALL)
def test_small_layers_take_no_scratch(name: str, target: str) -> None:
    """Rows, or lanes, are cut so that what a piece copies fits the stack; devices have none."""
    root = parse_hlo(SMALL[name].text).entry.root
    plan = plan_convolution(root, target_of(target))
    assert plan is not None and plan.thread_bytes == plan.shared_bytes == 0
    assert not target_of("cortex-m4").stack_bytes
    assert not AotBackend(host_target(), "net").target.stack_bytes  # Nobody knows its stack.
    check(plan_convolution, SMALL[name].text, "avx2")


TYPES = [
    ("f64", "f64", "f64"),
    ("bf16", "bf16", "bf16"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f16"),
    ("f8e4m3fn", "f8e4m3fn", "f32"),
    ("s8", "s8", "s32"),
    ("u8", "u8", "u8"),
    ("s32", "s32", "s32"),
    ("s64", "s64", "s64"),
    ("c64", "c64", "c64"),
]


@pytest.mark.parametrize("types", TYPES)
def test_types(types: tuple[str, str, str]) -> None:
    for name in ("padded", "by the filter", "depthwise", "few outputs"):
        check(plan_convolution, replace(CASES[name], types=types).text)


def test_any_window_order_and_grouping() -> None:
    for seed in range(60):
        text = drawn_convolution(seed).text
        root = parse_hlo(text).entry.root
        problem = problem_of(root)
        if problem is None or not problem.products:
            assert plan_convolution(root, target_of("native")) is None
            continue
        check(plan_convolution, text, "avx2" if seed % 3 == 0 else "native")


LARGE = {
    "several blocks of features": Convolution(1, 400, 20, (9, 9), (SAME, SAME)),
    "several blocks of rows": Convolution(1, 64, 70, (40, 41), (SAME, SAME)),
    "several blocks of taps": Convolution(
        16, 3, 20, (60, 61), (Window(60, 1, 1, 1), Window(61, 1, 1, 1)),
        orders=("f01b", "i01o", "01bf"),
    ),
    "few outputs of many features": Convolution(1, 800, 4, (20, 21), (SAME, SAME)),
    "few outputs, features left over": Convolution(1, 811, 3, (20, 21), (SAME, SAME)),
    "features last in both": Convolution(1, 800, 20, (9, 9), (SAME, SAME), orders=("", "01oi", "")),
    "depthwise": Convolution(1, 1, 1, (40, 41), (SAME, SAME), 200),
    "large window, features left over": Convolution(1, 20, 50, (97, 33), (Window(96), SAME)),
    "large window, few features": Convolution(2, 12, 20, (50, 40), (SAME, Window(40))),
}  # fmt: skip


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", LARGE)
def test_blocks(name: str, target: str) -> None:
    check(plan_convolution, LARGE[name].text, target)


LONG = {
    "forward": Convolution(1, 512, 20, (6, 6), (SAME, SAME)),
    "by the input": Convolution(1, 512, 20, (6, 6), (SAME, SAME), orders=("", "01oi", "")),
    "to few outputs": Convolution(1, 512, 3, (6, 6), (SAME, SAME)),
    "by the filter": Convolution(
        6, 3, 20, (50, 51), (Window(50, 1, 1, 1), Window(51, 1, 1, 1)),
        orders=("f01b", "i01o", "01bf"),
    ),
    "large window": Convolution(1, 20, 24, (256, 6), (Window(256), SAME)),
}  # fmt: skip
"""Sums of thousands of products."""


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", LONG)
def test_long_sums_are_added_up_in_blocks(name: str, target: str) -> None:
    """In one sum after the other errors would be thrice the bound; few outputs have lanes of sums.

    Roundings of a growing sum are a random walk: each is at most 2**-24 of the sum so far, evenly
    spread, and the squares of all n sums so far add up to n / 3 of the last one's. So the relative
    error deviates by sqrt(n) / 3 units of 2**-24 at most, and in n / s blocks of s products by
    s / (3 sqrt(n)). With n = 4608 and s = 1152, the longest blocks here, that is 5.7 units, and 4
    are found: 16 are about as much as the greatest of 720 errors. In one sum the deviation is 23.
    """
    module = parse_hlo(LONG[name].text)
    plan = plan_convolution(module.entry.root, target_of(target))
    assert plan is not None
    rng = np.random.default_rng(0)
    shapes = [x.shape.dimensions for x in (*module.entry.parameters, module.entry.root)]
    x, w = (rng.uniform(0.5, 1, s).astype(np.float32) for s in shapes[:2])
    out = np.zeros(shapes[2], np.float32)
    Kernel(plan, target_of(target))([x, w, out], step=1)
    wide = parse_hlo(replace(LONG[name], types=("f64", "f64", "f64")).text)
    (exact,) = value_leaves(evaluate(wide, [x.astype(np.float64), w.astype(np.float64)]))
    assert np.abs(out / np.asarray(exact) - 1).max() < 16 * 2**-24


def test_nothing_is_multiplied_between_elements() -> None:
    """A dilated input is met by its elements only: 9 taps at 4 phases are 9 products a place."""
    windows = (Window(3, 1, 1, 2, 2),) * 2
    root = parse_hlo(Convolution(1, 1, 1, (8, 8), windows).text).entry.root
    problem = problem_of(root)
    assert problem is not None
    places = root.shape.element_count
    assert len(problem.spatial[0].phases) == 2
    assert problem.products < places * 9 / 3.5


def test_nothing_to_add_up() -> None:
    empty = Convolution(1, 0, 4, (8,), (Window(3),)).text
    beside = Convolution(1, 4, 4, (4,), (Window(2, 1, 9, -5),)).text
    for text in (empty, beside):
        assert plan_convolution(parse_hlo(text).entry.root, target_of("native")) is None


def test_pieces_do_not_depend_on_how_they_are_shared_out() -> None:
    text = LARGE["several blocks of taps"].text
    module = parse_hlo(text)
    plan = plan_convolution(module.entry.root, target_of("native"))
    assert plan is not None
    kernel = Kernel(plan, target_of("native"))
    rng = np.random.default_rng(0)
    shapes = [x.shape.dimensions for x in (*module.entry.parameters, module.entry.root)]
    operands = [rng.standard_normal(x).astype(np.float32) for x in shapes[:2]]
    results = []
    for step in (1, 2, 1000):
        out = np.zeros(shapes[2], np.float32)
        kernel([*operands, out], step)
        results.append(out)
    assert len(kernel.phases) == 2
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()


@pytest.mark.parametrize("name", ["padded", "by the filter", "depthwise", "few outputs"])
def test_objects_for_neon(name: str) -> None:
    plan = plan_convolution(parse_hlo(CASES[name].text).entry.root, AARCH64)
    assert plan is not None
    code = plan.emit()
    assert KernelCompiler(AARCH64).object_code(module_text(code.functions, code.globals))


def test_scratch_is_small() -> None:
    large = Convolution(8, 512, 512, (28, 28), (SAME, SAME))
    gradient = Convolution(
        512, 8, 512, (28, 28), (Window(28, 1, 1, 1),) * 2, orders=("f01b", "i01o", "01bf")
    )
    for convolution in (large, gradient):
        plan = plan_convolution(parse_hlo(convolution.text).entry.root, target_of("native"))
        assert plan is not None
        assert plan.thread_bytes <= 1 << 20
        assert plan.shared_bytes <= 2 << 20


def test_equal_convolutions_have_equal_text() -> None:
    texts = set()
    for _ in range(2):
        plan = plan_convolution(parse_hlo(CASES["padded"].text).entry.root, target_of("native"))
        assert plan is not None
        code = plan.emit()
        texts.add(module_text(code.functions, code.globals))
    assert len(texts) == 1


def test_images_that_differ_in_size_have_tiles_in_common() -> None:
    form = """HloModule m

ENTRY e {{
  x = f32[1,{n},{n},32] parameter(0)
  w = f32[3,3,32,32] parameter(1)
  ROOT y = f32[1,{n},{n},32] convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, {labels}
}}
"""
    tiles = []
    for n in (20, 40):
        text = form.format(n=n, labels="dim_labels=b01f_01io->b01f")
        plan = plan_convolution(parse_hlo(text).entry.root, target_of("avx2"))
        assert plan is not None
        functions = [x for x in plan.emit().functions if x.name.startswith("tile_")]
        tiles.append({module_text([x], "") for x in functions})
        check(plan_convolution, text, "avx2")
    assert tiles[0] & tiles[1]


def test_infinities_outside_are_not_met() -> None:
    """What lies beside a row in memory never enters a sum, not even times zero."""
    module = parse_hlo(CASES["padded"].text)
    plan = plan_convolution(module.entry.root, target_of("native"))
    assert plan is not None
    x, w = (
        numbers(i, ElementType.F32, p.shape.dimensions)
        for i, p in enumerate(module.entry.parameters)
    )
    x[0, 4, 10] = np.inf
    out = np.zeros(module.entry.root.shape.dimensions, np.float32)
    Kernel(plan, target_of("native"))([x, np.abs(w) + 1, out], step=1)
    near = np.zeros(out.shape[:3], bool)
    near[0, 3:6, 9:11] = True
    assert np.isinf(out[near]).all() and np.isfinite(out[~near]).all()
