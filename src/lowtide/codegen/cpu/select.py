"""Choice of the template that makes the kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from lowtide.codegen.cpu.library.passing import PASSING, plan_passing
from lowtide.codegen.cpu.loop import plan_loop
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.parts import no_rule
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.kernel import KernelPlan
from lowtide.codegen.program import BETWEEN_DEVICES
from lowtide.ir import Instruction, Opcode
from lowtide.ir.errors import unsupported
from lowtide.llvm.target import Target
from lowtide.records import dataclass

Template = Callable[[Instruction, Target], "KernelPlan | None"]
"""Returns how an instruction will run, None where the template is not for it."""


@dataclass(frozen=True, slots=True)
class LateTemplate:
    """A template whose file is loaded when an instruction comes that it may be for.

    Most programs need few of them. It is the function `name` of a file in this folder, and for
    kernels only in which `least` instructions have one of the opcodes `heroes`, if there are any.
    """

    file: str
    name: str
    heroes: tuple[Opcode, ...] = ()
    least: int = 1

    def __call__(self, instruction: Instruction, target: Target) -> KernelPlan | None:
        """Return how an instruction will run, None where the template is not for it."""
        if self.heroes:
            count = sum([x.opcode in self.heroes for x in members(instruction)])
            if count < self.least:
                return None
        template: Template = getattr(import_module(f"lowtide.codegen.cpu.{self.file}"), self.name)
        return template(instruction, target)


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
    **dict.fromkeys(PASSING, (plan_passing,)),
    **dict.fromkeys(
        [x for x in PASSING if x in BETWEEN_DEVICES],
        (LateTemplate("library.collective", "plan_collective"), plan_passing),
    ),
    Opcode.CHOLESKY: (LateTemplate("library.cholesky", "plan_cholesky"),),
    Opcode.CONCATENATE: (LateTemplate("library.joining", "plan_joining"),),
    Opcode.CONVOLUTION: (LateTemplate("convolution.convolution", "plan_convolution"),),
    Opcode.CUSTOM_CALL: (
        LateTemplate("library.lu", "plan_lu"),
        LateTemplate("library.lapack", "plan_lapack"),
        LateTemplate("library.topk", "plan_topk_call"),
        LateTemplate("library.host_call", "plan_host_call"),
        plan_passing,
    ),
    Opcode.DOT: (LateTemplate("contraction.dot", "plan_dot"),),
    Opcode.FFT: (LateTemplate("library.fft", "plan_fft"),),
    Opcode.FUSION: (
        LateTemplate("attention.kernel", "plan_attention", (Opcode.DOT,), 2),
        LateTemplate("contraction.dot", "plan_fused_dot", (Opcode.DOT,)),
        LateTemplate("convolution.convolution", "plan_fused_convolution", (Opcode.CONVOLUTION,)),
        LateTemplate("reduction.template", "plan_reduction", (Opcode.REDUCE,)),
        LateTemplate("library.updates", "plan_update", (Opcode.SCATTER,)),
    ),
    Opcode.RAGGED_ALL_TO_ALL: (
        LateTemplate("library.collective", "plan_collective"),
        LateTemplate("library.ragged_all_to_all", "plan_ragged_all_to_all"),
    ),
    Opcode.REDUCE: (LateTemplate("reduction.template", "plan_reduction"),),
    Opcode.REDUCE_WINDOW: (LateTemplate("convolution.reduce_window", "plan_reduce_window"),),
    Opcode.RNG_BIT_GENERATOR: (LateTemplate("library.random_bits", "plan_random_bits"),),
    Opcode.RNG_GET_AND_UPDATE_STATE: (LateTemplate("library.host_call", "plan_host_call"),),
    Opcode.SCAN: (LateTemplate("reduction.scan", "plan_scan"),),
    Opcode.SCATTER: (
        LateTemplate("library.updates", "plan_moving_scatter"),
        LateTemplate("library.scatter", "plan_scatter"),
    ),
    Opcode.SELECT_AND_SCATTER: (
        LateTemplate("convolution.select_and_scatter", "plan_select_and_scatter"),
    ),
    Opcode.SORT: (LateTemplate("library.sort", "plan_sort"),),
    Opcode.TOPK: (LateTemplate("library.topk", "plan_topk"),),
    Opcode.TRIANGULAR_SOLVE: (LateTemplate("library.triangular_solve", "plan_triangular_solve"),),
}
"""By opcode the templates that are tried before the general one, in turn."""
