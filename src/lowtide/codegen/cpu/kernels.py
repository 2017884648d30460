"""The kernels of a program: instructions that run the same code share one."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import replace
from importlib import import_module
from typing import Final

from lowtide.codegen.cpu.select import kernel_plan
from lowtide.codegen.kernel import KernelPlan
from lowtide.codegen.likeness import AlikePlans, likeness
from lowtide.ir import Instruction
from lowtide.ir.collective import DeviceCollective
from lowtide.ir.thunk import HostCall, KernelEntry, Phase
from lowtide.llvm.function import module_text
from lowtide.llvm.objects import with_unique_names
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_SUM_WITH_ZERO: Final = re.compile(r" = fadd (?:float|double) .*0x0{16}")
"""A sum of single numbers for which `llvm/zero_sums.py` is loaded."""


@dataclass(frozen=True, slots=True)
class WrittenKernels:
    """The kernels of a program, and the modules that define their functions, both by number."""

    entries: tuple[KernelEntry, ...]
    texts: tuple[str, ...]


class Kernels(AlikePlans[KernelPlan]):
    """The plans of instructions, made once for all that are alike; later their code.

    Scratch depends on the number of threads that run a kernel at once.
    """

    def __init__(self, target: Target, threads: int) -> None:
        super().__init__(lambda instruction: kernel_plan(instruction, target))
        self.target = target
        self.threads = threads
        self._numbers: dict[Hashable, int] = {}
        self._written: list[KernelPlan] = []

    def scratch_bytes(self, instruction: Instruction) -> int:
        """Return the bytes that an instruction needs while it runs."""
        return scratch_of(self.plan(instruction), self.threads)

    def host_call(self, instruction: Instruction) -> HostCall | None:
        """Return the call of a function outside of the program that runs an instruction, if any."""
        return self.plan(instruction).call

    def collective(self, instruction: Instruction) -> DeviceCollective | None:
        """Return what an instruction exchanges with other devices, if it does."""
        plan = self.plan(instruction).collective
        if plan is None:
            return None
        key = likeness(instruction)
        numbers = [self._number((key, place), part.plan) for place, part in enumerate(plan.parts)]
        steps = [replace(x, kernel=numbers[x.kernel]) for x in plan.collective.steps]
        return replace(plan.collective, steps=tuple(steps))

    def number(self, instruction: Instruction) -> int:
        """Return the number of the kernel of an instruction."""
        return self._number(likeness(instruction), self.plan(instruction))

    def _number(self, key: Hashable, plan: KernelPlan) -> int:
        number = self._numbers.get(key)
        if number is None:
            assert plan.call is None, "a call of a function outside is no kernel"
            number = self._numbers[key] = len(self._written)
            self._written.append(plan)
        return number

    def write(self) -> WrittenKernels:
        """Return the kernels that have numbers."""
        texts: list[str] = []
        entries = []
        for plan in self._written:
            entry, text = written(plan)
            texts.append(text)
            entries.append(entry)
        return WrittenKernels(tuple(entries), tuple(texts))


def scratch_of(plan: KernelPlan, threads: int) -> int:
    """Return the bytes that a kernel needs while so many threads run it."""
    return plan.shared_bytes + plan.thread_bytes * threads


def written(plan: KernelPlan) -> tuple[KernelEntry, str]:
    """Return a kernel, and the module that defines its functions."""
    code = plan.emit()
    plain = module_text(code.functions, code.globals)
    if _SUM_WITH_ZERO.search(plain):
        plain = import_module("lowtide.llvm.zero_sums").with_early_zeros(plain)
    text, ending = with_unique_names(plain)
    phases = [Phase(x.function + ending, x.units, x.unit_seconds) for x in code.phases]
    return KernelEntry(tuple(phases), plan.shared_bytes, plan.thread_bytes), text
