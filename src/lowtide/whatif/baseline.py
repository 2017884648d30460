"""The program that changes are compared with: its plan, its values, its time by the model."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from lowtide import compiler
from lowtide.analysis.dataflow import ComputationDataflow, dataflow
from lowtide.budgeting.planner import BudgetPlanner
from lowtide.compiler import ModulePlan, PlanOptions
from lowtide.cost.module_times import run_seconds
from lowtide.fitting.batch import BatchFinding, batch_of
from lowtide.ir import Instruction, Module
from lowtide.ir.clone import CloneMap, clone_module
from lowtide.records import dataclass
from lowtide.report.blame import is_backward
from lowtide.report.memory import MemoryReport
from lowtide.search.deadline import Deadline
from lowtide.whatif.entry_function import EntryFunction, entry_function


@dataclass(frozen=True, eq=False)
class Baseline:
    """A module as it was given, and its plan; the deadline of the options runs.

    Changes are made in copies of the planned module, whose kernels stay as they are. `batch_axis`
    is the batch as the user names it, such as "images:0".
    """

    given: Module
    plan: ModulePlan
    options: PlanOptions
    batch_axis: str | None = None

    @property
    def deadline(self) -> Deadline:
        """When the search for plans ends."""
        return self.options.deadline

    @property
    def module(self) -> Module:
        """The planned module, with its schedule."""
        return self.plan.module

    @property
    def report(self) -> MemoryReport:
        """The report on the plan."""
        return self.plan.report

    @property
    def has_given_order(self) -> bool:
        """Whether the order is the caller's, which a change must keep."""
        return self.report.has_given_order

    @cached_property
    def batch(self) -> BatchFinding:
        """The batch of the program, as far as the program tells it."""
        return batch_of(self.given)

    @cached_property
    def flow(self) -> ComputationDataflow:
        """The values of the entry of the planned module."""
        return dataflow(self.module.entry)[self.module.entry]

    @cached_property
    def seconds(self) -> float:
        """The seconds of a run, by the model."""
        return run_seconds(self.module.entry, self.options.target.machine)

    @cached_property
    def position_of(self) -> dict[Instruction, int]:
        """The place of each instruction of the entry in its order."""
        schedule = self.module.schedule
        assert schedule is not None
        return {x: i for i, x in enumerate(schedule.sequences[self.module.entry])}

    @cached_property
    def backward(self) -> frozenset[Instruction]:
        """The instructions of the entry that compute a gradient, as their names tell."""
        entry = self.module.entry.instructions.values()
        return frozenset([x for x in entry if is_backward(x.metadata.op_name)])

    @cached_property
    def late(self) -> frozenset[Instruction]:
        """The instructions of the entry that run late: those that compute a gradient.

        Where no name tells of gradients, they are those behind the step of the peak.
        """
        if self.backward:
            return self.backward
        peak = self.peak_place
        return frozenset([x for x, place in self.position_of.items() if place > peak])

    @property
    def peak_place(self) -> int:
        """The place in the entry of the step at the peak, or of what it runs in."""
        ranges = self.plan.ranges
        if not ranges.flat.length:
            return 0
        position = ranges.peak_position
        found, site = ranges.flat.instructions[position], ranges.flat.site_of[position]
        while found not in self.position_of:
            caller = ranges.flat.sites[site].caller
            assert caller is not None
            found, site = caller, ranges.flat.sites[site].parent
        return self.position_of[found]

    @cached_property
    def budgets(self) -> BudgetPlanner:
        """Plans for budgets, as `memory=` finds them."""
        return BudgetPlanner(self.given, self.plan, self.options)

    @cached_property
    def function(self) -> EntryFunction:
        """The function that the program was made from."""
        return entry_function(self.module)

    def copy(self, mapping: CloneMap | None = None) -> Module:
        """Return a copy of the planned module, whose order is open unless it was given."""
        return self.opened(clone_module(self.module, mapping))

    def as_given(self) -> Module:
        """Return a copy of the module as it was given, to be changed and planned from the start."""
        return clone_module(self.given)

    def opened(self, module: Module) -> Module:
        """Return a changed copy, which is changed, without its order unless that was given."""
        if not self.has_given_order:
            module.schedule = None
        return module

    def planned(self, module: Module) -> ModulePlan:
        """Return the plan of a changed copy of the planned module, with caveats as of that one."""
        plan = compiler.plan(module, self.options.at_stage("input"))
        given = self.has_given_order
        report = replace(plan.report, caveats=self.report.caveats, has_given_order=given)
        return plan.with_report(report)
