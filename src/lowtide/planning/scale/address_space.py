"""Regions and arena in one address space: the regions end to end, then the arena."""

from __future__ import annotations

import numpy as np

from lowtide.planning.plans import Packing
from lowtide.planning.problem import ARENA, FREE, Int64Array, PackingProblem


def borders(problem: PackingProblem) -> Int64Array:
    """Return the address at which each region begins, and last that of the arena."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(problem.region_bytes)])


def packing_of(problem: PackingProblem, address: Int64Array) -> Packing:
    """Return the packing with buffers at given addresses."""
    starts = borders(problem)
    region = np.searchsorted(starts, address, side="right") - 1
    region[region == len(starts) - 1] = ARENA
    fixed = problem.fixed_offset != FREE
    region[fixed] = problem.region_of[fixed]
    offset = address - starts[region]
    tops = (offset + problem.nbytes)[region == ARENA]
    return Packing(region, offset, int(tops.max(initial=0)))
