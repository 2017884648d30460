"""Options that decide about the plan of a module."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.analysis.scratch import ScratchBytes
from lowtide.buffers.packing import DEFAULT_SEARCH
from lowtide.fusion.target_record import CPU_TARGET, GPU_TARGET, TargetRecord
from lowtide.ir.gpu_names import is_gpu_target
from lowtide.options import DEFAULT_MEMORY_PRIORITY, DEFAULT_STAGE, Options
from lowtide.records import dataclass
from lowtide.search.deadline import Deadline
from lowtide.search.effort import SearchOptions, effort_named

DEFAULT_PACKING: Final = "portfolio"
"""The strategy that packs buffers where none is named."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of the way from a module to its plan.

    `stage` says how far it is optimized, unless it is scheduled. `packing` is the strategy that
    gives out offsets. `search` limits that, and its effort and its deadline every other search:
    once the deadline has passed, all that is left to do is what a plan cannot do without. Kernels
    may take longer by the part `memory_priority` of their time where the peak is lower then. What
    instructions need while they run is in the plan where `scratch_bytes` tells how much that is.
    `target` tells what fusion can make, what time is worth, and how buffers are aligned. Without
    `proves`, what no order beats is known by single steps alone: for who reads no bound, and has an
    order.
    """

    stage: str = DEFAULT_STAGE
    packing: str = DEFAULT_PACKING
    search: SearchOptions = DEFAULT_SEARCH
    memory_priority: float = DEFAULT_MEMORY_PRIORITY
    scratch_bytes: ScratchBytes | None = None
    target: TargetRecord = CPU_TARGET
    proves: bool = True

    @classmethod
    def of(cls, options: Options) -> PlanOptions:
        """Return what the options of a caller say; raises ValueError for an unknown effort."""
        search = SearchOptions(effort_named(options.effort), options.search_seconds)
        target = GPU_TARGET if is_gpu_target(options.target) else CPU_TARGET
        priority = options.memory_priority
        return cls(options.stage, search=search, target=target, memory_priority=priority)

    def begun(self) -> PlanOptions:
        """Return the options with the deadline running."""
        return replace(self, search=replace(self.search, deadline=self.search.begun()))

    def at_stage(self, stage: str) -> PlanOptions:
        """Return the same options for another stage."""
        return replace(self, stage=stage)

    @property
    def deadline(self) -> Deadline:
        """The deadline that runs, or one that begins now."""
        return self.search.begun()


DEFAULT_PLAN: Final = PlanOptions()
"""The options of a plan where none are given."""
