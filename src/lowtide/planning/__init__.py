"""Places for buffers: the packing problem by itself, on plain numbers."""

from lowtide.planning.assign import assign_objects, assign_offsets, place
from lowtide.planning.plans import ObjectsAssignment, OffsetsAssignment, Packing
from lowtide.planning.problem import (
    ARENA,
    FREE,
    PackingProblem,
    TensorUsageRecord,
    max_live,
    packing_problem,
)
from lowtide.planning.registry import (
    ObjectOptions,
    ObjectStrategy,
    OffsetStrategy,
    object_strategies,
    offset_strategies,
    offset_strategy,
)
from lowtide.search.effort import Effort, SearchOptions, StopReason

__all__ = [
    "ARENA",
    "FREE",
    "Effort",
    "ObjectOptions",
    "ObjectStrategy",
    "ObjectsAssignment",
    "OffsetStrategy",
    "OffsetsAssignment",
    "Packing",
    "PackingProblem",
    "SearchOptions",
    "StopReason",
    "TensorUsageRecord",
    "assign_objects",
    "assign_offsets",
    "max_live",
    "object_strategies",
    "offset_strategies",
    "offset_strategy",
    "packing_problem",
    "place",
]
