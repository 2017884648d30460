"""The kernels of a program for a graphics processor: instructions that run alike share one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from lowtide.codegen.gpu.kernel import GpuPlan, buffer_count
from lowtide.codegen.gpu.select import gpu_plan
from lowtide.codegen.likeness import AlikePlans, likeness
from lowtide.ir import Instruction
from lowtide.ir.collective import DeviceCollective
from lowtide.ir.thunk import LaunchedKernel
from lowtide.llvm.function import module_text
from lowtide.llvm.objects import with_unique_names
from lowtide.llvm.target import Target
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class WrittenGpuKernels:
    """The kernels of a program, and the modules that define their functions, both by number."""

    kernels: tuple[LaunchedKernel, ...]
    texts: tuple[str, ...]


class GpuKernels(AlikePlans[GpuPlan]):
    """The plans of instructions, made once for all that are alike; later their code."""

    def __init__(self, target: Target) -> None:
        super().__init__(lambda instruction: gpu_plan(instruction, target))
        self.target = target
        self._numbers: dict[Hashable, int] = {}
        self._written: list[tuple[Instruction, GpuPlan]] = []

    def number(self, instruction: Instruction) -> int:
        """Return the number of the kernel of an instruction."""
        return self._number(likeness(instruction), instruction, self.plan(instruction))

    def collective(self, instruction: Instruction) -> DeviceCollective | None:
        """Return what an instruction does with other devices, if it does."""
        plan = self.plan(instruction).collective
        if plan is None:
            return None
        key = likeness(instruction)
        numbers = [self._number((key, i), *part) for i, part in enumerate(plan.parts)]
        collective = plan.collective
        steps = [replace(x, kernel=numbers[x.kernel]) for x in collective.steps]
        return replace(collective, steps=tuple(steps))

    def _number(self, key: Hashable, instruction: Instruction, plan: GpuPlan) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._written)
            self._written.append((instruction, plan))
        return number

    def write(self) -> WrittenGpuKernels:
        """Return the kernels that have numbers."""
        written = [written_kernel(instruction, plan) for instruction, plan in self._written]
        return WrittenGpuKernels(tuple([x for x, _ in written]), tuple([x for _, x in written]))


def written_kernel(instruction: Instruction, plan: GpuPlan) -> tuple[LaunchedKernel, str]:
    """Return a kernel, and the module that defines its functions."""
    code = plan.emit()
    text, ending = with_unique_names(module_text(code.functions, code.globals), "_")
    launches = tuple([replace(x, function=x.function + ending) for x in code.launches])
    count = buffer_count(instruction)
    return LaunchedKernel(plan.template, launches, count, plan.scratch_bytes), text
