"""Shared objects, end to end in one arena."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from lowtide.planning.plans import ObjectsAssignment, Packing, arena_packing
from lowtide.planning.problem import PackingProblem, TensorUsageRecord
from lowtide.planning.registry import (
    ObjectOptions,
    ObjectStrategy,
    OffsetStrategy,
    object_strategies,
)
from lowtide.search.effort import SearchOptions


def objects_to_offsets(
    object_ids: Sequence[int],
    object_sizes: Sequence[int | tuple[int, ...]],
    alignment: int | Sequence[int] = 1,
) -> tuple[tuple[int, ...], int]:
    """Return the offset of each tensor, and the bytes of all objects laid end to end.

    Objects lie in order of their ids, those that no tensor lies in too. An alignment per tensor
    holds for its object, which begins at a multiple of it. Raises ValueError for an object that is
    not there, and for sizes that are no bytes.
    """
    wanted = [1] * len(object_sizes)
    alignments = [alignment] * len(object_ids) if isinstance(alignment, int) else alignment
    for tensor, number in enumerate(object_ids):
        if not 0 <= number < len(object_sizes):
            raise ValueError(f"tensor {tensor} lies in object {number} of {len(object_sizes)}")
        wanted[number] = math.lcm(wanted[number], alignments[tensor])
    starts, end = [], 0
    for number, size in enumerate(object_sizes):
        if not isinstance(size, int):
            raise ValueError(f"object {number} has the extents {size}, expected bytes")
        starts.append(-(-end // wanted[number]) * wanted[number])
        end = starts[-1] + size
    return tuple([starts[number] for number in object_ids]), end


def in_sequence(
    problem: PackingProblem, search: SearchOptions, *, strategy: ObjectStrategy
) -> Packing:
    """Return the packing that lays the objects of a strategy end to end.

    Tensors come to the strategy in order of first step, those that begin together by number; steps
    are counted from 0.
    """
    first, last = problem.spans()
    order = np.argsort(first, kind="stable")
    base = int(first.min(initial=0))
    columns = problem.nbytes[order], first[order] - base, last[order] - base
    records = [TensorUsageRecord(*row) for row in zip(*[x.tolist() for x in columns], strict=True)]
    found: ObjectsAssignment = strategy.share(records, ObjectOptions(search=search))
    alignment = problem.alignment[order].tolist()
    placed, _ = objects_to_offsets(found.object_ids, found.object_sizes, alignment)
    offsets = np.zeros(len(problem), np.int64)
    offsets[order] = placed
    return arena_packing(problem, offsets)


def _strategy(strategy: ObjectStrategy) -> OffsetStrategy:
    return OffsetStrategy(
        f"objects_in_sequence{{{strategy.name}}}",
        partial(in_sequence, strategy=strategy),
        f"The shared objects of {strategy.name}, laid end to end.",
        strategy.source,
        frozenset({"alignment"}),
    )


STRATEGIES: Final = tuple([_strategy(x) for x in object_strategies().values() if 1 in x.dimensions])
