"""Largest first, each to the lowest gap or to the smallest, as TFLite's GPU delegate has it.

Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.planning.placed import lowest_gap, place_in_order, smallest_gap
from lowtide.planning.plans import Packing
from lowtide.planning.problem import PackingProblem
from lowtide.planning.registry import OffsetStrategy
from lowtide.search.effort import SearchOptions


def greedy_by_size(problem: PackingProblem, _: SearchOptions) -> Packing:
    """Return the packing in order of decreasing size, of equal sizes by number.

    A buffer goes to the smallest gap that holds it and is free during its life, the lowest of equal
    ones; if there is none, on top of all that lives with it. Gaps begin at multiples of the
    alignment. Buffers with a fixed offset lie there before the others come.
    """
    order = np.argsort(-problem.nbytes, kind="stable")
    return place_in_order(problem, order, smallest_gap)


def first_fit(problem: PackingProblem, _: SearchOptions) -> Packing:
    """Return the packing in order of decreasing size, then first step, then number.

    A buffer goes to the lowest offset from which on its bytes are free during its life. Buffers
    with a fixed offset lie there before the others come.
    """
    first, _last = problem.spans()
    return place_in_order(problem, np.lexsort([first, -problem.nbytes]), lowest_gap)


STRATEGIES: Final = (
    OffsetStrategy(
        "greedy_by_size",
        greedy_by_size,
        "Largest first, each to the smallest gap that is free during its life.",
        "Pisarchyk and Lee 2020; TFLite GPU delegate",
        frozenset({"alignment", "fixed", "gaps"}),
    ),
    OffsetStrategy(
        "first_fit",
        first_fit,
        "Largest first, each to the lowest gap that is free during its life.",
        "Wilson et al. 1995, Dynamic Storage Allocation: A Survey (the rule, here offline)",
        frozenset({"alignment", "fixed", "gaps"}),
    ),
)
