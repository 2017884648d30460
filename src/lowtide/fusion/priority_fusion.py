"""Priority fusion: the producer that saves most time is fused first, with all that read it."""

from __future__ import annotations

from typing import Final

from lowtide.fusion.kernel_choices import KernelChoices
from lowtide.fusion.order_memory import Scheduler
from lowtide.fusion.peak_lowering import Allowance
from lowtide.fusion.target_record import CPU_TARGET, TargetRecord
from lowtide.ir import Module
from lowtide.passes.interface import Pass, example


def fuse_by_priority(
    module: Module,
    scheduler: Scheduler | None = None,
    allowance: Allowance | None = None,
    target: TargetRecord = CPU_TARGET,
) -> int:
    """Fuse what is worth it in all computations that run by themselves; return the fusions made.

    With a `scheduler` values that live at the peak of its order, and can be computed once more by
    those that read them later, are, where that costs next to nothing or is within an `allowance`.
    """
    choices = KernelChoices(module, scheduler, target)
    return choices.write(module, choices.within(allowance or Allowance(0.0)))


PASSES: Final = (
    Pass(
        "priority-fusion",
        fuse_by_priority,
        "Makes kernels of several instructions, beginning with what saves most time.",
        *example(
            """
HloModule m
+
+fused_computation {
+ param_0 = f32[64,64] parameter(0)
+ param_1 = f32[64,64] parameter(1)
+ product.1 = f32[64,64] multiply(param_0, param_1)
+ ROOT difference.1 = f32[64,64] subtract(product.1, param_1)
+}

ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
- product = f32[64,64] multiply(x, y)
- ROOT difference = f32[64,64] subtract(product, y)
+ ROOT subtract_fusion = f32[64,64] fusion(x, y), kind=kLoop, calls=fused_computation
}
"""
        ),
    ),
)
