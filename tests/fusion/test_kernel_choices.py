"""Kernels that a module may have, found once for all allowances."""

import pytest
from tests.compiler.test_proposals import COSTLY

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion import kernel_choices
from lowtide.fusion.kernel_choices import KernelChoices
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
