"""From a module to a native program: optimized, planned with scratch, kernels compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from lowtide import compiler
from lowtide.buffers.assignment import DEFAULT_SEARCH
from lowtide.codegen.kernels import Kernels
from lowtide.codegen.program import NO_CODE, thunks_of
from lowtide.fusion.conflicts import overwrites_what_it_reads, write_out_fusions
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.buffer import AllocationKind
from lowtide.ir.clone import clone_module
from lowtide.llvm.cache import ObjectCache
from lowtide.llvm.objects import compile_modules
from lowtide.llvm.target import Target, host_target
from lowtide.options import DEFAULT_STAGE
from lowtide.planning.search import SearchOptions
from lowtide.runtime.program import Bytes, NativeProgram, interface_of
from lowtide.transforms.layout.plain_memory import to_plain_memory
from lowtide.tuning.tuner import Tuner

_CONTROL = frozenset({Opcode.CALL, Opcode.WHILE, Opcode.CONDITIONAL, Opcode.ASYNC_START})


@dataclass(frozen=True, slots=True)
class Compiled:
    """A native program, and the plan that it runs in."""

    program: NativeProgram
    plan: compiler.Plan


def compile_module(
    module: Module,
    stage: str = DEFAULT_STAGE,
    *,
    threads: int,
    target: Target | None = None,
    cached: ObjectCache | None = None,
    search: SearchOptions = DEFAULT_SEARCH,
    progress: Callable[[int, int], None] | None = None,
    tuner: Tuner | None = None,
    memory: int | None = None,
) -> Compiled:
    """Return the native program of a module, which is not changed.

    A `tuner` chooses how kernels run, but may not raise the arena beyond `memory` bytes; None is
    any number of them. Raises UnsupportedOpError for an operation without native code, and what
    `compiler.plan` raises.
    """
    target = target or host_target()
    kernels = Kernels(target, threads)
    module = _prepared(module, kernels)
    kernels, plan = _planned(module, stage, search, kernels, tuner, memory)
    assert plan.module.schedule is not None
    sequences = plan.module.schedule.sequences
    thunks = thunks_of(plan.assignment, sequences, kernels.number)
    written = kernels.write()
    objects = compile_modules(written.texts, target, cached or ObjectCache(None), 0, progress)
    program = NativeProgram(
        plan.module.name,
        target,
        threads,
        thunks,
        written.entries,
        tuple(dict.fromkeys(objects)),
        interface_of(plan.module, plan.assignment),
        _constants(plan),
    )
    return Compiled(program, plan)


def _planned(
    module: Module,
    stage: str,
    search: SearchOptions,
    kernels: Kernels,
    tuner: Tuner | None,
    memory: int | None,
) -> tuple[Kernels, compiler.Plan]:
    """The plan with the scratch of kernels, and these; in the ways that take least time if tuned.

    Where the arena would then exceed `memory`, ways that need no more scratch than the first ones
    are tried, and these last.
    """
    for lean in (False, True) if tuner is not None else ():
        assert tuner is not None
        chosen = Kernels(kernels.target, kernels.threads)
        tuned = _TunedScratch(chosen, tuner, lean=lean)
        plan = compiler.plan(module, stage, search=search, scratch_bytes=tuned)
        if memory is None or plan.report.ladder.arena_bytes <= memory:
            return chosen, plan
    scratch_bytes = partial(_scratch_bytes, kernels)
    return kernels, compiler.plan(module, stage, search=search, scratch_bytes=scratch_bytes)


class _TunedScratch:
    """The scratch of instructions; kernels are tuned when the first one is asked for.

    That is when the module has been fused and scheduled, and nothing has been packed.
    """

    def __init__(self, kernels: Kernels, tuner: Tuner, *, lean: bool) -> None:
        self._kernels = kernels
        self._tuner: Tuner | None = tuner
        self._lean = lean

    def __call__(self, instruction: Instruction) -> int:
        if self._tuner is not None:
            tuner, self._tuner = self._tuner, None
            tuner.tune(instruction.parent.module, self._kernels, lean=self._lean)
        return _scratch_bytes(self._kernels, instruction)


def _scratch_bytes(kernels: Kernels, instruction: Instruction) -> int:
    if instruction.opcode in NO_CODE or instruction.opcode in _CONTROL:
        return 0
    return kernels.scratch_bytes(instruction)


def _prepared(module: Module, kernels: Kernels) -> Module:
    """A copy of a module that says the same in a form that native code can run."""
    module = clone_module(module)
    to_plain_memory(module)

    def is_no_kernel(fusion: Instruction) -> bool:
        if any(x.shape.is_tuple for x in fusion.operands) or overwrites_what_it_reads(fusion):
            return True
        return not kernels.has_plan(fusion)

    write_out_fusions(module, is_no_kernel)
    return module


def _constants(plan: compiler.Plan) -> tuple[tuple[int, Bytes], ...]:
    """Of each allocation that is a constant its index and its bytes."""
    found = [
        (x.index, _bytes(x.constant))
        for x in plan.assignment.allocations
        if x.kind is AllocationKind.CONSTANT and x.constant is not None
    ]
    return tuple(found)


def _bytes(instruction: Instruction) -> Bytes:
    """The bytes of a constant as they lie in memory."""
    array = instruction.attributes_as(Constant).literal.array
    layout = instruction.shape.layout
    order = layout.minor_to_major[::-1] if layout else range(array.ndim)
    return np.ascontiguousarray(array.transpose(tuple(order))).reshape(-1).view(np.uint8)
