"""What is computed once more behind the peak, chosen together, and as far as the time allows."""

import pytest
from tests.fusion.test_peak_lowering import BYTES, LAYERS, SHAPE, TANH, training

from lowtide import compiler
from lowtide.fusion.kernel_choices import KernelChoices
from lowtide.fusion.peak_lowering import Allowance, total_seconds
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir.clone import clone_module
from lowtide.scheduling.module_scheduler import best_of
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

SORTED = f"y@ = {SHAPE} sort(x@), dimensions={{1}}, to_apply=less"


def fused(module, priority: float) -> int:
    """Fuse a copy, check it, and return the bytes live at once in our plan of it."""
    copy = clone_module(module)
    fuse_by_priority(copy, best_of, Allowance(priority))
    verify(copy)
    assert_same_values(module, copy, seeds=1)
    return compiler.plan(copy, compiler.PlanOptions("input")).report.ladder.live_bytes


TWO = (
    SORTED,
    f"k@ = {SHAPE} tan(y@)",
    f"t@ = {SHAPE} tan(k@)",
    f"m@ = {SHAPE} sine(y@)",
    f"n@ = {SHAPE} tan(m@)",
    f"a@ = {SHAPE} add(t@, n@)",
)
READER = f"clamp(t@, g{LAYERS}, n@)"
"""Two values that are made of one, at some cost, and read again behind the peak."""


def test_two_values_are_made_of_one_that_is_stored_instead() -> None:
    """Each by itself gains nothing: the value that both are made of would be stored, too."""
    module = training(*TWO, reader=READER)
    plain, chosen = fused(module, 0.0), fused(module, 2.0)
    assert plain - chosen >= (LAYERS - 1) * BYTES


def test_what_takes_more_than_the_allowance_is_left() -> None:
    module = training(*TWO, reader=READER)
    assert fused(module, 1e-9) == fused(module, 0.0)


COSTLY = (
    TANH,
    f"k@ = {SHAPE} tan(t@)",
    f"y@ = {SHAPE} tan(k@)",
    f"n@ = {SHAPE} tan(y@)",
    f"a@ = {SHAPE} tan(n@)",
)


@pytest.mark.parametrize("priority", [0.0, 0.002, 0.01, 0.03, 0.1, 1.0])
def test_kernels_take_no_more_time_than_they_may(priority) -> None:
    module = training(*COSTLY, reader="tan(a@)")
    seconds = []
    for allowed in (0.0, priority):
        choice = KernelChoices(clone_module(module), best_of, CPU_TARGET).within(Allowance(allowed))
        seconds.append(sum([total_seconds(x) for x in choice.values()]))
    assert seconds[1] <= seconds[0] * (1 + priority) + 1e-12


def test_a_part_is_done_where_not_all_can_be_paid() -> None:
    """Between nothing and all layers there are allowances that pay for some of them."""
    module = training(*COSTLY, reader="tan(a@)")
    found = [fused(module, x / 10) for x in range(0, 16, 2)]
    assert found == sorted(found, reverse=True) and len({*found}) >= 3
