"""Largest first, each to the lowest gap."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.planning.placed import lowest_gap, place_in_order
from lowtide.planning.plans import Packing
from lowtide.planning.problem import PackingProblem
from lowtide.planning.registry import OffsetStrategy
from lowtide.search.effort import SearchOptions


def first_fit(problem: PackingProblem, _: SearchOptions) -> Packing:
    """Return the packing in order of decreasing size, then first step, then number.

    A buffer goes to the lowest offset from which on its bytes are free during its life. Buffers
    with a fixed offset lie there before the others come.
    """
    first, _last = problem.spans()
    return place_in_order(problem, np.lexsort([first, -problem.nbytes]), lowest_gap)


STRATEGIES: Final = (
    OffsetStrategy(
        "first_fit",
        first_fit,
        "Largest first, each to the lowest gap that is free during its life.",
        "Wilson et al. 1995, Dynamic Storage Allocation: A Survey (the rule, here offline)",
        frozenset({"alignment", "fixed", "gaps"}),
    ),
)
