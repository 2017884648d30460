"""Best fit in compiled code: what lives together is found by duration and step.

Each stretch that is placed stands in a list by its duration, between powers of two, and by the step
at which it begins, in cells as long as the shortest of the list. So who looks for what is live in
some steps sees little else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.planning.plans import Packing
from lowtide.planning.problem import FREE, Int64Array, PackingProblem, dense_times
from lowtide.planning.scale.address_space import borders, packing_of
from lowtide.search.kernels import Array, kernel

BLOCK: Final = 4_096
"""Buffers to place before Python looks whether the user wants to stop."""

LEVELS = 62
"""Lists by duration."""

FIELDS = 6
FIRST, LAST, BEFORE, LOW, HIGH, NEXT = 0, 1, 2, 3, 4, 5
"""Fields of a stretch: its steps, the last step of earlier ones of its buffer or -1, its addresses
if it is placed, and the next one in its cell."""

NO_ROOM = 2**63 - 1


def best_fit_in_order(
    problem: PackingProblem, order: Int64Array, check: Callable[[], None] | None = None
) -> Packing:
    """Return the same packing as `offsets.best_fit.best_fit_in_order`.

    `check` is called now and then: it may raise an exception to end the work.
    """
    dense = dense_times(problem)
    starts, stretches = _stretches(dense)
    cells = (int(dense.last.max(initial=0)) >> np.arange(LEVELS)) + 1
    lists = np.concatenate([np.zeros(1, np.int64), np.cumsum(cells), np.zeros(LEVELS, np.int64)])
    head = np.full(int(cells.sum()), -1, np.int64)
    fixed = np.flatnonzero(problem.fixed_offset != FREE)
    border = borders(problem)
    address = np.zeros(len(problem), np.int64)
    address[fixed] = problem.fixed_offset[fixed] + border[problem.region_of[fixed]]
    room = len(problem.item) + len(border)
    work = np.zeros(2 * room, np.int64)
    items = np.concatenate([fixed, order])
    columns = (problem.nbytes.copy(), problem.alignment.copy(), address, starts, stretches)
    for begin in range(0, len(items), BLOCK):
        if check is not None:
            check()
        end = min(begin + BLOCK, len(items))
        place_all(
            items, begin, end, len(fixed), *columns, lists, head, border, len(border), work, room
        )
    return packing_of(problem, address)


def _stretches(problem: PackingProblem) -> tuple[Int64Array, Int64Array]:
    """Where the stretches of each buffer begin, and their fields."""
    order = np.lexsort([problem.first, problem.item])
    item, last = problem.item[order], problem.last[order]
    fields = np.full((len(order), FIELDS), -1, np.int64)
    fields[:, FIRST], fields[:, LAST] = problem.first[order], last
    later = np.flatnonzero(item[1:] == item[:-1]) + 1
    steps = int(last.max(initial=0)) + 1
    fields[later, BEFORE] = np.maximum.accumulate(item * steps + last)[later - 1] % steps
    return np.searchsorted(item, np.arange(len(problem) + 1)), fields.reshape(-1)


@kernel
def place_all(
    items: Array,
    begin: int,
    end: int,
    fixed: int,
    nbytes: Array,
    alignment: Array,
    address: Array,
    starts: Array,
    stretches: Array,
    lists: Array,
    head: Array,
    border: Array,
    borders: int,
    work: Array,
    room: int,
) -> int:
    """Place `items[begin:end]`, the first `fixed` of all where `address` says; return how many.

    `work` has `room` lowest addresses, then as many addresses behind.
    """
    for place in range(begin, end):
        item = items[place]
        if place >= fixed:
            for number in range(borders):
                work[number] = border[number]
                work[room + number] = border[number]
            found = borders
            for row in range(starts[item], starts[item + 1]):
                found = neighbours(row, found, stretches, lists, head, work, room)
            sort_pairs(found, work, room)
            address[item] = smallest_gap(
                nbytes[item], alignment[item], found, border, borders, work, room
            )
        for row in range(starts[item], starts[item + 1]):
            put(row, address[item], address[item] + nbytes[item], stretches, lists, head)
    return end - begin


@kernel
def put(row: int, low: int, high: int, stretches: Array, lists: Array, head: Array) -> int:
    """Add a stretch to its list; return which one that is."""
    at = row * FIELDS
    level = level_of(stretches[at + LAST] - stretches[at + FIRST] + 1)
    cell = lists[level] + (stretches[at + FIRST] >> level)
    stretches[at + LOW] = low
    stretches[at + HIGH] = high
    stretches[at + NEXT] = head[cell]
    head[cell] = at
    lists[LEVELS + 1 + level] += 1
    return level


@kernel
def level_of(length: int) -> int:
    """Return the exponent of the largest power of two that is at most `length`."""
    level = 0
    while length > 1:
        length >>= 1
        level += 1
    return level


@kernel
def neighbours(
    row: int, found: int, stretches: Array, lists: Array, head: Array, work: Array, room: int
) -> int:
    """Add the addresses of what lives with a stretch to the `found` ones; return how many are."""
    begin = stretches[row * FIELDS + FIRST]
    end = stretches[row * FIELDS + LAST]
    before = stretches[row * FIELDS + BEFORE]
    for level in range(LEVELS):
        if lists[LEVELS + 1 + level] == 0:
            continue
        low = lists[level] + max(0, (begin >> level) - 2)
        for cell in range(low, lists[level] + (end >> level) + 1):
            at = head[cell]
            while at >= 0:
                if before < stretches[at + FIRST] <= end and stretches[at + LAST] >= begin:
                    work[found] = stretches[at + LOW]
                    work[room + found] = stretches[at + HIGH]
                    found += 1
                at = stretches[at + NEXT]
    return found


@kernel
def sort_pairs(count: int, work: Array, room: int) -> int:
    """Sort the addresses by the lowest, in steps that shrink (Shell, 1959); return `count`."""
    step = 1
    while step < count // 9:
        step = 3 * step + 1
    while step > 0:
        for number in range(step, count):
            low = work[number]
            high = work[room + number]
            at = number
            while at >= step and work[at - step] > low:
                work[at] = work[at - step]
                work[room + at] = work[room + at - step]
                at -= step
            work[at] = low
            work[room + at] = high
        step //= 3
    return count


@kernel
def smallest_gap(
    nbytes: int, alignment: int, found: int, border: Array, borders: int, work: Array, room: int
) -> int:
    """Return the lowest address of the smallest gap for `nbytes` between sorted places."""
    behind = 0
    base = 0
    region = 0
    smallest = NO_ROOM
    chosen = 0
    for number in range(found):
        while region < borders and border[region] <= behind:
            base = border[region]
            region += 1
        begin = base - (base - behind) // alignment * alignment
        gap = work[number] - begin
        if nbytes <= gap < smallest:
            smallest = gap
            chosen = begin
        behind = max(behind, work[room + number])
    if smallest != NO_ROOM:
        return int(chosen)
    base = border[borders - 1]
    return int(base - (base - behind) // alignment * alignment)
