"""Collective operations on graphics processors: kernels that read the memory of other devices.

What a device does once all of a group have met is said by the steps of a processor's collective;
the kernels are those of their fusions.
"""

from __future__ import annotations

from collections.abc import Callable

from lowtide.codegen.cpu.library.collective import plan_collective
from lowtide.codegen.gpu.kernel import GpuCode, GpuCollective, GpuPlan
from lowtide.codegen.kernel import CollectivePart
from lowtide.codegen.program import BETWEEN_DEVICES
from lowtide.ir import Instruction
from lowtide.ir.errors import unsupported
from lowtide.llvm.target import Target

PlanOf = Callable[[Instruction], GpuPlan]
"""How an instruction runs on one device."""


def plan_gpu_collective(
    instruction: Instruction, target: Target, plan_of: PlanOf
) -> GpuPlan | None:
    """Return how a collective operation runs, None for others and where each device is alone.

    Raises UnsupportedOpError as for processors, and for rows of any number, which have no kernel.
    """
    if instruction.opcode not in BETWEEN_DEVICES:
        return None
    plan = plan_collective(instruction, target)
    if plan is None or plan.collective is None:
        return None
    fusions = [_fusion(instruction, x) for x in plan.collective.parts]
    parts = tuple([(x, plan_of(x)) for x in fusions])
    scratch = max([x.scratch_bytes for _, x in parts], default=0)
    collective = GpuCollective(plan.collective.collective, parts)
    return GpuPlan("collective", lambda: GpuCode((), ()), scratch, collective)


def _fusion(instruction: Instruction, part: CollectivePart) -> Instruction:
    if part.fusion is None:
        reason = "no kernel of a GPU fetches rows whose number other devices say"
        raise unsupported(instruction, f"{reason}; devices of the CPU run it (lowtide run)")
    return part.fusion
