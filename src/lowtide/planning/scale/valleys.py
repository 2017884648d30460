"""Kernels that fill an arena from below, one valley of its skyline after the other.

height                 The skyline is how high each step of time is filled. It consists of
  ^        ____        segments, which are numbered by their first step: here 0, 4 and 7.
  |____   |    |       A segment lower than both neighbours is a valley: the next buffer goes
  |    |  |    |       to the lowest one, of equally low ones the earliest. What no buffer
  |    |__|    |       fits into is given up: the valley is filled up to its lower neighbour.
  +----4--7----+--->
"""

from __future__ import annotations

from lowtide.planning.scale.trees import (
    PlaceTree,
    RangeTree,
    add_to_range,
    clear_leaf,
    first_at_least,
    next_at_most,
    place_of_least,
)
from lowtide.records import dataclass
from lowtide.search.kernels import Array, FloatArray, Record, kernel

VALLEY_WORK = 32
"""What a valley costs, a buffer that is looked at being 1."""

MORE, FILLED, TOO_HIGH = 0, 1, 2
"""How filling goes on, or ended."""

NONE = -1
SKY = 2**62


@dataclass(frozen=True, eq=False, slots=True)
class ValleyBuffers(Record):
    """The buffers to place, in groups by length, those of a group by first step.

    Group g has those from `group[g]` up to `group[g + 1]`, whose lengths are at least 2**g ticks
    and less than twice that. Per buffer: `begin` is its first step, `end` the one behind its last
    one, `size` its bytes, `value` what it is worth to place it soon, `rank` its place by first
    step, `offset` where it is placed.
    """

    groups: int
    group: Array
    begin: Array
    end: Array
    size: Array
    alignment: Array
    value: FloatArray
    rank: Array
    offset: Array


@dataclass(frozen=True, eq=False, slots=True)
class Skyline(Record):
    """The height of each of `steps`, in segments that are numbered by their first step.

    Per segment: `height` in bytes, `after` (the step behind it; NONE: no segment begins here),
    `before` (the segment that ends where it begins). Those that may be filled next stand in `heap`,
    the lowest first, of equal ones the earliest; `where` is the place of a segment there, or NONE.
    `waiting` is one word: how many stand in the heap.
    """

    steps: int
    height: Array
    after: Array
    before: Array
    heap: Array
    where: Array
    waiting: Array


@dataclass(frozen=True, eq=False, slots=True)
class ValleyArena(Record):
    """An arena that is being filled.

    `clock`: when each step begins and the last one ends, in ticks. Trees over the buffers that are
    not placed, with the step behind each one: `ends` in their order, `ends_by_rank` by first step;
    `earlier`: how many begin before each step. `slack`: bytes that may still be wasted, per step.
    `reach`: how much of a valley may stay free, in lengths of the shortest buffer of a group, of
    which so many `tries` are looked at. `left` and `work` are one word: buffers that are not
    placed, and how much was looked at so far.
    """

    buffers: ValleyBuffers
    skyline: Skyline
    clock: Array
    ends: PlaceTree
    ends_by_rank: PlaceTree
    earlier: Array
    slack: RangeTree
    reach: float
    tries: int
    left: Array
    work: Array


@kernel
def fill(arena: ValleyArena, count: int) -> int:
    """Fill at most `count` valleys; return whether all buffers have an offset, or why not."""
    skyline = arena.skyline
    earlier = arena.earlier
    for _ in range(count):
        if arena.slack.least[1] < 0:
            return TOO_HIGH
        if arena.left[0] == 0:
            return FILLED
        arena.work[0] += VALLEY_WORK
        first = pop(skyline)
        if skyline.after[first] == NONE:
            continue
        last = widen(first, skyline)
        item = next_at_most(arena.ends_by_rank, earlier[first], earlier[last], last)
        if item == NONE:
            push(raise_valley(first, last, skyline, arena.slack), skyline)
            continue
        put(choose(first, last, arena), first, last, arena)
    return MORE


@kernel
def put(item: int, first: int, last: int, arena: ValleyArena) -> int:
    """Place a buffer in the valley from `first` to `last`, not included; return its offset."""
    buffers = arena.buffers
    skyline = arena.skyline
    height = skyline.height
    begin = buffers.begin[item]
    end = buffers.end[item]
    alignment = buffers.alignment[item]
    low = height[first]
    offset = (low + alignment - 1) // alignment * alignment
    buffers.offset[item] = offset
    if offset != low:
        add_to_range(arena.slack, begin, end, low - offset)
    clear_leaf(arena.ends, item)
    clear_leaf(arena.ends_by_rank, buffers.rank[item])
    arena.left[0] -= 1
    split(first, begin, end, skyline)
    if end < last:
        height[end] = low
        push(end, skyline)
    if begin > first:
        push(first, skyline)
    height[begin] = offset + buffers.size[item]
    push(begin, skyline)
    return int(offset)


@kernel
def choose(first: int, last: int, arena: ValleyArena) -> int:
    """Return a buffer for the valley from `first` to `last`, not included; there has to be one.

    It is live at the step at which the least may be wasted, or if no buffer is, anywhere.
    """
    buffers = arena.buffers
    group = buffers.group
    top = min(log2(arena.clock[last] - arena.clock[first]), buffers.groups - 1)
    tight = place_of_least(arena.slack, first, last)
    for down in range(top + 1):
        found = best_of_group(top - down, first, last, tight, arena)
        if found != NONE:
            return found
    for down in range(top + 1):
        number = top - down
        place = first_at_least(buffers.begin, group[number], group[number + 1], first)
        found = next_at_most(arena.ends, place, group[number + 1], last)
        if found != NONE:
            return found
    return NONE


@kernel
def best_of_group(number: int, first: int, last: int, tight: int, arena: ValleyArena) -> int:
    """Return the best of some buffers of a group that lie in a valley and are live at `tight`.

    That is the most valuable one, less for what it leaves free of the valley: half as valuable
    where that is as long as `reach` times the shortest buffer of the group.
    """
    clock = arena.clock
    begin = arena.buffers.begin
    end = arena.buffers.end
    longest = 2 << number
    scale = max(1.0, arena.reach * float(1 << number))
    earliest = first
    if clock[tight] - clock[first] > longest:
        earliest = first_at_least(clock, first, tight, clock[tight] - longest)
    stop = arena.buffers.group[number + 1]
    place = first_at_least(begin, arena.buffers.group[number], stop, earliest)
    best = NONE
    most = -1.0
    for _ in range(arena.tries):
        place = next_at_most(arena.ends, place, stop, last)
        if place == NONE or begin[place] > tight:
            return best
        arena.work[0] += 1
        if end[place] > tight:
            free = clock[begin[place]] - clock[first] + clock[last] - clock[end[place]]
            worth = arena.buffers.value[place] / (1.0 + float(free) / scale)
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
def widen(first: int, skyline: Skyline) -> int:
    """Join a segment with the equally high ones behind it; return the step behind them."""
    height = skyline.height
    last = int(skyline.after[first])
    while last < skyline.steps and height[last] == height[first]:
        last = cut(last, skyline)
    return last


@kernel
def cut(segment: int, skyline: Skyline) -> int:
    """Give the steps of a segment to the one before; return the step behind them."""
    after = skyline.after
    before = skyline.before
    last = int(after[segment])
    after[before[segment]] = last
    if last < skyline.steps:
        before[last] = before[segment]
    after[segment] = NONE
    return last


@kernel
def split(first: int, begin: int, end: int, skyline: Skyline) -> int:
    """Make the steps from `begin` to `end` of a segment one by themselves; return its number."""
    last = skyline.after[first]
    if begin > first:
        insert(begin, first, last, skyline)
    if end < last:
        insert(end, begin, last, skyline)
    return begin


@kernel
def insert(segment: int, left: int, right: int, skyline: Skyline) -> int:
    """Put a segment between two neighbours; return it."""
    skyline.after[left] = segment
    skyline.before[segment] = left
    skyline.after[segment] = right
    if right < skyline.steps:
        skyline.before[right] = segment
    return segment


@kernel
def raise_valley(first: int, last: int, skyline: Skyline, slack: RangeTree) -> int:
    """Give up the room up to the lower neighbour; return the segment that the steps are now in."""
    height = skyline.height
    left = height[skyline.before[first]] if first > 0 else SKY
    right = height[last] if last < skyline.steps else SKY
    level = min(left, right)
    add_to_range(slack, first, last, height[first] - level)
    height[first] = level
    if right == level:
        cut(last, skyline)
    if left != level:
        return first
    left_one = int(skyline.before[first])
    cut(first, skyline)
    return left_one


@kernel
def push(segment: int, skyline: Skyline) -> int:
    """Put a segment in the heap, or where it is in there already, to its new place."""
    place = skyline.where[segment]
    if place == NONE:
        place = skyline.waiting[0]
        skyline.waiting[0] += 1
    return sink(segment, float_up(segment, place, skyline), skyline)


@kernel
def pop(skyline: Skyline) -> int:
    """Take the lowest segment out of the heap; return it."""
    lowest = int(skyline.heap[0])
    skyline.where[lowest] = NONE
    skyline.waiting[0] -= 1
    waiting = skyline.waiting[0]
    if waiting > 0:
        sink(skyline.heap[waiting], 0, skyline)
    return lowest


@kernel
def float_up(segment: int, place: int, skyline: Skyline) -> int:
    """Move the free place of a segment up as far as it belongs; return it."""
    heap = skyline.heap
    while place > 0:
        above = heap[(place - 1) >> 1]
        if not_above(above, segment, skyline.height) == 1:
            return place
        heap[place] = above
        skyline.where[above] = place
        place = (place - 1) >> 1
    return place


@kernel
def sink(segment: int, place: int, skyline: Skyline) -> int:
    """Move the free place of a segment down as far as it belongs, put it there; return it."""
    heap = skyline.heap
    height = skyline.height
    waiting = skyline.waiting[0]
    while 2 * place + 1 < waiting:
        child = 2 * place + 1
        if child + 1 < waiting and not_above(heap[child + 1], heap[child], height) == 1:
            child += 1
        if not_above(segment, heap[child], height) == 1:
            break
        heap[place] = heap[child]
        skyline.where[heap[place]] = place
        place = child
    heap[place] = segment
    skyline.where[segment] = place
    return place


@kernel
def not_above(one: int, other: int, height: Array) -> int:
    """Return 1 where a segment comes before another one in the heap, or is it; else 0."""
    if height[one] != height[other]:
        return 1 if height[one] < height[other] else 0
    return 1 if one <= other else 0
