"""From a module to a program of a target: optimized, planned with scratch, within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from lowtide.backends.interface import Backend, KernelSet, ProgramT, Progress, Tell
from lowtide.budgeting.errors import OverMemoryError, refusal
from lowtide.compiler import DEFAULT_PLAN, ModulePlan, PlanOptions, plan
from lowtide.fusion.conflicts import (
    overwrites_what_it_reads,
    write_out_fusions,
    write_out_nested_fusions,
)
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Instruction, Module
from lowtide.ir.attributes import Constant
from lowtide.ir.buffer import AllocationKind
from lowtide.ir.clone import clone_module
from lowtide.ir.partitioning import check_partitioned
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import Bytes
from lowtide.transforms.layout.handed_on import obey_layouts
from lowtide.transforms.layout.plain_memory import to_plain_memory

if TYPE_CHECKING:
    from lowtide.budgeting.planner import BudgetPlanner
    from lowtide.ir.sizes import Budget


@dataclass(frozen=True, slots=True)
class Build(Generic[ProgramT]):
    """A program, the plan that it runs in, and what keeping to a budget came to, if any.

    `base` is the module that the bound on its extra time is about, where there is such a bound;
    `budget_seconds` is how long keeping to the budget took, in wall seconds.
    """

    program: ProgramT
    plan: ModulePlan
    budget: Mapping[str, Any] | None = None
    base: Module | None = None
    budget_seconds: float = 0.0


def build(
    module: Module,
    backend: Backend[ProgramT],
    options: PlanOptions = DEFAULT_PLAN,
    memory: Budget | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Build[ProgramT]:
    """Return the program of a module, which is not changed.

    The arena takes at most `memory`, for which some instructions run again if need be; None is any
    number of bytes. `options.target` is the record of the backend, whatever it was. The
    deadline of the options is one for all plans. `tell` gets the plans that are tried and found for
    a limited memory. Raises UnsupportedOpError for an operation that
    the target does not have, OverMemoryError where no plan is known to fit the memory, and what
    `compiler.plan` raises.
    """
    kernels = backend.kernels()
    module = _prepared(module, kernels)
    options = replace(options.begun(), target=_record(backend))
    kernels, made, within = _planned(module, options, kernels, backend, memory)
    if within is None:
        return Build(kernels.program(made, progress), made)
    from lowtide.budgeting.planner import BudgetPlanner  # Programs without a budget load nothing.

    start = perf_counter()
    with_scratch = replace(options, scratch_bytes=kernels.scratch_bytes)
    made, budget, base = _within(BudgetPlanner(module, made, with_scratch, progress=tell), within)
    searched = perf_counter() - start
    return Build(kernels.program(made, progress), made, budget, base, searched)


def budget_planner(
    module: Module, backend: Backend[ProgramT], options: PlanOptions = DEFAULT_PLAN
) -> tuple[BudgetPlanner, KernelSet[ProgramT]]:
    """Return the plans of a module for many budgets, with the scratch of kernels, and these.

    The kernels make a program of any of the plans.
    """
    from lowtide.budgeting.planner import BudgetPlanner

    kernels = backend.kernels()
    module = _prepared(module, kernels)
    options = options_of(backend, kernels, options.begun())
    return BudgetPlanner(module, plan(module, options), options), kernels


def options_of(
    backend: Backend[ProgramT], kernels: KernelSet[ProgramT], options: PlanOptions = DEFAULT_PLAN
) -> PlanOptions:
    """Return the options by which a program of a target is planned, with the scratch of kernels."""
    return replace(options, scratch_bytes=kernels.scratch_bytes, target=_record(backend))


def _record(backend: Backend[ProgramT]) -> TargetRecord:
    """The record by which programs are planned: none of them stores values with the host by itself.

    Streams carry no such copies. Where a module has them itself, they are made as copies.
    """
    return replace(backend.record, host_link=None)


def _planned(
    module: Module,
    options: PlanOptions,
    kernels: KernelSet[ProgramT],
    backend: Backend[ProgramT],
    memory: Budget | None,
) -> tuple[KernelSet[ProgramT], ModulePlan, int | None]:
    """The plan with the scratch of kernels, and these: measured ones where they fit the memory.

    Then the memory in bytes; a share is one of the plan with kernels that were not measured.
    """
    usual, within = None, memory
    own = replace(options, scratch_bytes=kernels.scratch_bytes)
    if within is not None and not isinstance(within, int):
        usual = plan(module, own)
        within = within.of(usual.report.ladder.arena_bytes)
    for tuned in backend.tuned_kernels():
        made = plan(module, replace(options, scratch_bytes=tuned.scratch_bytes))
        if within is None or made.report.ladder.arena_bytes <= within:
            return tuned, made, within
    return kernels, usual or plan(module, own, late=within is None), within


def _within(
    planner: BudgetPlanner, memory: int
) -> tuple[ModulePlan, Mapping[str, Any], Module | None]:
    """The cheapest plan within a budget, the plain one where it fits; and the report's `budget`.

    Then the module that the bound on the plan's extra time is about, if there is one. Raises
    OverMemoryError where no plan is known to fit.
    """
    fit = planner.within(memory)
    if fit.point is None:
        raise OverMemoryError(refusal(planner.own.plain.plan.report, fit))
    is_bounded = fit.bound is not None and fit.point.only_runs_again
    base = planner.own.plain.plan.module if is_bounded else None
    return planner.with_remarks(fit.point.plan), fit.document(), base


def _prepared(module: Module, kernels: KernelSet[ProgramT]) -> Module:
    """A copy of a module that says the same in a form that kernels can run."""
    check_partitioned(module)
    module = clone_module(module)
    to_plain_memory(module)
    if module.is_scheduled:  # Other modules lose them to the passes.
        from lowtide.transforms.control_flow.unread_loops import remove_unread_loops

        remove_unread_loops(module)
    obey_layouts(module)
    write_out_nested_fusions(module)

    def is_no_kernel(fusion: Instruction) -> bool:
        if any(x.shape.is_tuple for x in fusion.operands) or overwrites_what_it_reads(fusion):
            return True
        return not kernels.has_kernel(fusion)

    write_out_fusions(module, is_no_kernel)
    return module


def constant_bytes(plan: ModulePlan) -> tuple[tuple[int, Bytes], ...]:
    """Return of each allocation that is a constant its index and its bytes."""
    found = [
        (x.index, _bytes(x.constant))
        for x in plan.assignment.allocations
        if x.kind is AllocationKind.CONSTANT and x.constant is not None
    ]
    return tuple(found)


def _bytes(instruction: Instruction) -> Bytes:
    """The bytes of a constant as they lie in memory."""
    array = instruction.attributes_as(Constant).literal.array
    order = instruction.shape.physical_order
    return np.ascontiguousarray(array.transpose(order)).reshape(-1).view(np.uint8)
