"""Orders in which best fit places buffers, and parts of time that can be packed one by one.

Sorting first by how crowded memory is during a buffer's life, as MiniMalloc does with sections of
time (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
Learning", 2023), places first what meets at the peak.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lowtide.planning.problem import FREE, Int64Array, PackingProblem, live_profile


def orders(problem: PackingProblem) -> Iterator[Int64Array]:
    """Yield orders of the buffers without a fixed offset, of a problem with steps from 0.

    Sorted by the most bytes live during their lives, then by size, size times duration or duration;
    by size, then duration; by the distance from the peak, then duration or size; by duration, then
    size; by size, then first step. Ties end with the first step and the number. Last, backwards in
    time, from what lies beside fixed buffers at the end: by the most bytes live, then size, and
    ties by the last step; by the first step only.
    """
    profile = live_profile(problem)
    count, size = len(problem), problem.nbytes
    duration, crowd = np.zeros(count, np.int64), np.zeros(count, np.int64)
    begin, end = problem.spans()
    np.add.at(duration, problem.item, problem.last - problem.first + 1)
    np.maximum.at(crowd, problem.item, range_maxima(profile, problem.first, problem.last))
    area = size.astype(np.float64) * duration
    peak = int(profile.argmax()) if len(profile) else 0
    distance = np.maximum(np.maximum(begin - peak, peak - end), 0)
    keys = (
        (begin, -size, -crowd),
        (begin, -duration, -size),
        (begin, -area, -crowd),
        (begin, -duration, -crowd),
        (-duration, distance),
        (-size, distance),
        (-size, -duration),
        (-duration, begin, -size),
        (-end, -size, -crowd),
        (-begin,),
    )
    free = np.flatnonzero(problem.fixed_offset == FREE)
    for columns in keys:
        yield free[np.lexsort([key[free] for key in columns])]


def range_maxima(values: Int64Array, first: Int64Array, last: Int64Array) -> Int64Array:
    """Return the maximum of `values[first[i]:last[i] + 1]` for each `i`, by doubling windows."""
    maxima = np.zeros(len(first), np.int64)
    length = last - first + 1
    window, width = values, 1
    while width <= len(values):
        rows = (length >= width) & (length < 2 * width)
        maxima[rows] = np.maximum(window[first[rows]], window[last[rows] - width + 1])
        window = np.maximum(window[:-width], window[width:])
        width *= 2
    return maxima


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
