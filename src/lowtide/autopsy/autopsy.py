"""Taking apart the plan of another compiler: what it costs, why, and what would lower it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final

from lowtide import compiler
from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.donation import aliases, possible_donations
from lowtide.analysis.flat_schedule import FlatSchedule
from lowtide.analysis.live_range import live_ranges
from lowtide.autopsy.compilers import Compiler, RebuiltCompiler, jax_is_installed
from lowtide.autopsy.loop_states import loop_states
from lowtide.autopsy.plan_picture import picture_of_plan
from lowtide.autopsy.plan_profile import PlanProfile, plan_profile
from lowtide.autopsy.remedies import Planned, donation_remedies, option_remedies
from lowtide.autopsy.repeatable import repeatable_bytes
from lowtide.autopsy.report import Alternatives, Autopsy, PlanReport, Remedy, causes_of
from lowtide.checking import ViolationKind, check_plan
from lowtide.compiler.picture import picture_of
from lowtide.ir import Instruction, LowtideError, Module, Opcode, Schedule
from lowtide.ir.buffer import AllocationKind, BufferAssignment
from lowtide.ir.clone import clone_module
from lowtide.records import dataclass
from lowtide.report.memory import Ladder, MemoryReport, donation_savings
from lowtide.report.peak_making import HeldValue, peak_of
from lowtide.report.plan_page import PlanPicture


@dataclass(frozen=True, slots=True)
class ExaminedPlan:
    """A plan taken apart, with what it takes to draw it beside the best one that is known."""

    report: PlanReport
    assignment: BufferAssignment
    flat: FlatSchedule
    best: compiler.ModulePlan

    def pictures(self) -> list[PlanPicture]:
        """Return the pictures of the plan, and of lowtide's plan of the same instructions."""
        memory = self.report.memory
        given = picture_of_plan(self.flat, self.assignment, memory, f"{memory.module}, the plan")
        best = picture_of(self.best)
        return [given, replace(best, label=f"{memory.module}, planned by lowtide")]


def explain_plan(
    module: Module,
    assignment: BufferAssignment,
    *,
    made_by_xla_cpu: bool = True,
    compile_with: Compiler | None = None,
    compile_again: bool = True,
) -> PlanReport:
    """Return the report of `examine_plan`."""
    return examine_plan(
        module,
        assignment,
        made_by_xla_cpu=made_by_xla_cpu,
        compile_with=compile_with,
        compile_again=compile_again,
    ).report


def examine_plan(
    module: Module,
    assignment: BufferAssignment,
    *,
    made_by_xla_cpu: bool = True,
    compile_with: Compiler | None = None,
    compile_again: bool = True,
) -> ExaminedPlan:
    """Return the report on a plan of a scheduled module, which is not changed.

    Options of XLA:CPU are remedies only for plans `made_by_xla_cpu`. With `compile_again`, and
    where jax is installed, what would lower such a plan is compiled to see what it does:
    `compile_with` compiles the program, by default one rebuilt from the module.
    Raises LowtideError for a module without an order, and where copies are missing.
    """
    memory, same, flat = _reports(module, assignment)
    unordered = clone_module(module)
    unordered.schedule = None
    bare = compiler.plan(without_copies(unordered), compiler.PlanOptions("input"))
    best = compiler.plan(unordered, compiler.PlanOptions("input"))
    if best.report.ladder.arena_bytes > same.report.ladder.arena_bytes:
        best = same
    alternatives = _alternatives(memory, same.report, best.report, bare.report)
    if not (made_by_xla_cpu and compile_again and jax_is_installed()):
        compile_with = None
    elif compile_with is None:
        compile_with = RebuiltCompiler(module)
    planned = Planned(
        memory.ladder.arena_bytes, memory.output_bytes, best.report.ladder.arena_bytes
    )
    with_options = made_by_xla_cpu and alternatives.bound < alternatives.plan
    autopsy = Autopsy(
        alternatives,
        same.report.ladder.arena_bytes,
        best.report.ladder.arena_bytes,
        causes_of(alternatives, repeatable_bytes(best.module, best.report.peak)),
        tuple(_remedies(module, planned, compile_with, with_options=with_options)),
        loop_states(module, bare),
    )
    return ExaminedPlan(PlanReport(memory, autopsy), assignment, flat, best)


def report_on_plan(module: Module, assignment: BufferAssignment) -> MemoryReport:
    """Return the figures of a plan of a scheduled module by themselves; raises as `explain_plan`.

    Nothing is compared with other plans than ours in the same order.
    """
    return _reports(module, assignment)[0]


def drawn_plan(
    module: Module, assignment: BufferAssignment, label: str
) -> tuple[MemoryReport, PlanPicture]:
    """Return the figures of a plan as `report_on_plan` does, and its picture."""
    memory, _, flat = _reports(module, assignment)
    return memory, picture_of_plan(flat, assignment, memory, label)


def _reports(
    module: Module, assignment: BufferAssignment
) -> tuple[MemoryReport, compiler.ModulePlan, FlatSchedule]:
    """The figures of a plan, our own plan in the same order, and that order."""
    if module.schedule is None:
        raise LowtideError(
            f"{module.name} has no schedule, so that a plan of it cannot be followed; give the "
            "scheduled module, or none where the plan holds it"
        )
    _check_places(module, assignment)
    start = perf_counter()
    flows, pairs = dataflow(module.entry), aliases(module)
    sequences = module.schedule.sequences
    flat = live_ranges(module.entry, sequences, flows, pairs, owns_results=True).flat
    profile = plan_profile(flat, assignment)
    same = compiler.plan(module, compiler.PlanOptions("input"))
    seconds = perf_counter() - start
    memory = plan_memory(module, assignment, profile, flat, same.report, seconds)
    return memory, same, flat


def _check_places(module: Module, assignment: BufferAssignment) -> None:
    """Raise LowtideError where one place is wanted for values that the plan keeps in several.

    Such a module lacks copies, without which there are no live ranges to speak of.
    """
    for violation in check_plan(module, assignment):
        if violation.kind is ViolationKind.COLOCATION:
            raise LowtideError(
                f"the plan is wrong, so that its figures say nothing: {violation}; "
                "`lowtide verify` lists all that is wrong"
            )


# -- the figures of the plan -------------------------------------------------------------------


def plan_memory(
    module: Module,
    assignment: BufferAssignment,
    profile: PlanProfile,
    flat: FlatSchedule,
    same: MemoryReport,
    seconds: float,
) -> MemoryReport:
    """Return the figures of a plan of a scheduled module.

    Loops and caveats are those of `same`, our own plan in the same order.
    """
    outputs = sum([shape.nbytes for _, shape in module.entry.root.shape.leaves()])
    arena = assignment.temp_bytes + outputs - profile.alias_bytes
    live = min(profile.live_bytes, arena)
    held = [HeldValue(x.value, x.nbytes, x.kind) for x in profile.held]
    pairs = aliases(module)
    return MemoryReport(
        module=module.name,
        instructions=module.instruction_count,
        steps=flat.length,
        argument_bytes=_argument_bytes(module, assignment),
        output_bytes=outputs,
        alias_bytes=profile.alias_bytes,
        constant_bytes=assignment.constant_bytes,
        temp_bytes=assignment.temp_bytes,
        scratch_bytes=0,
        least_arena_bytes=min(same.least_arena_bytes, arena),
        ladder=Ladder(min(same.ladder.bound_bytes, live), live, arena),
        peak=peak_of(flat, profile.position, held),
        computations=same.computations,
        donations=donation_savings(possible_donations(module, pairs)),
        seconds={"autopsy": seconds},
        caveats=(*_caveats(assignment, profile), *same.caveats),
    )


def _argument_bytes(module: Module, assignment: BufferAssignment) -> int:
    """The size of the arguments, without tables of addresses."""
    parameters = module.entry.parameters
    total = 0
    for x in assignment.allocations:
        if x.kind is AllocationKind.ARGUMENT and x.parameter is not None:
            number, index = x.parameter
            shape = parameters[number].shape.at(index)
            total += 0 if shape.is_tuple else x.nbytes
    return total


def _caveats(assignment: BufferAssignment, profile: PlanProfile) -> list[str]:
    found = [
        "the figures are those of the plan; tables of addresses count in temp_bytes as planned, "
        "and not in outputs and arguments"
    ]
    private = [x.nbytes for x in assignment.allocations if x.kind is AllocationKind.THREAD_LOCAL]
    if private:
        found.append(f"{sum(private):,} bytes of reducers and the like, per thread, are left out")
    if profile.unplaced_bytes:
        found.append(f"values of {profile.unplaced_bytes:,} bytes have no place in the plan")
    return found


def _alternatives(
    memory: MemoryReport, same: MemoryReport, best: MemoryReport, bare: MemoryReport
) -> Alternatives:
    """The ladder of alternatives: each is at most what a plan above it shows to suffice."""
    held = memory.ladder.live_bytes
    same_order = min(held, same.ladder.live_bytes)
    other_order = min(same_order, best.ladder.live_bytes)
    without = min(other_order, bare.ladder.live_bytes)
    bound = min(without, bare.ladder.bound_bytes, memory.ladder.bound_bytes)
    return Alternatives(memory.ladder.arena_bytes, held, same_order, other_order, without, bound)


# -- what would lower it -----------------------------------------------------------------------

_SMALL: Final = 100
"""What is less than one part in so many of a plan is not worth a remedy."""


def _remedies(
    module: Module, planned: Planned, compile_with: Compiler | None, *, with_options: bool
) -> Sequence[Remedy]:
    found = option_remedies(planned, compile_with) if with_options else []
    donations = possible_donations(module, aliases(module))
    if sum([x.nbytes for x in donations]) * _SMALL >= planned.arena_bytes > 0:
        again = compile_with is not None
        found += donation_remedies(planned, module, donations, compile_again=again)
    return found


def without_copies(module: Module) -> Module:
    """Return a copy of a module in which readers of a `copy` read its operand.

    Copies that change the layout stay. The order is kept; copies that execution needs are missing.
    """
    module = clone_module(module)
    removed: set[Instruction] = set()
    for computation in module.computations.values():
        for instruction in list(computation.instructions.values()):
            if _is_plain_copy(instruction):
                instruction.replace_all_uses_with(instruction.operands[0])
                computation.remove(instruction)
                removed.add(instruction)
    if module.schedule is not None:
        module.schedule = Schedule(
            {
                computation: tuple([x for x in order if x not in removed])
                for computation, order in module.schedule.sequences.items()
            }
        )
    return module


def _is_plain_copy(instruction: Instruction) -> bool:
    if instruction.opcode is not Opcode.COPY:
        return False
    return instruction.shape is instruction.operands[0].shape
