"""Parts of time that nothing outlives: they can be packed one by one."""

from __future__ import annotations

import numpy as np

from lowtide.planning.problem import Int64Array, PackingProblem


def parts_of(problem: PackingProblem) -> Int64Array:
    """Return the part of each buffer; no buffer of one part lives with one of another."""
    first, last = problem.spans()
    order = np.argsort(first, kind="stable")
    so_far = np.maximum.accumulate(last[order])
    begins = np.ones(len(order), np.int64)
    begins[1:] = first[order][1:] > so_far[:-1]
    part = np.zeros(len(order), np.int64)
    part[order] = np.cumsum(begins) - 1
    return part


def only(problem: PackingProblem, buffers: Int64Array) -> PackingProblem:
    """Return the problem of some buffers, which are numbered from 0 in the order given."""
    number = np.full(len(problem), -1, np.int64)
    number[buffers] = np.arange(len(buffers))
    rows = number[problem.item] >= 0
    return PackingProblem(
        problem.nbytes[buffers],
        problem.alignment[buffers],
        number[problem.item[rows]],
        problem.first[rows],
        problem.last[rows],
        problem.fixed_offset[buffers],
        problem.region_of[buffers],
        problem.region_bytes,
    )
