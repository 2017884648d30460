"""Graphics processors: kernels in LLVM's IR for NVPTX, assembled by ptxas, planned without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from lowtide.analysis.loop_trip_count import loop_counter
from lowtide.backends.build import constant_bytes
from lowtide.backends.interface import Progress
from lowtide.codegen.gpu.kernels import GpuKernels
from lowtide.codegen.gpu.select import is_cheap
from lowtide.codegen.program import NO_CODE, thunks_of
from lowtide.compiler import ModulePlan
from lowtide.fusion.target_record import GPU_TARGET, TargetRecord
from lowtide.ir import Instruction
from lowtide.ir.opcode import CALLERS
from lowtide.llvm.named_targets import gpu_target
from lowtide.runtime.cpu.program import interface_of
from lowtide.runtime.gpu.program import GpuProgram


@final
class GpuBackend:
    """An architecture by name ("cuda:sm_90"); raises ValueError for one that is not known."""

    def __init__(self, name: str) -> None:
        self.target = gpu_target(name)

    @property
    def record(self) -> TargetRecord:
        """The same for all architectures: equal options give equal plans."""
        return GPU_TARGET

    def kernels(self) -> GpuKernelSet:
        """Return the kernels of one module."""
        return GpuKernelSet(GpuKernels(self.target))

    def tuned_kernels(self) -> Iterator[GpuKernelSet]:
        """Yield none: nothing is measured."""
        yield from ()


@final
class GpuKernelSet:
    """The kernels of a module for a graphics processor; see `interface.KernelSet`."""

    def __init__(self, kernels: GpuKernels) -> None:
        self._kernels = kernels

    def has_kernel(self, fusion: Instruction) -> bool:
        """Return whether one kernel can run a fusion without computing much of it again."""
        return self._kernels.has_plan(fusion) and is_cheap(fusion, self._kernels.target)

    def scratch_bytes(self, instruction: Instruction) -> int:
        """Return the bytes that an instruction needs while it runs."""
        if instruction.opcode in NO_CODE or instruction.opcode in CALLERS:
            return 0
        return self._kernels.plan(instruction).scratch_bytes

    def program(self, plan: ModulePlan, progress: Progress | None = None) -> GpuProgram:
        """Return the program of a plan that has the scratch of these kernels."""
        assert plan.module.schedule is not None
        sequences, kernels = plan.module.schedule.sequences, self._kernels
        ways = kernels.number, _no_call, kernels.collective, loop_counter
        thunks = thunks_of(plan.assignment, sequences, *ways)
        written = kernels.write()
        return GpuProgram(
            plan.module.name,
            kernels.target,
            thunks,
            written.kernels,
            written.texts,
            interface_of(plan.module, plan.assignment),
            constant_bytes(plan),
            plan.module.replica_count,
            plan.module.num_partitions,
        )


def _no_call(instruction: Instruction) -> None:
    """No custom call is one of a function of the host: its plan was refused."""
