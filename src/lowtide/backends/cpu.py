"""From a module to a native program: optimized, planned with scratch, kernels compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from lowtide import compiler
from lowtide.budgeting.errors import OverMemoryError, refusal
from lowtide.budgeting.planner import BudgetPlanner, Settings
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
from lowtide.options import DEFAULT_MEMORY_PRIORITY, DEFAULT_STAGE
from lowtide.runtime.cpu.program import Bytes, NativeProgram, interface_of
from lowtide.search.effort import SearchOptions
from lowtide.transforms.layout.plain_memory import to_plain_memory
from lowtide.tuning.tuner import Tuner

_CONTROL = frozenset({Opcode.CALL, Opcode.WHILE, Opcode.CONDITIONAL, Opcode.ASYNC_START})


@dataclass(frozen=True, slots=True)
class Compiled:
    """A native program, the plan that it runs in, and what keeping to a budget came to, if any.

    `base` is the module that the bound on its extra time is about, where there is such a bound;
    `budget_seconds` is how long keeping to the budget took, in wall seconds.
    """

    program: NativeProgram
    plan: compiler.Plan
    budget: Mapping[str, Any] | None = None
    base: Module | None = None
    budget_seconds: float = 0.0


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
    memory_priority: float = DEFAULT_MEMORY_PRIORITY,
) -> Compiled:
    """Return the native program of a module, which is not changed.

    The arena takes at most `memory` bytes, for which some instructions run again if need be; None
    is any number of them. Kernels may take longer by the part `memory_priority` of their time where
    the peak is lower then. The deadline of `search` is one for all its plans. A `tuner` chooses how
    kernels run, within that memory. Raises UnsupportedOpError for an operation without native code,
    OverMemoryError where no plan is known to fit the memory, and what `compiler.plan` raises.
    """
    target = target or host_target()
    kernels = Kernels(target, threads)
    module = _prepared(module, kernels)
    search = replace(search, deadline=search.begun())
    make_plan = partial(compiler.plan, search=search, memory_priority=memory_priority)
    kernels, plan = _planned(module, stage, make_plan, kernels, tuner, memory)
    budget, base, start = None, None, perf_counter()
    if memory is not None:
        planner = _planner(module, stage, search, make_plan, kernels, plan)
        plan, budget, base = _within(planner, memory)
    searched = 0.0 if memory is None else perf_counter() - start
    return Compiled(program_of(plan, kernels, cached, progress), plan, budget, base, searched)


def budget_planner(
    module: Module,
    stage: str = DEFAULT_STAGE,
    *,
    threads: int,
    target: Target | None = None,
    search: SearchOptions = DEFAULT_SEARCH,
) -> tuple[BudgetPlanner, Kernels]:
    """Return the plans of a module for many budgets, with the scratch of kernels, and these.

    `program_of` makes a program of any of the plans.
    """
    kernels = Kernels(target or host_target(), threads)
    module = _prepared(module, kernels)
    search = replace(search, deadline=search.begun())
    make_plan = partial(compiler.plan, search=search)
    kernels, plan = _planned(module, stage, make_plan, kernels, None, None)
    return _planner(module, stage, search, make_plan, kernels, plan), kernels


def program_of(
    plan: compiler.Plan,
    kernels: Kernels,
    cached: ObjectCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> NativeProgram:
    """Return the native program of a plan whose scratch is that of some kernels."""
    assert plan.module.schedule is not None
    sequences = plan.module.schedule.sequences
    target = kernels.target
    thunks = thunks_of(plan.assignment, sequences, kernels.number)
    written = kernels.write()
    objects = compile_modules(written.texts, target, cached or ObjectCache(None), 0, progress)
    return NativeProgram(
        plan.module.name,
        target,
        kernels.threads,
        thunks,
        written.entries,
        tuple(dict.fromkeys(objects)),
        interface_of(plan.module, plan.assignment),
        _constants(plan),
    )


def _planned(
    module: Module,
    stage: str,
    make_plan: Callable[..., compiler.Plan],
    kernels: Kernels,
    tuner: Tuner | None,
    memory: int | None,
) -> tuple[Kernels, compiler.Plan]:
    """The plan with the scratch of kernels, and these; in the ways that take least time if tuned.

    Where the arena would then exceed `memory`, ways that need no more scratch than the first ones
    are tried, and these last.
    """
    if tuner is not None:
        for lean in (False, True):
            chosen = Kernels(kernels.target, kernels.threads)
            tuned = _TunedScratch(chosen, tuner, lean=lean)
            plan = make_plan(module, stage, scratch_bytes=tuned)
            if memory is None or plan.report.ladder.arena_bytes <= memory:
                return chosen, plan
    scratch_bytes = partial(_scratch_bytes, kernels)
    return kernels, make_plan(module, stage, scratch_bytes=scratch_bytes)


def _planner(
    module: Module,
    stage: str,
    search: SearchOptions,
    make_plan: Callable[..., compiler.Plan],
    kernels: Kernels,
    plain: compiler.Plan,
) -> BudgetPlanner:
    scratch_bytes = partial(_scratch_bytes, kernels)

    with_scratch = partial(make_plan, scratch_bytes=scratch_bytes)
    settings = Settings(with_scratch, stage, scratch_bytes, search.effort)
    return BudgetPlanner(module, plain, settings, search.begun())


def _within(
    planner: BudgetPlanner, memory: int
) -> tuple[compiler.Plan, Mapping[str, Any], Module | None]:
    """The cheapest plan within a budget, the plain one where it fits; and the report's `budget`.

    Then the module that the bound on the plan's extra time is about, if there is one. Raises
    OverMemoryError where no plan is known to fit.
    """
    fit = planner.within(memory)
    if fit.point is None:
        raise OverMemoryError(refusal(planner.own.plain.plan.report, fit))
    is_bounded = fit.bound is not None and not fit.point.variant
    base = planner.own.plain.plan.module if is_bounded else None
    return planner.with_remarks(fit.point.plan), fit.document(), base


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
