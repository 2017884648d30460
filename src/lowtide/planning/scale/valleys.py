"""Kernels that fill an arena from below, one valley of its skyline after the other.

The skyline is how high each step of time is filled. It consists of segments, which are numbered by
their first step: `after` and `before` are the neighbours of a segment. The segments that may be
filled next stand in a heap, the lowest first, of equal ones the earliest.
"""

from __future__ import annotations

from lowtide.planning.scale.trees import (
    add_to_range,
    clear_leaf,
    first_at_least,
    next_at_most,
    place_of_least,
)
from lowtide.search.kernels import Array, FloatArray, kernel

WAITING, LEFT, STEPS, GROUPS, LEAVES, STEP_LEAVES, TRIES, WORK = 0, 1, 2, 3, 4, 5, 6, 7
STATE_FIELDS = 8
"""Fields of a state: segments in the heap, buffers not placed, steps of time, groups of buffers,
leaves of the trees of buffers and of steps, how many buffers of a group to look at, and how much
was looked at so far."""

VALLEY_WORK = 32
"""What a valley costs, a buffer that is looked at being 1."""

MORE, FILLED, TOO_HIGH = 0, 1, 2
"""How filling goes on, or ended."""

NONE = -1
SKY = 2**62


@kernel
def fill(
    count: int,
    state: Array,
    reach: float,
    begin: Array,
    end: Array,
    size: Array,
    alignment: Array,
    value: FloatArray,
    group: Array,
    clock: Array,
    ends: Array,
    rank: Array,
    earlier: Array,
    all_ends: Array,
    slack: Array,
    wasted: Array,
    height: Array,
    after: Array,
    before: Array,
    heap: Array,
    where: Array,
    offset: Array,
) -> int:
    """Fill at most `count` valleys; return whether all buffers have an `offset`, or why not.

    `rank` is the place of each buffer by first step, `earlier` says how many begin before a step.
    """
    for _ in range(count):
        if slack[1] < 0:
            return TOO_HIGH
        if state[LEFT] == 0:
            return FILLED
        state[WORK] += VALLEY_WORK
        first = pop(state, heap, where, height)
        if after[first] == NONE:
            continue
        last = widen(first, state, height, after, before)
        item = next_at_most(all_ends, state[LEAVES], earlier[first], earlier[last], last)
        if item == NONE:
            low = raise_valley(first, last, state, height, after, before, slack, wasted)
            push(low, state, heap, where, height)
            continue
        item = choose(
            first, last, state, reach, begin, end, value, group, clock, ends, slack, wasted
        )
        low = height[first]
        offset[item] = (low + alignment[item] - 1) // alignment[item] * alignment[item]
        if offset[item] != low:
            waste(begin[item], end[item], offset[item] - low, state, slack, wasted)
        clear_leaf(ends, state[LEAVES], item)
        clear_leaf(all_ends, state[LEAVES], rank[item])
        state[LEFT] -= 1
        split(first, begin[item], end[item], state, after, before)
        if end[item] < last:
            height[end[item]] = low
            push(end[item], state, heap, where, height)
        if begin[item] > first:
            push(first, state, heap, where, height)
        height[begin[item]] = offset[item] + size[item]
        push(begin[item], state, heap, where, height)
    return MORE


@kernel
def choose(
    first: int,
    last: int,
    state: Array,
    reach: float,
    begin: Array,
    end: Array,
    value: FloatArray,
    group: Array,
    clock: Array,
    ends: Array,
    slack: Array,
    wasted: Array,
) -> int:
    """Return a buffer for the valley from `first` to `last`, not included; there has to be one.

    It is live at the step at which the least may be wasted, or if no buffer is, anywhere.
    """
    top = min(log2(clock[last] - clock[first]), state[GROUPS] - 1)
    tight = place_of_least(slack, wasted, state[STEP_LEAVES], first, last)
    for down in range(top + 1):
        found = best_of_group(
            top - down, first, last, tight, state, reach, begin, end, value, group, clock, ends
        )
        if found != NONE:
            return found
    for down in range(top + 1):
        number = top - down
        place = first_at_least(begin, group[number], group[number + 1], first)
        found = next_at_most(ends, state[LEAVES], place, group[number + 1], last)
        if found != NONE:
            return found
    return NONE


@kernel
def best_of_group(
    number: int,
    first: int,
    last: int,
    tight: int,
    state: Array,
    reach: float,
    begin: Array,
    end: Array,
    value: FloatArray,
    group: Array,
    clock: Array,
    ends: Array,
) -> int:
    """Return the best of some buffers of a group that lie in a valley and are live at `tight`.

    That is the most valuable one, less for what it leaves free of the valley: half as valuable
    where that is as long as `reach` times the shortest buffer of the group.
    """
    longest = 2 << number
    scale = max(1.0, reach * float(1 << number))
    earliest = first
    if clock[tight] - clock[first] > longest:
        earliest = first_at_least(clock, first, tight, clock[tight] - longest)
    place = first_at_least(begin, group[number], group[number + 1], earliest)
    best = NONE
    most = -1.0
    for _ in range(state[TRIES]):
        place = next_at_most(ends, state[LEAVES], place, group[number + 1], last)
        if place == NONE or begin[place] > tight:
            return best
        state[WORK] += 1
        if end[place] > tight:
            free = clock[begin[place]] - clock[first] + clock[last] - clock[end[place]]
            worth = value[place] / (1.0 + float(free) / scale)
            if worth > most:
                most = worth
                best = place
        place += 1
    return best


@kernel
def log2(number: int) -> int:
    """Return the exponent of the largest power of two that is at most `number`."""
    exponent = 0
    while number > 1:
        number >>= 1
        exponent += 1
    return exponent


@kernel
def widen(first: int, state: Array, height: Array, after: Array, before: Array) -> int:
    """Join a segment with the equally high ones behind it; return the step behind them."""
    last = int(after[first])
    while last < state[STEPS] and height[last] == height[first]:
        last = cut(last, state, after, before)
    return last


@kernel
def cut(segment: int, state: Array, after: Array, before: Array) -> int:
    """Give the steps of a segment to the one before; return the step behind them."""
    last = int(after[segment])
    after[before[segment]] = last
    if last < state[STEPS]:
        before[last] = before[segment]
    after[segment] = NONE
    return last


@kernel
def split(first: int, begin: int, end: int, state: Array, after: Array, before: Array) -> int:
    """Make the steps from `begin` to `end` of a segment one by themselves; return its number."""
    last = after[first]
    if begin > first:
        insert(begin, first, last, state, after, before)
    if end < last:
        insert(end, begin, last, state, after, before)
    return begin


@kernel
def insert(segment: int, left: int, right: int, state: Array, after: Array, before: Array) -> int:
    """Put a segment between two neighbours; return it."""
    after[left] = segment
    before[segment] = left
    after[segment] = right
    if right < state[STEPS]:
        before[right] = segment
    return segment


@kernel
def raise_valley(
    first: int,
    last: int,
    state: Array,
    height: Array,
    after: Array,
    before: Array,
    slack: Array,
    wasted: Array,
) -> int:
    """Give up the room up to the lower neighbour; return the segment that the steps are now in."""
    left = height[before[first]] if first > 0 else SKY
    right = height[last] if last < state[STEPS] else SKY
    level = min(left, right)
    waste(first, last, level - height[first], state, slack, wasted)
    height[first] = level
    if right == level:
        cut(last, state, after, before)
    if left != level:
        return first
    left_one = int(before[first])
    cut(first, state, after, before)
    return left_one


@kernel
def waste(first: int, last: int, nbytes: int, state: Array, slack: Array, wasted: Array) -> int:
    """Note that some bytes stay free at the steps from `first` to `last`, not included."""
    return add_to_range(slack, wasted, state[STEP_LEAVES], first, last, -nbytes)


@kernel
def push(segment: int, state: Array, heap: Array, where: Array, height: Array) -> int:
    """Put a segment in the heap, or where it is in there already, to its new place."""
    place = where[segment]
    if place == NONE:
        place = state[WAITING]
        state[WAITING] += 1
    place = float_up(segment, place, heap, where, height)
    return sink(segment, place, state, heap, where, height)


@kernel
def pop(state: Array, heap: Array, where: Array, height: Array) -> int:
    """Take the lowest segment out of the heap; return it."""
    lowest = int(heap[0])
    where[lowest] = NONE
    state[WAITING] -= 1
    if state[WAITING] > 0:
        sink(heap[state[WAITING]], 0, state, heap, where, height)
    return lowest


@kernel
def float_up(segment: int, place: int, heap: Array, where: Array, height: Array) -> int:
    """Move the free place of a segment up as far as it belongs; return it."""
    while place > 0:
        above = heap[(place - 1) >> 1]
        if not_above(above, segment, height) == 1:
            return place
        heap[place] = above
        where[above] = place
        place = (place - 1) >> 1
    return place


@kernel
def sink(segment: int, place: int, state: Array, heap: Array, where: Array, height: Array) -> int:
    """Move the free place of a segment down as far as it belongs, put it there; return it."""
    while 2 * place + 1 < state[WAITING]:
        child = 2 * place + 1
        if child + 1 < state[WAITING] and not_above(heap[child + 1], heap[child], height) == 1:
            child += 1
        if not_above(segment, heap[child], height) == 1:
            break
        heap[place] = heap[child]
        where[heap[place]] = place
        place = child
    heap[place] = segment
    where[segment] = place
    return place


@kernel
def not_above(one: int, other: int, height: Array) -> int:
    """Return 1 where a segment comes before another one in the heap, or is it; else 0."""
    if height[one] != height[other]:
        return 1 if height[one] < height[other] else 0
    return 1 if one <= other else 0
