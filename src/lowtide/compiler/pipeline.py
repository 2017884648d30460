"""The pipeline: from a module to its schedule, its buffers, and the report on its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from lowtide.analysis.live_range import LiveRanges
from lowtide.buffers.assignment import assign_buffers
from lowtide.buffers.copy_insertion import CopyInsertion
from lowtide.buffers.packing import PackedBuffers
from lowtide.compiler import proposals
from lowtide.compiler.options import DEFAULT_PLAN, PlanOptions
from lowtide.compiler.ordering import order
from lowtide.compiler.placing import place
from lowtide.compiler.proposals import Look, look_away
from lowtide.compiler.stages import check_stage, pipeline
from lowtide.compiler.state import LateReport, OptimizedModule, PlacedModule, StageClock
from lowtide.files.object_cache import ObjectCache
from lowtide.ir import Module
from lowtide.ir.buffer import BufferAssignment
from lowtide.ir.clone import clone_module
from lowtide.ir.garbage_collection import without_collection
from lowtide.options import cache_folder, is_cache_off
from lowtide.passes import Observer
from lowtide.records import dataclass
from lowtide.scheduling.module_bound import Bounds
from lowtide.search.kernels.objects import keep_objects
from lowtide.transforms.layout.handed_on import obey_layouts

if TYPE_CHECKING:
    from lowtide.least_memory import LeastMemory
    from lowtide.report.memory import MemoryReport


@dataclass(frozen=True, slots=True)
class ModulePlan:
    """A scheduled copy of a module, where its values lie, and the report on that.

    The copy has the copies of values that the module needs, `copies`, with reasons. `ranges` are
    the live ranges that were packed, `packed` is the packing, and `bounds` are what every order of
    each computation needs.
    """

    module: Module
    copies: CopyInsertion
    assignment: BufferAssignment
    late_report: LateReport
    ranges: LiveRanges
    packed: PackedBuffers
    bounds: Bounds

    @property
    def report(self) -> MemoryReport:
        """What is known of the memory, worked out when it is first asked for."""
        return self.late_report.made

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall seconds by stage, as far as there are some."""
        return self.late_report.seconds

    def with_report(self, report: MemoryReport) -> ModulePlan:
        """Return the same plan with another report."""
        return replace(self, late_report=LateReport(lambda: report, report.seconds))

    def __repr__(self) -> str:
        return repr(self.report).replace("<MemoryReport", "<ModulePlan", 1)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@without_collection()
def plan(
    module: Module,
    options: PlanOptions = DEFAULT_PLAN,
    *,
    with_compilation_bound: bool = False,
    late: bool = False,
) -> ModulePlan:
    """Return where every value of a module, which is not changed, lies once it is optimized.

    A module that is scheduled is taken as it is. Copies that execution needs are inserted. The
    report may be `late`, made when it is read, if nobody changes the module of the plan. Raises
    LowtideError for an unknown stage, for a strategy that is not known or does not take what the
    module has, and for a program that runs one computation from so many places that it cannot be
    written out.
    """
    options = options.begun()
    if with_compilation_bound:
        optimized, least = _with_bound(module, options)
    else:
        optimized, least = _optimized_copy(module, options), None
    with options.deadline.held():
        placed = _placed(optimized)
        with optimized.clock.stage("assignment"):
            assignment = assign_buffers(placed.ranges, placed.packed, placed.host)
        found = _report_of(placed, least, late=late)
    return _plan_of(placed, assignment, found)


@without_collection()
def explain(module: Module, options: PlanOptions = DEFAULT_PLAN) -> MemoryReport:
    """Return the memory report of a module, which is not changed; raises as `plan` does."""
    options = options.begun()
    optimized, least = _with_bound(module, options)
    with options.deadline.held():
        return _report_of(_placed(optimized), least).made


@without_collection()
def scheduled(module: Module, options: PlanOptions = DEFAULT_PLAN) -> Module:
    """Return a copy of a module, optimized, with the copies of values that its order needs.

    A module that is scheduled is taken as it is, but for copies. Raises as `plan` does.
    """
    return order(_optimized_copy(module, options.begun())).module


def optimize(
    module: Module,
    options: PlanOptions = DEFAULT_PLAN,
    observers: Sequence[Observer] = (),
    look: Look = look_away,
) -> int:
    """Take a module, which is changed, to the stage of the options; return the number of changes.

    What would lower the peak is sought until the deadline. `look` sees the module that fusion is
    given. A schedule that the module has is dropped where passes run; after fusion its instructions
    are others. Raises LowtideError for an unknown stage.
    """
    if pipeline(options.stage, target=options.target):
        module.schedule = None
    return proposals.optimize(module, options, observers, look)


# -- stages --------------------------------------------------------------------------------------


def _optimized_copy(
    module: Module, options: PlanOptions, look: Look = look_away
) -> OptimizedModule:
    check_stage(options.stage)
    keep_solvers()
    clock = StageClock()
    was_scheduled = module.is_scheduled
    module = clone_module(module)
    with clock.stage("passes"):
        obey_layouts(module)
        if not was_scheduled:
            optimize(module, options, look=look)
    return OptimizedModule(module, options, was_scheduled, clock)


def _with_bound(module: Module, options: PlanOptions) -> tuple[OptimizedModule, LeastMemory | None]:
    """An optimized copy, and the bound on every compilation, whose time is told by itself."""
    from lowtide.compiler.compilation_bound import CompilationBound  # Only reports ask for it.

    bound = CompilationBound()
    optimized = _optimized_copy(module, options, bound.look)
    seconds = optimized.clock.seconds
    seconds["passes"] -= bound.seconds
    seconds["compilation bound"] = bound.seconds
    return optimized, bound.found


def _placed(optimized: OptimizedModule) -> PlacedModule:
    return place(order(optimized))


def _plan_of(placed: PlacedModule, assignment: BufferAssignment, found: LateReport) -> ModulePlan:
    ordered = placed.ordered
    return ModulePlan(
        ordered.module,
        ordered.copies,
        assignment,
        found,
        placed.ranges,
        placed.packed,
        placed.bounds,
    )


def _report_of(
    placed: PlacedModule, least: LeastMemory | None = None, *, late: bool = False
) -> LateReport:
    """Return the report of a placed module, which is made at once unless it may be `late`.

    Where it is late, nobody changes the module. A plan that a deadline ends is reported on within
    that deadline, and a large module at once: what its report is made of takes more than the plan.
    """
    ordered = placed.ordered
    deadline = ordered.options.deadline
    is_large = ordered.module.instruction_count > _MOST_KEPT
    if late and not (is_large or deadline.is_timed or deadline.passed):
        return LateReport(lambda: _made(_without_deadline(placed), least), ordered.clock.seconds)
    found = _made(placed, least)
    return LateReport(lambda: found, ordered.clock.seconds, is_made=True)


def _made(placed: PlacedModule, least: LeastMemory | None) -> MemoryReport:
    from lowtide.compiler.reporting import report  # Programs whose report nobody reads do without.

    return report(placed, least)


_MOST_KEPT: Final = 1_000
"""So many instructions are little to keep until somebody asks for the report."""


def _without_deadline(placed: PlacedModule) -> PlacedModule:
    """The same with options whose deadline, which had not passed, does not pass later either."""
    ordered = placed.ordered
    options = ordered.options
    options = replace(options, search=replace(options.search, deadline=None))
    optimized = replace(ordered.optimized, options=options)
    return replace(placed, ordered=replace(ordered, optimized=optimized))


@cache
def keep_solvers() -> None:
    """Keep the machine code of the solvers for later processes; what searches calls it first."""
    keep_objects(ObjectCache(None if is_cache_off() else cache_folder() / "solvers"))
