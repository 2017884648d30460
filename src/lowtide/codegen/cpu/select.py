"""Choice of the template that makes the kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.cpu import library
from lowtide.codegen.cpu.attention.kernel import plan_attention
from lowtide.codegen.cpu.contraction.dot import plan_dot, plan_fused_dot
from lowtide.codegen.cpu.convolution.convolution import plan_convolution, plan_fused_convolution
from lowtide.codegen.cpu.convolution.reduce_window import plan_reduce_window
from lowtide.codegen.cpu.convolution.select_and_scatter import plan_select_and_scatter
from lowtide.codegen.cpu.loop import plan_loop
from lowtide.codegen.cpu.reduction.scan import plan_scan
from lowtide.codegen.cpu.reduction.template import plan_reduction
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.parts import no_rule
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.kernel import KernelPlan
from lowtide.ir import Instruction, Opcode
from lowtide.ir.errors import unsupported
from lowtide.llvm.target import Target

Template = Callable[[Instruction, Target], "KernelPlan | None"]
"""Returns how an instruction will run, None where the template is not for it."""


def kernel_plan(instruction: Instruction, target: Target) -> KernelPlan:
    """Return how an instruction will run; raises UnsupportedOpError where it cannot."""
    if any(x.shape.is_dynamic for x in (instruction, *instruction.operands)):
        reason = "native code has no dynamic sizes; the evaluator runs it (lowtide run --reference)"
        raise unsupported(instruction, reason)
    for template in (*TEMPLATES.get(instruction.opcode, ()), _general):
        plan = template(instruction, target)
        if plan is not None:
            return plan
    raise no_rule(instruction)


def _general(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Loops over the elements of the results, each computed as it is defined."""
    for member in members(instruction):
        if not has_rule(member):
            raise no_rule(member)
    return plan_loop(instruction, target)


TEMPLATES: Final[Mapping[Opcode, tuple[Template, ...]]] = {
    **library.TEMPLATES,
    Opcode.CONVOLUTION: (plan_convolution,),
    Opcode.DOT: (plan_dot,),
    Opcode.FUSION: (
        plan_attention,
        plan_fused_dot,
        plan_fused_convolution,
        plan_reduction,
        *library.TEMPLATES[Opcode.FUSION],
    ),
    Opcode.REDUCE: (plan_reduction,),
    Opcode.REDUCE_WINDOW: (plan_reduce_window,),
    Opcode.SCAN: (plan_scan,),
    Opcode.SELECT_AND_SCATTER: (plan_select_and_scatter,),
}
"""By opcode the templates that are tried before the general one, in turn."""
