"""Nests in place of the templates for loops, reductions and transposes, while a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from benchmarks.loop_form.cpu import plan_nests
from benchmarks.loop_form.gpu import plan_thread_nests

from lowtide.codegen.cpu import select
from lowtide.codegen.gpu import select as gpu_select
from lowtide.codegen.gpu.kernel import GpuPlan
from lowtide.codegen.gpu.split_sums import plan_split_sums
from lowtide.codegen.kernel import KernelPlan
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.target import Target

used: list[str] = []
"""Names of instructions that nests were planned for."""


def _nests(instruction: Instruction, target: Target) -> KernelPlan | None:
    plan = plan_nests(instruction, target)
    if plan is not None:
        used.append(instruction.name)
    return plan


@contextmanager
def nests_on_the_cpu() -> Iterator[None]:
    """Have nests come ahead of the templates of reductions, and be what is left for all others."""
    templates = dict(select.TEMPLATES)
    for opcode in (Opcode.FUSION, Opcode.REDUCE):
        own = list(templates[opcode])
        at = next(i for i, x in enumerate(own) if getattr(x, "name", "") == "plan_reduction")
        templates[opcode] = (*own[:at], _nests, *own[at:])
    general = select._general

    def last(instruction: Instruction, target: Target) -> KernelPlan | None:
        general(instruction, target)  # Refuses what has no rule.
        return _nests(instruction, target) or general(instruction, target)

    with (
        mock.patch.object(select, "TEMPLATES", templates),
        mock.patch.object(select, "_general", last),
    ):
        yield


@contextmanager
def nests_on_the_gpu() -> Iterator[None]:
    """Have nests come ahead of the templates of sums, rows, transposes and points."""
    templates = list(gpu_select.TEMPLATES)
    at = templates.index(plan_split_sums)

    def nests(instruction: Instruction, target: Target) -> GpuPlan | None:
        plan = plan_thread_nests(instruction, target)
        if plan is not None:
            used.append(instruction.name)
        return plan

    with mock.patch.object(gpu_select, "TEMPLATES", (*templates[:at], nests, *templates[at:])):
        yield
