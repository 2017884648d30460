"""Best fit in compiled code: buffers that live together are found by duration and step.

Each stretch that is placed stands in a list. There is one list for durations between two powers of
two, in cells by the step at which stretches begin; a cell is as long as the shortest duration of
its list. So a search for what is live in some steps sees little else. What it finds is sorted by
address. Where much of all is live at once, stretches stand sorted by address instead, and all are
looked at, which takes less than to sort those that are live.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.planning.plans import Packing
from lowtide.planning.problem import ARENA, FREE, Int64Array, PackingProblem, dense_times
from lowtide.records import dataclass
from lowtide.search.kernels import Array, Record, kernel


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


BLOCK: Final = 4_096
"""Buffers to place before Python looks whether the user wants to stop."""

LEVELS = 62
"""Lists by duration."""

FIELDS = 6
FIRST, LAST, BEFORE, LOW, HIGH, NEXT = 0, 1, 2, 3, 4, 5
"""Fields of a stretch: its steps, the last step of earlier ones of its buffer or -1, its addresses
if it is placed, and the next one in its cell. They lie side by side, since who follows a list reads
all of a stretch and little of any other."""

NO_ROOM = 2**63 - 1

MANY_LIVE: Final = 1 / 8
"""Where at least this part of all stretches is live at once, they are kept sorted by address."""


@dataclass(frozen=True, eq=False, slots=True)
class GapBuffers(Record):
    """The buffers to place, in the order of `items`: the first `fixed` have an `address`.

    Per buffer: bytes, alignment, and where its stretches begin (`starts`, one more where all end).
    """

    items: Array
    fixed: int
    nbytes: Array
    alignment: Array
    address: Array
    starts: Array


@dataclass(frozen=True, eq=False, slots=True)
class GapStretches(Record):
    """All stretches, in records of FIELDS words, and the lists of those that are placed.

    `head` has per cell its first stretch, by where its record begins, or -1. The cells of the list
    of stretches of 2**i steps, and less than twice that, begin at `cells[i]`; it has `filled[i]`.

        steps      0   1   2   3   4   5   6   7
        list 0   |   |   |   |   |   |   |   |   |    stretches of 1 step
        list 1   |       |       |       |       |    of 2 and 3
        list 2   |               |               |    of 4 to 7
    """

    fields: Array
    cells: Array
    filled: Array
    head: Array


@dataclass(frozen=True, eq=False, slots=True)
class GapPlaces(Record):
    """What is in the way of a buffer: where each begins, and the address behind, side by side.

    The first ones are the `borders` of regions, at the addresses in `border`. Where they
    `are_ranked`, `ranked` has the records of stretches that are placed, by address, and `count`
    how many those are.
    """

    pairs: Array
    borders: int
    border: Array
    are_ranked: int
    ranked: Array
    count: Array


def best_fit_in_order(
    problem: PackingProblem, order: Int64Array, check: Callable[[], None] | None = None
) -> Packing:
    """Return the same packing as `offsets.best_fit.best_fit_in_order`.

    `check` is called now and then: it may raise an exception to end the work.
    """
    dense = dense_times(problem)
    starts, fields = _stretches(dense)
    cells = (int(dense.last.max(initial=0)) >> np.arange(LEVELS)) + 1
    stretches = GapStretches(
        fields=fields,
        cells=np.concatenate([np.zeros(1, np.int64), np.cumsum(cells)]),
        filled=np.zeros(LEVELS, np.int64),
        head=np.full(int(cells.sum()), -1, np.int64),
    )
    fixed = np.flatnonzero(problem.fixed_offset != FREE)
    border = borders(problem)
    address = np.zeros(len(problem), np.int64)
    address[fixed] = problem.fixed_offset[fixed] + border[problem.region_of[fixed]]
    room = len(problem.item) + len(border)
    places = GapPlaces(
        pairs=np.zeros(2 * room, np.int64),
        borders=len(border),
        border=border,
        are_ranked=int(_live_part(dense) >= MANY_LIVE),
        ranked=np.zeros(len(problem.item), np.int64),
        count=np.zeros(1, np.int64),
    )
    buffers = GapBuffers(
        items=np.concatenate([fixed, order]),
        fixed=len(fixed),
        nbytes=problem.nbytes.copy(),
        alignment=problem.alignment.copy(),
        address=address,
        starts=starts,
    )
    for begin in range(0, len(buffers.items), BLOCK):
        if check is not None:
            check()
        end = min(begin + BLOCK, len(buffers.items))
        place_all(buffers, stretches, places, begin, end)
    return packing_of(problem, address)


def _live_part(problem: PackingProblem) -> float:
    """The part of all stretches that is live at once, in the mean of all steps."""
    steps = int(problem.last.max(initial=0)) + 1
    taken = int((problem.last - problem.first + 1).sum())
    return taken / (steps * max(1, len(problem.item)))


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
    buffers: GapBuffers, stretches: GapStretches, places: GapPlaces, begin: int, end: int
) -> int:
    """Place `items[begin:end]`, those that are fixed where they are; return how many."""
    address = buffers.address
    starts = buffers.starts
    for place in range(begin, end):
        item = buffers.items[place]
        nbytes = buffers.nbytes[item]
        first = starts[item]
        stop = starts[item + 1]
        if place >= buffers.fixed:
            if places.are_ranked:
                found = ranked_neighbours(first, stop, stretches, places)
            else:
                found = sorted_neighbours(first, stop, stretches, places)
            address[item] = smallest_gap(nbytes, buffers.alignment[item], found, places)
        for row in range(first, stop):
            at = row * FIELDS
            stretches.fields[at + LOW] = address[item]
            stretches.fields[at + HIGH] = address[item] + nbytes
            if places.are_ranked:
                rank(at, stretches.fields, places)
            else:
                put(at, stretches)
    return end - begin


@kernel
def sorted_neighbours(first: int, stop: int, stretches: GapStretches, places: GapPlaces) -> int:
    """Fill in what is in the way of the stretches of a buffer, by address; return how many are."""
    for number in range(places.borders):
        places.pairs[2 * number] = places.border[number]
        places.pairs[2 * number + 1] = places.border[number]
    found = places.borders
    for row in range(first, stop):
        found = neighbours(row, found, stretches, places)
    return sort_pairs(found, places.pairs)


@kernel
def ranked_neighbours(first: int, stop: int, stretches: GapStretches, places: GapPlaces) -> int:
    """Do the same where all stretches stand sorted by address."""
    fields = stretches.fields
    pairs = places.pairs
    found = 0
    region = 0
    for number in range(places.count[0]):
        at = places.ranked[number]
        meets = 0
        for row in range(first, stop):
            ends = fields[row * FIELDS + LAST]
            if fields[at + FIRST] <= ends and fields[at + LAST] >= fields[row * FIELDS + FIRST]:
                meets = 1
        if meets == 0:
            continue
        low = fields[at + LOW]
        while region < places.borders and places.border[region] <= low:
            pairs[2 * found] = places.border[region]
            pairs[2 * found + 1] = places.border[region]
            found += 1
            region += 1
        pairs[2 * found] = low
        pairs[2 * found + 1] = fields[at + HIGH]
        found += 1
    while region < places.borders:
        pairs[2 * found] = places.border[region]
        pairs[2 * found + 1] = places.border[region]
        found += 1
        region += 1
    return found


@kernel
def rank(at: int, fields: Array, places: GapPlaces) -> int:
    """Add a stretch to those sorted by address; return where it stands."""
    ranked = places.ranked
    place = places.count[0]
    while place > 0 and fields[ranked[place - 1] + LOW] > fields[at + LOW]:
        ranked[place] = ranked[place - 1]
        place -= 1
    ranked[place] = at
    places.count[0] += 1
    return int(place)


@kernel
def put(at: int, stretches: GapStretches) -> int:
    """Add a stretch to its list; return which one that is."""
    fields = stretches.fields
    level = level_of(fields[at + LAST] - fields[at + FIRST] + 1)
    cell = stretches.cells[level] + (fields[at + FIRST] >> level)
    fields[at + NEXT] = stretches.head[cell]
    stretches.head[cell] = at
    stretches.filled[level] += 1
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
def neighbours(row: int, found: int, stretches: GapStretches, places: GapPlaces) -> int:
    """Add the addresses of what lives with a stretch to the `found` ones; return how many are."""
    fields = stretches.fields
    cells = stretches.cells
    begin = fields[row * FIELDS + FIRST]
    end = fields[row * FIELDS + LAST]
    before = fields[row * FIELDS + BEFORE]
    for level in range(LEVELS):
        if stretches.filled[level] == 0:
            continue
        low = cells[level] + max(0, (begin >> level) - 2)
        for cell in range(low, cells[level] + (end >> level) + 1):
            at = stretches.head[cell]
            while at >= 0:
                if before < fields[at + FIRST] <= end and fields[at + LAST] >= begin:
                    places.pairs[2 * found] = fields[at + LOW]
                    places.pairs[2 * found + 1] = fields[at + HIGH]
                    found += 1
                at = fields[at + NEXT]
    return found


@kernel
def sort_pairs(count: int, pairs: Array) -> int:
    """Sort the addresses by the lowest, in steps that shrink (Shell, 1959); return `count`."""
    step = 1
    while step < count // 9:
        step = 3 * step + 1
    while step > 0:
        for number in range(step, count):
            low = pairs[2 * number]
            high = pairs[2 * number + 1]
            at = number
            while at >= step and pairs[2 * (at - step)] > low:
                pairs[2 * at] = pairs[2 * (at - step)]
                pairs[2 * at + 1] = pairs[2 * (at - step) + 1]
                at -= step
            pairs[2 * at] = low
            pairs[2 * at + 1] = high
        step //= 3
    return count


@kernel
def smallest_gap(nbytes: int, alignment: int, found: int, places: GapPlaces) -> int:
    """Return the lowest address of the smallest gap for `nbytes` between sorted places."""
    border = places.border
    behind = 0
    base = 0
    region = 0
    smallest = NO_ROOM
    chosen = 0
    for number in range(found):
        while region < places.borders and border[region] <= behind:
            base = border[region]
            region += 1
        begin = base - (base - behind) // alignment * alignment
        gap = places.pairs[2 * number] - begin
        if nbytes <= gap < smallest:
            smallest = gap
            chosen = begin
        behind = max(behind, places.pairs[2 * number + 1])
    if smallest != NO_ROOM:
        return int(chosen)
    base = border[places.borders - 1]
    return int(base - (base - behind) // alignment * alignment)
