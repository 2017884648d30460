"""Kernels whose pieces of work are those of a processor's: each thread runs some of them alone.

What has no template of its own runs so. The pieces are as they are written for any processor, in
order within a thread; results are those of the CPU. It is right and slow.
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.cpu.library.random_bits import plan_random_bits
from lowtide.codegen.cpu.select import kernel_plan
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.threads import thread_number
from lowtide.codegen.kernel import KernelPlan
from lowtide.ir import Instruction, Opcode
from lowtide.ir.errors import unsupported
from lowtide.ir.thunk import GridLaunch, Phase
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

_MOST_OF_BLOCK: Final = 32
"""Threads of a block, at most."""

_SPREAD: Final = 1 << 9
"""Blocks that keep all multiprocessors busy: of fewer threads than these each has its own."""

_MOST_THREADS: Final = 1 << 16
_MOST_WITH_SCRATCH: Final = 128
"""Threads that run at once, at most; and those that have scratch of their own."""


def plan_units(instruction: Instruction, target: Target) -> GpuPlan:
    """Return how an instruction runs piece by piece.

    Raises UnsupportedOpError where a function outside of the program runs it.
    """
    plan = kernel_plan(instruction, target)
    if plan.call is not None:
        reason = f"a kernel cannot call {plan.call.target!r}, a function of the host"
        raise unsupported(instruction, f"{reason}; the CPU runs it (lowtide run)")
    return units_of(instruction, plan, "units")


def plan_gpu_random_bits(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how an rng-bit-generator runs: a thread makes the bits of a vector of counters."""
    if instruction.opcode is not Opcode.RNG_BIT_GENERATOR:
        return None
    plan = plan_random_bits(instruction, target, target.vector_bytes // 4)
    return None if plan is None else units_of(instruction, plan, "random bits")


def units_of(instruction: Instruction, plan: KernelPlan, template: str) -> GpuPlan:
    """Return how pieces of work run that have been planned for a processor."""
    scratch = plan.shared_bytes + plan.thread_bytes * _MOST_WITH_SCRATCH
    return GpuPlan(template, lambda: _code(instruction, plan), scratch)


def _code(instruction: Instruction, plan: KernelPlan) -> GpuCode:
    code = plan.emit()
    defined = {x.name: x for x in code.functions}
    for function in code.functions:
        function.linkage = "internal"
    wrappers, launches = [], []
    most = _MOST_WITH_SCRATCH if plan.thread_bytes else _MOST_THREADS
    for number, phase in enumerate(code.phases):
        threads = min(phase.units, most)
        each = max(1, min(threads // _SPREAD, _MOST_OF_BLOCK))
        name = f"units{number}"
        wrappers.append(_wrapper(instruction, name, defined[phase.function], phase, threads, each))
        launches.append(GridLaunch(name, -(-threads // each), each))
    return GpuCode((*code.functions, *wrappers), tuple(launches), code.globals)


def _wrapper(
    instruction: Instruction, name: str, function: Function, phase: Phase, threads: int, each: int
) -> Function:
    """The kernel in which thread i runs pieces i, i + `threads`, ...; `each` threads a block."""
    fn = kernel_function(name, instruction, each)
    names = buffer_names(instruction)
    buffers = fn.stack("ptr", max(len(names), 1), 8)
    for number, pointer in enumerate(names):
        fn.store("ptr", pointer, fn.gep(buffers, number, "ptr"), 8)
    thread = thread_number(fn, each)
    with fn.when(fn.compare("slt", thread, threads)), fn.loop(thread, phase.units, threads) as unit:
        end = fn.add(unit.index, 1)
        fn.call(function, [buffers, "%scratch", unit.index, end, thread])
    return fn
