"""Plans by XLA's assigners, of the module as prepared here; also for instructions that overlap."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Final

from lowtide import compiler
from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.donation import aliases
from lowtide.analysis.live_range import live_ranges
from lowtide.autopsy.autopsy import plan_memory
from lowtide.autopsy.plan_profile import plan_profile
from lowtide.buffers.copy_insertion import insert_copies
from lowtide.buffers.packing import DEFAULT_SEARCH
from lowtide.ir import LowtideError, Module, Schedule
from lowtide.ir.buffer import BufferAssignment
from lowtide.ir.clone import clone_module
from lowtide.ir.schedule import PartialOrder
from lowtide.options import DEFAULT_STAGE
from lowtide.records import dataclass
from lowtide.report.memory import MemoryReport
from lowtide.scheduling.module_scheduler import schedule_module
from lowtide.search.effort import SearchOptions
from lowtide.transforms.flatten_call_graph import flatten_call_graph
from lowtide.transforms.optimize_input_output_alias import optimize_input_output_alias
from lowtide.xla.analysis.ordering import PredecessorOrdering, SequentialOrdering
from lowtide.xla.assigners import ASSIGNERS, assign
from lowtide.xla.streams.launch_order import partial_orders

ARENA: Final = "arena"
"""The name of the assigner of `compiler.plan`."""

ORDERS: Final = ("sequential", "launch", "dependency")
"""How much of the order of the entry's instructions is fixed, from all to what they need."""


@dataclass(frozen=True, slots=True)
class AssignedPlan:
    """A scheduled module, where an assigner puts its values, and the report on that.

    `own_arena_bytes` is what our own assigner needs beyond arguments, for the same order; `own` is
    the plan of `compiler.plan`, where it is that.
    """

    assigner: str
    module: Module
    assignment: BufferAssignment
    report: MemoryReport
    own_arena_bytes: int
    own: compiler.ModulePlan | None = None


def plan_with(
    module: Module,
    assigner: str = ARENA,
    packing: str = compiler.DEFAULT_PACKING,
    search: SearchOptions = DEFAULT_SEARCH,
    stage: str = DEFAULT_STAGE,
    base: compiler.PlanOptions = compiler.DEFAULT_PLAN,
) -> AssignedPlan:
    """Return the plan that an assigner makes of a module, which is not changed.

    A module that is not scheduled is taken to a stage first. `packing` is the strategy of our own
    assigner, limited by `search`; XLA's have theirs. `base` are all other options. All assigners
    get the same copies and the same order. Those of XLA get each call as code of its own. Raises
    LowtideError for an unknown assigner, else as `compiler.plan` does.
    """
    if assigner != ARENA and assigner not in ASSIGNERS:
        names = ", ".join([ARENA, *ASSIGNERS])
        raise LowtideError(f"no assigner {assigner!r}; there are: {names}")
    options = replace(base, stage=stage, packing=packing, search=search)
    planned = compiler.plan(module, options)
    own_bytes = planned.report.ladder.arena_bytes
    if assigner == ARENA:
        module, assignment, report = planned.module, planned.assignment, planned.report
        return AssignedPlan(ARENA, module, assignment, report, own_bytes, planned)
    with search.begun().held():
        flat = clone_module(planned.module)
        optimize_input_output_alias(flat)
        flatten_call_graph(flat)
        start = perf_counter()
        assignment = ASSIGNERS[assigner](flat, SequentialOrdering(flat))
        seconds = perf_counter() - start
        report = _report(flat, assignment, planned.report, seconds)
    return AssignedPlan(assigner, flat, assignment, report, own_bytes)


def _report(
    module: Module, assignment: BufferAssignment, ours: MemoryReport, seconds: float
) -> MemoryReport:
    """The figures of a plan, beside our own of the same module in the same order."""
    assert module.schedule is not None
    flows, pairs = dataflow(module.entry), aliases(module)
    sequences = module.schedule.sequences
    flat = live_ranges(module.entry, sequences, flows, pairs, owns_results=True).flat
    profile = plan_profile(flat, assignment)
    report = plan_memory(module, assignment, profile, flat, ours, seconds)
    return replace(report, execution=ours.execution, seconds={"assignment": seconds})


@dataclass(frozen=True, slots=True)
class OverlappingPlan:
    """A plan that holds in every order of the entry's instructions that `order` allows."""

    module: Module
    assignment: BufferAssignment
    order: PartialOrder


def plan_for_order(module: Module, order: str) -> OverlappingPlan:
    """Return a plan of a module, which is not changed, for one of `ORDERS`.

    Computations that the entry calls keep to one order each. Raises LowtideError for an unknown
    name, else as `compiler.plan` does.
    """
    if order not in ORDERS:
        raise LowtideError(f"no order {order!r}; there are: {', '.join(ORDERS)}")
    module = clone_module(module)
    optimize_input_output_alias(module)
    flatten_call_graph(module)
    insert_copies(module)
    module.schedule = schedule_module(module)
    inner = {x: y for x, y in module.schedule.sequences.items() if x is not module.entry}
    chosen = partial_orders(module)[order]
    assignment = assign(module, PredecessorOrdering(module, chosen, schedule=Schedule(inner)))
    return OverlappingPlan(module, assignment, chosen)
