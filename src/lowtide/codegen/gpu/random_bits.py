"""Random bits: each thread makes those of a vector of counters."""

from __future__ import annotations

from lowtide.codegen.cpu.library.random_bits import plan_random_bits
from lowtide.codegen.gpu.kernel import GpuPlan
from lowtide.codegen.gpu.units import units_of
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.target import Target


def plan_gpu_random_bits(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how an rng-bit-generator runs; bits are those of a processor."""
    if instruction.opcode is not Opcode.RNG_BIT_GENERATOR:
        return None
    plan = plan_random_bits(instruction, target, target.vector_bytes // 4)
    assert plan is not None
    return units_of(instruction, plan, "random bits")
