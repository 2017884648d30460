"""Kernels that a module may have, found once for all allowances."""

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler.test_proposals import COSTLY
from tests.fusion.kernel_list import kernel_list

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.compiler import plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion import kernel_choices, peak_lowering
from lowtide.fusion.horizontal import fuse_small_kernels
from lowtide.fusion.kernel_choices import KernelChoices
from lowtide.fusion.multi_output import fuse_multiple_outputs
from lowtide.fusion.peak_lowering import Allowance
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.scheduling.module_scheduler import best_of
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

PARTS = (0.5, 0.0, 0.25)


def by_itself(part: float) -> str:
    module = parse_hlo(COSTLY)
    fuse_by_priority(module, best_of, Allowance(part))
    return str(module)


def test_choices_of_one_fusion_are_those_of_fusion_by_itself() -> None:
    module = parse_hlo(COSTLY)
    choices = KernelChoices(module, best_of, CPU_TARGET)
    texts = []
    for part in PARTS:
        allowance = Allowance(part)
        copy, made = choices.written(choices.within(allowance))
        verify(copy)
        assert made > 0 and (allowance.spent > 0) == (part == 0.5)
        assert str(copy) == by_itself(part)
        assert_same_values(parse_hlo(COSTLY), copy)
        texts.append(str(copy))
    assert len(set(texts)) > 1
    assert str(module) == str(parse_hlo(COSTLY))


def test_clusters_are_fused_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = kernel_choices.fused_clusters
    asked: list[object] = []
    monkeypatch.setattr(
        kernel_choices, "fused_clusters", lambda *x: asked.append(x[0]) or fused(*x)
    )
    choices = KernelChoices(parse_hlo(COSTLY), best_of, CPU_TARGET)
    for part in PARTS:
        choices.within(Allowance(part))
    assert len(asked) == 1


def test_without_a_scheduler_there_is_one_choice() -> None:
    choices = KernelChoices(parse_hlo(COSTLY), None, CPU_TARGET)
    assert choices.within(Allowance(0.5)) is choices.within(Allowance(0.0))


ONE_KERNEL = """HloModule m
ENTRY main {
  x = f32[8,4] parameter(0)
  one = f32[] constant(1)
  ones = f32[8,4] broadcast(one), dimensions={}
  y = f32[8,4] add(x, ones)
  ROOT z = f32[8,4] tanh(y)
}
"""


def test_no_order_is_asked_for_where_a_program_is_one_kernel() -> None:
    def no_order(graph: MemoryGraph) -> npt.NDArray[np.int64]:
        raise AssertionError("an order of one kernel")

    module = parse_hlo(ONE_KERNEL)
    choices = KernelChoices(module, no_order, CPU_TARGET)
    fused, made = choices.written(choices.within(Allowance(0.5)))
    assert made == 1
    assert fuse_multiple_outputs(fused, no_order) == 0
    assert fuse_small_kernels(fused, no_order) == 0


def test_nothing_is_tried_where_only_results_live(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse_hlo(
        "HloModule m\nENTRY main {\n  x = f32[8] parameter(0)\n  s = f32[8] sine(x)\n"
        "  y = f32[4] parameter(1)\n  c = f32[4] cosine(y)\n"
        "  ROOT t = (f32[8], f32[4]) tuple(s, c)\n}\n"
    )
    monkeypatch.setattr(peak_lowering, "ROUNDS", None)
    choices = KernelChoices(module, best_of, CPU_TARGET)
    assert len(choices.within(Allowance(0.5))[module.entry].owner) == 2


SCATTERED = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[%s] parameter(0)
  i = s32[16,16,2] parameter(1)
  y = f32[%s] parameter(2)
  z = f32[%s] atan2(y, y)
  u = f32[%s] broadcast(z), dimensions={%s}
  ROOT r = f32[%s] scatter(x, i, u), update_window_dims={%s}, inserted_window_dims={%s},
    scatter_dims_to_operand_dims={%s}, index_vector_dim=2, to_apply=add
}
"""


@pytest.mark.parametrize(
    ("sizes", "window", "indexed"), [("1000,16,16", 0, "1,2"), ("16,16,1000", 2, "0,1")]
)
@pytest.mark.parametrize("is_of_window", [True, False])
def test_what_each_index_of_a_scatter_would_compute_again_is_stored(
    sizes: str, window: int, indexed: str, is_of_window: bool
) -> None:
    size, dimension = (1000, window) if is_of_window else (16, int(indexed[0]))
    text = SCATTERED % (sizes, size, size, sizes, dimension, sizes, window, indexed, indexed)
    kernels = kernel_list(plan(parse_hlo(text)).module).split(" | ")
    assert ("z" in kernels) == is_of_window
