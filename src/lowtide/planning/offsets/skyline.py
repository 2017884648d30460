"""Upwards without filling holes: always the buffer that can lie lowest, on top of what is there.

    address
      ^        +------+
      |        |  B   |          A is placed first, as the longest, then C: both can lie at 0.
      |  +-----+--+---+          B lives with A, so it lies on top of A. The hole `o` below B
      |  |   A    | o +-----+    stays free: what is placed next lies no lower than B.
      |  |        | o |  C  |
      +--+--------+---+-----+--> steps

It is the bottom-left rule of rectangle packing (Baker, Coffman and Rivest, "Orthogonal Packings in
Two Dimensions", 1980) for rectangles that cannot move in time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.planning.plans import Packing, arena_packing
from lowtide.planning.problem import PackingProblem
from lowtide.planning.registry import OffsetStrategy
from lowtide.search.effort import SearchOptions


def skyline(problem: PackingProblem, _: SearchOptions) -> Packing:
    """Return the packing in which offsets do not decrease from one placed buffer to the next.

    The next is that which can lie lowest above all that lives with it and is placed; of equal ones
    the longest, then the largest, then the first by number.
    """
    first, last = problem.spans()
    size, alignment = problem.nbytes, problem.alignment
    order = np.lexsort([-size, first - last])
    first, last, size, alignment = first[order], last[order], size[order], alignment[order]
    rest = np.zeros(len(order), np.int64)
    key = np.zeros(len(order), np.int64)
    for _step in range(len(order)):
        chosen = int(key.argmin())
        key[chosen] = _PLACED
        above = (first <= last[chosen]) & (last >= first[chosen]) & (key != _PLACED)
        end = -(-(rest[chosen] + size[chosen]) // alignment[above]) * alignment[above]
        rest[above] = np.maximum(rest[above], end)
        key[above] = rest[above]
    offsets = np.zeros(len(order), np.int64)
    offsets[order] = rest
    return arena_packing(problem, offsets)


_PLACED: Final = np.iinfo(np.int64).max

STRATEGIES: Final = (
    OffsetStrategy(
        "skyline",
        skyline,
        "Upwards without filling holes: always what can lie lowest, the longest of equal ones.",
        "Baker, Coffman and Rivest 1980 (the bottom-left rule)",
        frozenset({"alignment"}),
    ),
)
