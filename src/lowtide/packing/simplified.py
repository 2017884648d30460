"""Strategies for problems that have more than they know: without it, where the plan stays right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

import numpy as np

from lowtide.planning import (
    ARENA,
    FREE,
    ObjectsAssignment,
    OffsetsAssignment,
    Packing,
    PackingProblem,
    SearchOptions,
    assign_objects,
    max_live,
    object_strategies,
    offset_strategy,
    place,
)
from lowtide.planning.plans import DualBound
from lowtide.planning.problem import MOST_BYTES, Int64Array, dense_times
from lowtide.planning.scale.orders import only
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Simplified:
    """A problem without what a strategy does not know.

    Buffer `i` is `kept[i]` of the problem before; a size or an offset of 1 stands for `unit` bytes.
    """

    problem: PackingProblem
    kept: Int64Array
    unit: int
    changes: tuple[str, ...]


def simplify(problem: PackingProblem, takes: frozenset[str]) -> Simplified:
    """Return a problem that has no more than `takes`, whose plans are plans of this one.

    Raises ValueError for what is not taken and cannot be taken out: fixed offsets, and alignments
    to a common multiple of which sizes cannot be rounded up.
    """
    kept = np.arange(len(problem), dtype=np.int64)
    unit, changes = 1, []
    if "regions" not in takes and (len(problem.region_bytes) or (problem.region_of != ARENA).any()):
        kept = np.flatnonzero(problem.region_of == ARENA)
        problem = replace(only(problem, kept), region_bytes=np.zeros(0, np.int64))
        changes.append("regions left empty")
    if "fixed" not in takes and problem.has_fixed:
        raise ValueError("takes no fixed offsets")
    if "gaps" not in takes and problem.has_gaps:
        problem = fill_gaps(problem)
        changes.append("gaps filled")
    if "alignment" not in takes and (problem.alignment != 1).any():
        unit = lcm(*np.unique(problem.alignment).tolist())
        if sum([-(-size // unit) for size in problem.nbytes.tolist()]) * unit >= MOST_BYTES:
            raise ValueError(f"takes no alignments whose common multiple is {unit:,}")
        problem = _in_units(problem, unit)
        changes.append(f"sizes rounded up to {unit:,}")
    return Simplified(problem, kept, unit, tuple(changes))


def fill_gaps(problem: PackingProblem) -> PackingProblem:
    """Return the problem with each buffer live from its first step to its last."""
    first, last = problem.spans()
    item = np.arange(len(problem), dtype=np.int64)
    return replace(problem, item=item, first=first, last=last)


def _in_units(problem: PackingProblem, unit: int) -> PackingProblem:
    """The problem with sizes counted in units that all offsets are multiples of."""
    fixed = problem.fixed_offset
    return replace(
        problem,
        nbytes=-(-problem.nbytes // unit),
        alignment=np.ones(len(problem), np.int64),
        fixed_offset=np.where(fixed == FREE, FREE, fixed // unit),
        region_bytes=problem.region_bytes // unit,
    )


# -- offsets -----------------------------------------------------------------------------------


def place_simplified(
    problem: PackingProblem, strategy: str, search: SearchOptions
) -> tuple[OffsetsAssignment, tuple[str, ...]]:
    """Return a plan, and what of the problem was taken out for it.

    Raises ValueError for an unknown strategy, and for what it does not take.
    """
    try:
        simple = simplify(problem, offset_strategy(strategy).takes)
    except ValueError as error:
        if "takes no" not in str(error):
            raise
        raise ValueError(f"{strategy} {error}") from None
    if not simple.changes:
        return place(problem, strategy, search), ()
    if search.capacity is not None:
        search = replace(search, capacity=search.capacity // simple.unit)
    found = place(simple.problem, strategy, search)
    region, offset = problem.region_of.copy(), problem.fixed_offset.copy()
    region[simple.kept] = found.packing.region
    offset[simple.kept] = found.packing.offset * simple.unit
    packing = Packing(region, offset, _top(problem, region, offset), stopped=found.stopped)
    return _assignment(problem, packing), simple.changes


def _top(problem: PackingProblem, region: Int64Array, offset: Int64Array) -> int:
    return int((offset + problem.nbytes)[region == ARENA].max(initial=0))


def _assignment(problem: PackingProblem, packing: Packing) -> OffsetsAssignment:
    return OffsetsAssignment(
        problem, packing, tuple(packing.offset.tolist()), packing.arena_bytes, max_live(problem)
    )


# -- objects -----------------------------------------------------------------------------------


def objects_end_to_end(
    problem: PackingProblem, strategy: str, search: SearchOptions
) -> tuple[OffsetsAssignment, ObjectsAssignment, tuple[str, ...]]:
    """Return shared objects laid end to end in an arena, the objects, and what was taken out.

    Strategies that need them so get the buffers in order of their first step. Raises ValueError
    for what they do not take, such as fixed offsets.
    """
    try:
        simple = simplify(problem, frozenset())
    except ValueError as error:
        raise ValueError(f"objects:{strategy} {error}") from None
    records = simple.problem.records()
    order, changes = list(range(len(records))), simple.changes
    if not object_strategies()[strategy].any_order:
        order.sort(key=lambda i: records[i].first_task)
        if order != sorted(order):
            changes = (*changes, "in order of first step")
    if max([x.last_task for x in records], default=0) > _MOST_TASKS:
        records = dense_times(simple.problem).records()
        changes = (*changes, "steps renumbered")
    found = assign_objects([records[i] for i in order], strategy, search=search)
    found = _in_bytes(_in_order(found, order), simple.unit)
    sizes = np.array(found.object_sizes, np.int64).reshape(-1)
    starts = np.cumsum(sizes) - sizes
    region, offset = problem.region_of.copy(), problem.fixed_offset.copy()
    region[simple.kept] = ARENA
    offset[simple.kept] = starts[np.array(found.object_ids, np.int64)]
    packing = Packing(region, offset, int(sizes.sum()), stopped=found.stopped)
    return _assignment(problem, packing), found, changes


def _in_order(found: ObjectsAssignment, order: Sequence[int]) -> ObjectsAssignment:
    """The objects of tensors which the strategy got in an order, `order[i]` as number `i`."""
    place = np.argsort(np.array(order, np.int64), kind="stable").tolist()
    evidence = found.evidence
    if isinstance(evidence, DualBound):
        evidence = replace(evidence, prices=tuple([evidence.prices[i] for i in place]))
    return replace(
        found,
        object_ids=tuple([found.object_ids[i] for i in place]),
        records=tuple([found.records[i] for i in place]),
        evidence=evidence,
    )


def _in_bytes(found: ObjectsAssignment, unit: int) -> ObjectsAssignment:
    """The objects of tensors whose sizes were counted in units."""
    evidence = found.evidence
    if isinstance(evidence, DualBound):
        evidence = replace(evidence, prices=tuple([x * unit for x in evidence.prices]))
    elif evidence is not None:
        evidence = replace(evidence, sizes=tuple([x * unit for x in evidence.sizes]))
    return replace(
        found,
        object_sizes=tuple([x * unit for x in found.object_sizes if isinstance(x, int)]),
        records=tuple(
            [x._replace(size=x.size * unit) for x in found.records if isinstance(x.size, int)]
        ),
        lower_bound=found.lower_bound * unit,
        evidence=evidence,
    )


_MOST_TASKS = 1 << 24
"""Strategies for objects may look at every task by itself; beyond, only where buffers begin."""
