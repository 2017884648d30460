"""The arena of TFLite's CPU runtime, on lifetimes that are given."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.planning.plans import Packing, arena_packing
from lowtide.planning.problem import PackingProblem
from lowtide.planning.registry import OffsetStrategy
from lowtide.planning.tflite_arena import SimpleMemoryArena
from lowtide.search.effort import SearchOptions


def tflite_arena(problem: PackingProblem, _: SearchOptions) -> Packing:
    """Return the packing in order of decreasing size, then first step, then number.

    A buffer goes to a gap that is about the smallest: the arena measures the best gap so far from
    where it begins, not from the aligned offset, and so may prefer a later one that is larger.
    """
    first, last = problem.spans()
    arena = SimpleMemoryArena()
    offsets = np.zeros(len(problem), np.int64)
    for item in np.lexsort([first, -problem.nbytes]).tolist():
        row = int(problem.nbytes[item]), int(first[item]), int(last[item])
        offsets[item] = arena.allocate(*row, int(problem.alignment[item]))
    return arena_packing(problem, offsets)


STRATEGIES: Final = (
    OffsetStrategy(
        "tflite_arena",
        tflite_arena,
        "Largest first, then by first step, each to about the smallest gap.",
        "TFLite, arena_planner and simple_memory_arena",
        frozenset({"alignment"}),
    ),
)
