"""The two questions: which tensors share an object, and where each lies in an arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from lowtide.planning.plans import ObjectsAssignment, OffsetsAssignment
from lowtide.planning.problem import (
    ARENA,
    MOST_BYTES,
    MOST_TASKS,
    PackingProblem,
    TensorUsageRecord,
    max_live,
    packing_problem,
    record_of,
)
from lowtide.planning.registry import (
    ObjectOptions,
    ReallocationGraph,
    nearest,
    object_strategies,
    offset_strategies,
    offset_strategy,
)
from lowtide.search.effort import SearchOptions


def assign_objects(
    records: Sequence[TensorUsageRecord],
    strategy: str = "greedy_by_size",
    *,
    reallocation_graph: ReallocationGraph | None = None,
    search: SearchOptions | None = None,
) -> ObjectsAssignment:
    """Return which tensors share an object, so that no two in one object live at the same task.

    `reallocation_graph` says per tensor which tensors may follow or precede it in its object.
    Raises ValueError for an unknown strategy, records that are malformed or in an order that the
    strategy does not take, and sizes of more dimensions than it knows.
    """
    from lowtide.planning.objects.task_profile import nbytes_of  # Arenas have no objects.

    known = object_strategies()
    if strategy not in known:
        raise nearest(strategy, list(known), "strategy for objects")
    records = [record_of(number, record) for number, record in enumerate(records)]
    chosen = known[strategy]
    dimensions = {_dimensions(number, record) for number, record in enumerate(records)}
    if len(dimensions) > 1:
        raise ValueError(f"records with sizes of {sorted(dimensions)} extents: expected one number")
    if dimensions - chosen.dimensions:
        raise ValueError(
            f"{strategy} takes sizes with {sorted(chosen.dimensions)} extents, found "
            f"{sorted(dimensions)}"
        )
    if dimensions == {1} and sum([nbytes_of(record) for record in records]) >= MOST_BYTES:
        raise ValueError(f"all tensors together have to be smaller than {MOST_BYTES:,} bytes")
    if reallocation_graph is not None and not chosen.reallocation:
        raise ValueError(f"{strategy} knows no reallocation graph; greedy_in_order does")
    if not chosen.any_order:
        _check_order(strategy, records)
    options = ObjectOptions(reallocation_graph, search or SearchOptions())
    shared = chosen.share(records, options)
    return replace(shared, records=tuple(records), reallocation_graph=reallocation_graph)


def _dimensions(number: int, record: TensorUsageRecord) -> int:
    extents = record.size if isinstance(record.size, tuple) else (record.size,)
    if min(extents, default=-1) < 0:
        raise ValueError(f"record {number}: size {record.size} is negative or empty")
    if not 0 <= record.first_task <= record.last_task < MOST_TASKS:
        raise ValueError(
            f"record {number}: tasks {record.first_task} to {record.last_task} are no stretch of "
            "time from 0 to 2^62"
        )
    return len(extents)


def _check_order(strategy: str, records: Sequence[TensorUsageRecord]) -> None:
    for number, (before, record) in enumerate(pairwise(records), 1):
        if record.first_task < before.first_task:
            raise ValueError(
                f"{strategy} takes records in order of first task; record {number} begins at "
                f"{record.first_task}, the one before at {before.first_task}"
            )


def assign_offsets(
    records: Sequence[TensorUsageRecord],
    strategy: str = "portfolio",
    *,
    alignment: int | Sequence[int] = 1,
    fixed: Mapping[int, int] | None = None,
    gaps: Mapping[int, Sequence[tuple[int, int]]] | None = None,
    search: SearchOptions | None = None,
) -> OffsetsAssignment:
    """Return where tensors lie in one arena, so that no two that live at one task overlap.

    `fixed` are offsets by the number of the record, `gaps` stretches of tasks, both ends included,
    in which a tensor is not live. Raises ValueError for an unknown strategy, malformed records, and
    what the strategy does not take.
    """
    problem = packing_problem(records, alignment, fixed=fixed, gaps=gaps)
    return place(problem, strategy, search)


def place(
    problem: PackingProblem, strategy: str = "portfolio", search: SearchOptions | None = None
) -> OffsetsAssignment:
    """Return where the buffers of a problem lie; raises ValueError as `assign_offsets` does."""
    chosen = offset_strategy(strategy)
    missing = sorted(_needs(problem) - chosen.takes)
    if missing:
        able = [x.name for x in offset_strategies().values() if _needs(problem) <= x.takes]
        raise ValueError(f"{strategy} takes no {', '.join(missing)}; {', '.join(able)} do")
    packing = chosen.place(problem, search or SearchOptions())
    if not len(packing.offset) == len(packing.region) == len(problem):
        raise ValueError(f"{strategy} has placed {len(packing.offset)} of {len(problem)} buffers")
    bound = max(packing.bound, max_live(problem))
    return OffsetsAssignment(
        problem, packing, tuple(packing.offset.tolist()), packing.arena_bytes, bound
    )


def _needs(problem: PackingProblem) -> frozenset[str]:
    """What a problem has beyond one stretch of time per buffer in one arena."""
    found = {
        "fixed": problem.has_fixed,
        "gaps": problem.has_gaps,
        "alignment": bool((problem.alignment != 1).any()),
        "regions": bool(len(problem.region_bytes)) or bool((problem.region_of != ARENA).any()),
    }
    return frozenset([name for name, needed in found.items() if needed])
