"""Inputs and kernels of convolutions that are read where they lie: no scratch, the same numbers."""

from dataclasses import replace

import pytest
from tests.codegen.cpu.convolution.running import check, target_of
from tests.codegen.cpu.convolution.windows import Convolution, Window

from lowtide.codegen.cpu.contraction.arithmetic import arithmetic_of
from lowtide.codegen.cpu.convolution.axes import BATCH
from lowtide.codegen.cpu.convolution.blocks import LEAST_STEPS
from lowtide.codegen.cpu.convolution.border import border_cycles, border_tiles
from lowtide.codegen.cpu.convolution.choosing import choices
from lowtide.codegen.cpu.convolution.convolution import plan_convolution
from lowtide.codegen.cpu.convolution.cycles import cycles
from lowtide.codegen.cpu.convolution.problem import problem_of
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.kernel import KernelPlan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.target import Target

SAME = Window(3, 1, 1, 1)
HALVED = Window(3, 2, 0, 1)
LINE = Window()
WHOLE = Window(21)

FREE = {
    "depthwise": Convolution(2, 1, 1, (24, 224), (SAME, SAME), 40),
    "depthwise, halved": Convolution(1, 1, 1, (24, 112), (HALVED, HALVED), 64),
    "depthwise, 5 x 5": Convolution(2, 1, 1, (9, 12), (Window(5, 1, 2, 2), Window(5, 2, 1, 2)), 77),
    "depthwise, small": Convolution(1, 1, 1, (2, 3), (Window(5, 1, 2, 2), SAME), 100),
    "depthwise, dilated": Convolution(1, 1, 1, (3, 90), (LINE, Window(3, 1, 2, 2, 1, 2)), 24),
    "one place": Convolution(1, 1, 1, (21, 1), (WHOLE, LINE), 64),
    "along a line": Convolution(1, 24, 24, (12, 32), (LINE, SAME)),
    "reversed": Convolution(1, 24, 20, (12, 90), (SAME, replace(SAME, is_reversed=True))),
    "few places, many outputs": Convolution(1, 8, 257, (1, 9), (LINE, Window(5))),
}


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("s8", "s8", "s32"), ("u8", "s8", "s32")])
@pytest.mark.parametrize("name", FREE)
def test_no_scratch(name: str, types: tuple[str, str, str], target: str) -> None:
    convolution = replace(FREE[name], types=types)
    check(plan_convolution, convolution.text, target)
    is_lanewise = convolution.feature_groups > 1
    if is_lanewise or types[0] == "f32":
        assert scratch(convolution, target) == (0, 0)


@pytest.mark.parametrize("features", [40, 300, 700])
def test_blocks_of_features_end_where_the_features_do(features: int) -> None:
    """There are no zeros behind the last feature of a kernel that is read where it lies."""
    for windows in ((SAME, SAME), (Window(3), Window(3)), (LINE, SAME)):
        check(plan_convolution, Convolution(1, features, 11, (5, 40), windows).text)


def test_other_ways_give_the_same() -> None:
    """Among them one that copies the input."""
    text = FREE["depthwise"].text
    count = len(_planned(FREE["depthwise"], "native").others())
    for number in range(count):
        check(lambda x, y, i=number: _other(x, y, i), text)
    assert not all(x.in_place for x in _schemes(FREE["depthwise"], "native"))


def test_small_images_of_many_columns_need_no_copy() -> None:
    """A tile of one row leaves out what is beyond them; its columns lie together."""
    found = _scheme(Convolution(1, 1, 1, (7, 7), (SAME, SAME), 192))
    assert found.in_place
    assert not found.has_border
    assert found.tile_height == found.panels * found.vectors * found.lanes // 192 == 1


@pytest.mark.parametrize("columns", [3, 8, 16, 24, 40, 200])
def test_tiles_of_few_columns_have_more_rows(columns: int) -> None:
    """Sums of one row would wait for each other."""
    found = _scheme(Convolution(1, 1, 1, (9, 224), (SAME, SAME), columns))
    sums = found.tile_height * found.vectors
    assert 6 <= sums <= 12 or found.tile_height == 1 < found.vectors


def test_tiles_of_images_one_place_wide_have_more_rows() -> None:
    found = _scheme(Convolution(1, 1, 1, (224, 1), (SAME, Window(1)), 8))
    assert found.tile_height * found.vectors >= 6


APART = {
    "by the input, stride 2": (Window(1, 1, 0, 1, 2), Window(1, 1, 0, 1, 2)),
    "stride 3, odd sizes": (Window(1, 1, 0, 2, 3), Window(1, 1, 0, 1, 3)),
    "two taps of three": (Window(2, 1, 1, 1, 3), Window(2, 1, 1, 1, 3, 1, is_reversed=True)),
    "along one axis": (Window(1, 1, 0, 1, 2), Window(3)),
}


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("s8", "s8", "s32")])
@pytest.mark.parametrize("name", APART)
def test_places_that_meet_nothing_need_no_copy(
    name: str, types: tuple[str, str, str], target: str
) -> None:
    """Between elements that the gradient by the input of a strided window keeps apart are zeros."""
    convolution = Convolution(2, 16, 24, (9, 14), APART[name], types=types)
    check(plan_convolution, convolution.text, target)
    assert _schemes(convolution, target)[0].in_place or types[0] != "f32"


BY_FILTER = ("f01b", "i01o", "b01f")


@pytest.mark.parametrize(
    ("image", "window"),
    [
        (Convolution(32, 4, 64, (28, 28), ()), Window(14, 1, 0, 1, 1, 2)),
        (Convolution(29, 5, 21, (33, 33), ()), Window(16, 1, 0, 0, 1, 2)),
        (Convolution(33, 2, 19, (57, 57), ()), Window(28, 1, 0, 0, 1, 2)),
    ],
)
def test_neighbours_of_the_input_are_rows_of_a_tile(image: Convolution, window: Window) -> None:
    """Whatever the order of the result: each row of another line would come from another cache."""
    gradient = replace(image, windows=(window, window), orders=BY_FILTER)
    check(plan_convolution, gradient.text, "avx2")
    scheme = _schemes(gradient, "avx2")[0]
    assert scheme.rows[scheme.tile_dim].axis == BATCH


FAR = Window(5, 1, 18, 18, 1, 9)
DILATED = {
    "far taps": Convolution(1, 12, 12, (20, 33), (FAR, LINE)),
    "far taps, causal": Convolution(2, 16, 20, (40, 30), (Window(3, 1, 34, 0, 1, 17), LINE)),
    "far taps and a border": Convolution(1, 12, 24, (30, 34), (FAR, SAME)),
    "reversed": Convolution(1, 12, 24, (30, 32), (replace(FAR, is_reversed=True), SAME)),
    "with a stride": Convolution(1, 12, 20, (33, 24), (replace(FAR, stride=2), SAME)),
    "in both dimensions": Convolution(1, 8, 16, (24, 24), (FAR, Window(3, 1, 3, 3, 1, 3))),
    "of three": Convolution(1, 8, 16, (9, 10, 24), (Window(3, 1, 4, 4, 1, 4), FAR, LINE)),
    "beyond both ends": Convolution(1, 12, 20, (6, 32), (Window(9, 1, 40, 40, 1, 10), LINE)),
    "many features": Convolution(1, 900, 20, (12, 24), (Window(3, 1, 8, 8, 1, 8), LINE)),
    "groups": Convolution(1, 12, 16, (20, 24), (FAR, SAME), 3),
}
"""Windows of which many taps meet nothing but what is around, and more lies between two of them."""


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("u8", "s8", "s32")])
@pytest.mark.parametrize("name", DILATED)
def test_far_taps(name: str, types: tuple[str, str, str], target: str) -> None:
    check(plan_convolution, replace(DILATED[name], types=types).text, target)


def test_nothing_between_far_taps_is_copied() -> None:
    """A tile leaves out the taps that meet nothing, so that none is at the border."""
    for name in ("far taps", "far taps, causal", "beyond both ends"):
        first, *_ = _schemes(DILATED[name], "avx2")
        assert first.in_place
        assert not first.has_border


COPIED = {
    "few fit the registers of a tile at the border": Convolution(
        4, 128, 256, (32, 32), (HALVED, HALVED)
    ),
    "every second tile is at the border": Convolution(16, 64, 64, (32, 32), (SAME, SAME)),
}


@pytest.mark.parametrize("name", COPIED)
def test_inputs_are_copied_where_tiles_take_longer_without(name: str) -> None:
    """Tiles that read in place are small where little of the input fits the stack."""
    first, *others = _schemes(COPIED[name], "x86-64-v4")
    assert not first.in_place
    (near,) = [x for x in others if x.in_place]
    assert cycles(near, is_ready=True) + border_cycles(near) > cycles(first, is_ready=True)


def test_images_are_copied_whose_tiles_would_be_too_low_in_place() -> None:
    """The stack has no room for what tiles of as many rows would copy at the border."""
    image = Convolution(1, 128, 128, (28, 28), (SAME, SAME))
    copying, *others = _schemes(image, "avx2")
    near = next(x for x in others if x.in_place)
    assert not copying.in_place
    assert near.tile_rows < copying.tile_rows


@pytest.mark.parametrize("orders", [("", "", ""), ("bf01", "oi01", "bf01")])
@pytest.mark.parametrize("size", [32, 64])
def test_windows_far_apart_are_not_cut_into_single_taps(
    size: int, orders: tuple[str, str, str]
) -> None:
    """The input of many rows does not fit, however few taps there are: there are fewer rows."""
    window = Window(size, size)
    image = Convolution(8, 3, 64, (7 * size, 7 * size), (window, window), orders=orders)
    for scheme in _computed_schemes(image, target_of("native")):
        assert scheme.block_steps >= LEAST_STEPS


@pytest.mark.parametrize("target", ["native", "avx2"])
def test_a_kernel_that_no_cache_holds_is_packed_once_or_twice(target: str) -> None:
    """Each block of rows would have all of it come from memory again."""
    first, *_ = _schemes(Convolution(1, 512, 512, (30, 30), (SAME, SAME)), target)
    assert not first.weights_in_place
    assert first.blocks <= 2


def test_border_tiles_are_counted_as_they_are_cut() -> None:
    found = _scheme(Convolution(2, 1, 1, (24, 224), (SAME, SAME), 8))
    starts = range(0, 224, found.tile_rows)
    across = [min(x, 224 - found.tile_rows) for x in starts]
    inside = [x for x in across if x >= 1 and x + found.tile_rows + 1 <= 224]
    assert border_tiles(found) == 2 * 24 * (len(across) - len(inside))


def scratch(convolution: Convolution, target: str) -> tuple[int, int]:
    """The shared scratch of a convolution, and that of each thread."""
    plan = _planned(convolution, target)
    return plan.shared_bytes, plan.thread_bytes


def _planned(convolution: Convolution, target: str) -> KernelPlan:
    plan = plan_convolution(parse_hlo(convolution.text).entry.root, target_of(target))
    assert plan is not None
    return plan


def _other(instruction: Instruction, target: Target, number: int) -> KernelPlan:
    plan = plan_convolution(instruction, target)
    assert plan is not None
    return plan.others()[number]


def _scheme(convolution: Convolution) -> ConvolutionScheme:
    return _schemes(convolution, "native")[0]


def _computed_schemes(convolution: Convolution, target: Target) -> list[ConvolutionScheme]:
    """The schemes of a convolution whose input is computed."""
    problem = problem_of(parse_hlo(convolution.text).entry.root)
    assert problem is not None
    how = arithmetic_of(ElementType.F32, ElementType.F32, ElementType.F32, target)
    ready = {"is_ready": False, "weights_ready": False, "has_finish": True}
    return list(choices(problem, how, target, **ready))


def _schemes(convolution: Convolution, target: str) -> list[ConvolutionScheme]:
    """The scheme of a convolution, then those of other ways."""
    plan = _planned(convolution, target)
    found = [x.emit.args[0] for x in (plan, *plan.others())]  # type: ignore[attr-defined]
    assert all(isinstance(x, ConvolutionScheme) for x in found)
    return found


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize(
    ("outputs", "lanes"), [(2, (16, 8)), (3, (4, 4)), (4, (4, 4)), (8, (8, 8)), (9, (16, 8))]
)
def test_groups_of_few_columns_have_short_vectors(
    outputs: int, lanes: tuple[int, int], target: str
) -> None:
    """No vector has columns of two groups, whose rows would be read lane by lane."""
    convolution = Convolution(1, outputs, outputs, (9, 12), (SAME, HALVED), 5)
    found = _schemes(convolution, target)[0]
    assert found.lanes == lanes[target == "x86-64-v3"]
    assert found.is_lanewise == (outputs == 2)


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("type_", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize(("features", "outputs"), [(8, 8), (4, 4), (3, 3), (5, 7), (2, 6)])
def test_groups_of_few_columns(features: int, outputs: int, type_: str, target: str) -> None:
    for windows in ((SAME, HALVED), (LINE, FAR)):
        convolution = Convolution(2, features, outputs, (8, 11), windows, 5, types=(type_,) * 3)
        check(plan_convolution, convolution.text, target)
