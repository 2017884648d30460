"""Kernels in panels of columns: read where they lie, by tiles of whole panels or parts of one."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.codegen.cpu.convolution.running import check, target_of
from tests.codegen.cpu.convolution.windows import Convolution, Window, array, window_text
from tests.native.comparing import compiled, reference

from lowtide.checking.tolerances import assert_values_close
from lowtide.codegen.cpu.contraction.arithmetic import arithmetic_of
from lowtide.codegen.cpu.convolution.convolution import plan_fused_convolution
from lowtide.codegen.cpu.convolution.kernel_panels import KernelPanels, kernel_panels
from lowtide.codegen.cpu.convolution.problem import problem_of
from lowtide.compiler import PlanOptions
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.testing.check_pass import seeded_arguments

SAME = Window(3, 1, 1, 1)
HALVED = Window(3, 2, 1, 1)
LINE = Window()

CASES = {
    "odd sizes": Convolution(2, 5, 48, (7, 13), (SAME, SAME)),
    "one panel": Convolution(1, 9, 16, (6, 5), (SAME, LINE)),
    "strided": Convolution(1, 33, 80, (11, 14), (HALVED, HALVED)),
    "one tap, strided": Convolution(1, 40, 32, (9, 9), (Window(1, 2), Window(1, 2))),
    "dilated": Convolution(1, 6, 32, (12, 17), (Window(3, 1, 2, 2, 1, 2), SAME)),
    "reversed": Convolution(1, 8, 32, (6, 9), (SAME, replace(SAME, is_reversed=True))),
    "transposed": Convolution(1, 12, 32, (5, 6), (Window(4, 1, 2, 2, 2), Window(3, 1, 1, 1, 2))),
    "many features": Convolution(1, 300, 64, (7, 7), (SAME, SAME)),
    "one dimension": Convolution(3, 20, 96, (37,), (Window(5, 1, 2, 2),)),
    "three dimensions": Convolution(1, 4, 32, (3, 4, 5), (SAME, Window(2), SAME)),
    "channels apart": Convolution(1, 10, 32, (9, 8), (SAME, SAME), orders=("bf01", "", "bf01")),
}


def text_of(convolution: Convolution, width: int = 16) -> str:
    """A fusion of a convolution whose kernel lies in panels of `width` columns."""
    image, kernel, result = convolution.shapes
    lhs, _, out = convolution.labels
    *window, features, outputs = [int(x) for x in kernel[4:-1].split(",")]
    places = [*range(1, len(window) + 2)]
    panels = array("f32", [outputs // width, *window, features, width])
    turned = array("f32", [*window, features, outputs // width, width])
    order = ",".join([str(x) for x in [*places, 0, len(places) + 1]])
    kernel_labels = "".join([str(i) for i in range(len(window))]) + "io"
    bias = out.index("f")
    return f"""HloModule m
f {{
  x = {image} parameter(0)
  p = {panels} parameter(1)
  b = f32[{outputs}] parameter(2)
  t = {turned} transpose(p), dimensions={{{order}}}
  k = {kernel} reshape(t)
  c = {result} convolution(x, k), {window_text(convolution.windows)},
    dim_labels={lhs}_{kernel_labels}->{out}
  w = {result} broadcast(b), dimensions={{{bias}}}
  ROOT s = {result} add(c, w)
}}
ENTRY e {{
  x = {image} parameter(0)
  p = {panels} parameter(1)
  b = f32[{outputs}] parameter(2)
  ROOT r = {result} fusion(x, p, b), kind=kOutput, calls=f
}}
"""


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_evaluator(name: str, target: str) -> None:
    check(plan_fused_convolution, text_of(CASES[name]), target)


@pytest.mark.parametrize("width", [8, 12, 24, 32])
def test_panels_of_any_width_give_the_same(width: int) -> None:
    """Widths that vectors do not divide are packed as any other kernel."""
    convolution = replace(CASES["odd sizes"], outputs=96)
    for target in ("native", "avx2"):
        check(plan_fused_convolution, text_of(convolution, width), target)


def found_panels(text: str, target: str = "avx2") -> KernelPanels | None:
    fusion = parse_hlo(text).entry.root
    instructions = fusion.called_computations[0].instructions.values()
    (convolution,) = [x for x in instructions if x.opcode is Opcode.CONVOLUTION]
    problem = problem_of(convolution)
    assert problem is not None
    types = [x.shape.element_type for x in (*convolution.operands, convolution)]
    how = arithmetic_of(types[0], types[1], types[2], target_of(target))
    return kernel_panels(convolution.operands[1], fusion, problem, how)


def test_panels_are_found() -> None:
    found = found_panels(text_of(CASES["odd sizes"]))
    assert found is not None
    taps, features = 9, 5
    assert (found.width, found.panel, found.feature) == (16, 16 * taps * features, 16)
    assert found.spatial == (3 * features * 16, features * 16)
    assert found_panels(text_of(CASES["one panel"])) is None  # Its columns lie side by side.


def test_columns_of_tiles_are_those_of_their_panels() -> None:
    found = found_panels(text_of(CASES["odd sizes"]))
    assert found is not None
    assert [x for x in (4, 8, 16, 24, 32, 48) if found.has_tiles(x)] == [4, 8, 16, 32, 48]
    places = [found.column_offset(x) for x in (0, 8, 16, 24, 40)]
    assert places == [0, 8, found.panel, found.panel + 8, 2 * found.panel + 8]


def test_a_kernel_in_panels_needs_no_room_for_packed_ones() -> None:
    convolution = Convolution(1, 128, 128, (28, 28), (SAME, SAME))
    machine = target_of("avx2")
    plans = [
        plan_fused_convolution(parse_hlo(x).entry.root, machine)
        for x in (text_of(convolution), text_of(convolution, 128))
    ]
    sizes = [x.shared_bytes + x.thread_bytes for x in plans if x is not None]
    assert len(sizes) == 2
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("window", [SAME, HALVED])
def test_tiles_have_fewer_loads_than_products(window: Window) -> None:
    """A tile of 13 x 1 fits 26 places better than one of 4 x 2, but loads as often as it adds."""
    size = 26 * window.stride
    convolution = Convolution(1, 48, 96, (size, size), (window, window))
    text = text_of(convolution)
    plan = plan_fused_convolution(parse_hlo(text).entry.root, target_of("avx2"))
    assert plan is not None
    assert isinstance(plan.emit, partial)
    scheme = plan.emit.args[0]
    height, vectors = scheme.tile_height, scheme.vectors
    assert 4 * (height + vectors) <= 3 * height * vectors
    check(plan_fused_convolution, text, "avx2")


@pytest.mark.parametrize("name", ["strided", "many features", "channels apart"])
def test_whole_programs_give_the_same(name: str) -> None:
    """The transposition and the reshape become parts of the convolution, or not: with any plan."""
    module = parse_hlo(text_of(CASES[name]))
    arguments = seeded_arguments(module, 1)
    for threads in (1, 2):
        for target in ("native", "avx2"):
            got = compiled(module, threads, target, PlanOptions("input"))(*arguments)
            assert_values_close(got, reference(module, arguments), module.entry.root.shape)
    assert np.asarray(arguments[0]).size
