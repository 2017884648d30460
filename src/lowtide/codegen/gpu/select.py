"""Choice of the template that makes the kernel of an instruction for a graphics processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.codegen.elements.operands import leaves, members
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.gpu.cholesky import plan_gpu_cholesky
from lowtide.codegen.gpu.collective import plan_gpu_collective
from lowtide.codegen.gpu.double_cores import plan_double_cores
from lowtide.codegen.gpu.ffma import plan_ffma
from lowtide.codegen.gpu.fourier import plan_gpu_fft
from lowtide.codegen.gpu.kernel import GpuPlan
from lowtide.codegen.gpu.points import SUMS, plan_points
from lowtide.codegen.gpu.rows import plan_rows
from lowtide.codegen.gpu.scans import plan_gpu_scan
from lowtide.codegen.gpu.scatters import plan_gpu_scatter
from lowtide.codegen.gpu.select_and_scatter import plan_gpu_select_and_scatter
from lowtide.codegen.gpu.slim import plan_slim
from lowtide.codegen.gpu.sorts import plan_gpu_sort
from lowtide.codegen.gpu.split_sums import plan_split_sums
from lowtide.codegen.gpu.tensor_cores import plan_tensor_cores
from lowtide.codegen.gpu.topk import plan_gpu_topk
from lowtide.codegen.gpu.triangular_solve import plan_gpu_triangular_solve
from lowtide.codegen.gpu.turned import plan_turned
from lowtide.codegen.gpu.units import plan_gpu_random_bits, plan_units
from lowtide.codegen.gpu.warpgroups import plan_warpgroups
from lowtide.ir import Instruction, Opcode
from lowtide.ir.errors import unsupported
from lowtide.llvm.target import Target
from lowtide.ops.in_place import works_in_rows

GpuTemplate = Callable[[Instruction, Target], "GpuPlan | None"]
"""Returns how an instruction will run, None where the template is not for it."""


def gpu_plan(instruction: Instruction, target: Target) -> GpuPlan:
    """Return how an instruction will run; raises UnsupportedOpError where it cannot."""
    if any(x.shape.is_dynamic for x in (instruction, *instruction.operands)):
        reason = "kernels have no dynamic sizes; the evaluator runs it (lowtide run --reference)"
        raise unsupported(instruction, reason)
    collective = plan_gpu_collective(instruction, target, lambda fusion: gpu_plan(fusion, target))
    if collective is not None:
        return collective
    for template in TEMPLATES:
        plan = template(instruction, target)
        if plan is not None:
            return plan
    if works_in_rows(instruction):
        reason = "no kernel reads these rows before it writes over them"
        raise unsupported(instruction, f"{reason}; the CPU runs it (lowtide run)")
    return plan_units(instruction, target)


def is_cheap(fusion: Instruction, target: Target) -> bool:
    """Return whether a kernel computes no sum of a fusion once for each of many elements."""
    if plan_split_sums(fusion, target) or plan_rows(fusion, target):
        return True
    inner = members(fusion)
    largest = max([x.element_count for x in leaves(fusion.shape)], default=0)
    sums = [x for x in inner if x.opcode in SUMS and x is not fusion]
    return all(leaves(x.shape)[0].element_count >= largest for x in sums)


def _points(instruction: Instruction, target: Target) -> GpuPlan | None:
    is_several = instruction.opcode is Opcode.COPY and not instruction.shape.is_array
    if is_several or works_in_rows(instruction):
        return None
    if not all(has_rule(x) for x in members(instruction)):
        return None
    return plan_points(instruction, target)


TEMPLATES: Final[tuple[GpuTemplate, ...]] = (
    plan_gpu_sort,
    plan_gpu_topk,
    plan_gpu_scatter,
    plan_gpu_scan,
    plan_gpu_select_and_scatter,
    plan_gpu_fft,
    plan_gpu_random_bits,
    plan_gpu_cholesky,
    plan_gpu_triangular_solve,
    plan_slim,
    plan_warpgroups,
    plan_tensor_cores,
    plan_double_cores,
    plan_ffma,
    plan_split_sums,
    plan_rows,
    plan_turned,
    _points,
)
"""The templates that are tried in turn, ahead of pieces of work as a processor does them."""
