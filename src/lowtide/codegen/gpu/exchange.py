"""Collective operations on graphics processors: kernels that read the memory of other devices.

What a device does once all of a group have met is said by the moves of a processor's exchange; the
kernels are those of their fusions.
"""

from __future__ import annotations

from collections.abc import Callable

from lowtide.codegen.cpu.library.exchange import plan_exchange
from lowtide.codegen.gpu.kernel import GpuCode, GpuExchange, GpuPlan
from lowtide.codegen.kernel import ExchangePart
from lowtide.codegen.program import EXCHANGED
from lowtide.ir import Instruction
from lowtide.ir.errors import unsupported
from lowtide.llvm.target import Target

PlanOf = Callable[[Instruction], GpuPlan]
"""How an instruction runs on one device."""


def plan_gpu_exchange(instruction: Instruction, target: Target, plan_of: PlanOf) -> GpuPlan | None:
    """Return how a collective operation runs, None for others and where each device is alone.

    Raises UnsupportedOpError as for processors, and for rows of any number, which have no kernel.
    """
    if instruction.opcode not in EXCHANGED:
        return None
    plan = plan_exchange(instruction, target)
    if plan is None or plan.exchange is None:
        return None
    fusions = [_fusion(instruction, x) for x in plan.exchange.parts]
    parts = tuple([(x, plan_of(x)) for x in fusions])
    scratch = max([x.scratch_bytes for _, x in parts], default=0)
    exchange = GpuExchange(plan.exchange.exchange, parts)
    return GpuPlan("exchange", lambda: GpuCode((), ()), scratch, exchange)


def _fusion(instruction: Instruction, part: ExchangePart) -> Instruction:
    if part.fusion is None:
        reason = "no kernel of a GPU fetches rows whose number other devices say"
        raise unsupported(instruction, f"{reason}; devices of the CPU run it (lowtide run)")
    return part.fusion
