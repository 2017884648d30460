"""What tiles of a convolution ask for ahead: what the next block reads, or the next piece."""

from dataclasses import replace

import pytest
from tests.codegen.cpu.convolution.running import check, target_of
from tests.codegen.cpu.convolution.test_kernel_panels import LINE, SAME, found_panels, text_of
from tests.codegen.cpu.convolution.windows import Convolution, Window

from lowtide.codegen.cpu.contraction.arithmetic import arithmetic_of
from lowtide.codegen.cpu.convolution.asking import ahead_of
from lowtide.codegen.cpu.convolution.choosing import choices
from lowtide.codegen.cpu.convolution.convolution import plan_fused_convolution
from lowtide.codegen.cpu.convolution.problem import problem_of
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.llvm.function import module_text

FAR = Convolution(1, 256, 144, (7, 6), (SAME, SAME))


def scheme_of(convolution: Convolution) -> ConvolutionScheme:
    text = text_of(convolution)
    instructions = parse_hlo(text).entry.root.called_computations[0].instructions.values()
    (found,) = [x for x in instructions if x.opcode is Opcode.CONVOLUTION]
    problem = problem_of(found)
    assert problem is not None
    types = [x.shape.element_type for x in (*found.operands, found)]
    target = target_of("avx2")
    how = arithmetic_of(types[0], types[1], types[2], target)
    ready = {"is_ready": True, "weights_ready": False, "has_finish": True}
    return next(choices(problem, how, target, panels=found_panels(text), **ready))


def test_the_next_block_and_the_next_piece_are_asked_for() -> None:
    scheme = scheme_of(FAR)
    ahead, panels = ahead_of(scheme), scheme.kernel_panels
    assert ahead is not None
    assert panels is not None
    assert scheme.feature_blocks > 1
    assert scheme.column_blocks > 1

    def place(piece: int, block: int) -> int:
        column = panels.column_offset(piece * scheme.column_block * scheme.columns)
        return column + block * scheme.feature_block * panels.feature

    last = scheme.feature_blocks - 1
    for piece in range(scheme.column_blocks - 1):
        for block in range(last):
            assert place(piece, block) + ahead.block == place(piece, block + 1)
        assert place(piece, last) + ahead.piece == place(piece + 1, 0)


@pytest.mark.parametrize(
    ("windows", "tap"),
    [
        ((LINE, SAME), 1),
        ((SAME, LINE), 1),
        ((SAME, replace(SAME, size=5)), 1),
        ((SAME, Window(3, 2, 1, 1)), 1),
        ((Window(1, 2), Window(1, 2)), 0),
        ((replace(SAME, is_reversed=True), replace(SAME, is_reversed=True)), -1),
    ],
)
def test_any_window_that_lies_evenly_is_asked_for(windows: tuple[Window, Window], tap: int) -> None:
    convolution = replace(FAR, features=2048, windows=windows)
    ahead = ahead_of(scheme_of(convolution))
    assert ahead is not None
    assert ahead.tap == tap * 2048 * 16


def test_a_window_of_which_one_axis_is_reversed_is_not_asked_for() -> None:
    windows = (SAME, replace(SAME, is_reversed=True))
    assert ahead_of(scheme_of(replace(FAR, windows=windows))) is None


def test_small_kernels_are_not_asked_for() -> None:
    assert ahead_of(scheme_of(replace(FAR, features=128))) is None


@pytest.mark.parametrize("target", ["native", "avx2"])
def test_results_are_those_of_the_evaluator(target: str) -> None:
    check(plan_fused_convolution, text_of(FAR), target)
    plan = plan_fused_convolution(parse_hlo(text_of(FAR)).entry.root, target_of("avx2"))
    assert plan is not None
    code = plan.emit()
    assert "llvm.prefetch" in module_text(code.functions)
