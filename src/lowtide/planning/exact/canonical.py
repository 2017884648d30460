"""Search by address: items are placed with addresses that do not decrease; compiled.

The order is that of Moffitt ("MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
Machine Learning", 2023); `certificate` trees (`refute.py`) are of this search as well.
"""

from __future__ import annotations

from lowtide.planning.exact.moves import (
    BEGIN,
    BORN,
    CHOICES,
    COVER,
    COVER_END,
    DEPTH,
    END,
    FIXED,
    HEAD,
    HEIGHT,
    ITEM,
    ITEMS,
    LIMIT,
    MODE,
    NEVER,
    NODES,
    OBSTACLES,
    OBSTACLES_END,
    PLACE,
    PLACED,
    PLACED_RANK,
    RANK,
    REST,
    SECTION,
    SECTIONS,
    SIZE,
    TWIN,
    WORK,
    State,
    all_have_room,
    put,
)
from lowtide.planning.exact.outcome import CROWDED, REFUTED, SOLVED, SPENT
from lowtide.planning.exact.parts import (
    BEGIN_SEARCH,
    BEHIND_CHOICES,
    FRAME,
    NEXT_CHOICE,
    OPEN,
    PARENT,
    PART,
    PART_BEHIND,
    PART_FIRST,
    PART_LEAST,
    PART_OF,
    PART_RANK,
    REST_OF_CHAIN,
    back_to_top,
    begin_search,
    crowded,
    open_frame,
    split,
)
from lowtide.search.kernels import Array, kernel


@kernel
def least_top(item: Array, first: int, behind: int) -> int:
    """Return how low the end of some free item can be, of the items `first` to before `behind`."""
    top = NEVER
    for i in range(first, behind):
        at = i * ITEM
        if item[at + PLACE] < 0 and item[at + FIXED] < 0:
            top = min(top, item[at + REST] + item[at + SIZE])
    return top


@kernel
def by_rest(item: Array, choice: Array, begin: int, first: int, behind: int) -> int:
    """Write the items that rest below the least top, by rest height, then rank; return the end."""
    top = least_top(item, first, behind)
    end = begin
    for i in range(first, behind):
        at = i * ITEM
        if item[at + PLACE] >= 0 or item[at + REST] >= top:
            continue
        to = end
        while to > begin:
            other = choice[to - 1] * ITEM
            if item[other + REST] < item[at + REST]:
                break
            if item[other + REST] == item[at + REST] and item[other + RANK] < item[at + RANK]:
                break
            choice[to] = choice[to - 1]
            to -= 1
        choice[to] = i
        end += 1
    return end


@kernel
def can_be_lifted(state: State, i: int) -> int:
    """Return 1 if some item can come to lie where `i` rests, so that `i` may be higher, else 0."""
    item = state.item
    section = state.section
    at = i * ITEM
    top = item[at + REST] + item[at + SIZE]
    for s in range(item[at + BEGIN], item[at + END]):
        t = state.sections_of[s] * SECTION
        for k in range(section[t + COVER], section[t + COVER_END]):
            other = state.cover[k]
            if other != i and item[other * ITEM + PLACE] < 0 and item[other * ITEM + REST] < top:
                return 1
    return 0


@kernel
def may_lie(state: State, i: int) -> int:
    """Return 1 if `i` may be placed where it rests, else 0: too high, or its twin comes first."""
    item = state.item
    at = i * ITEM
    if item[at + REST] + item[at + SIZE] > state.now[HEIGHT]:
        return 0
    if item[at + TWIN] >= 0 and item[item[at + TWIN] * ITEM + PLACE] < 0:
        return 0
    for k in range(item[at + OBSTACLES], item[at + OBSTACLES_END]):
        other = state.obstacles[k] * ITEM
        if item[other + PLACE] < 0 and item[other + FIXED] < item[at + REST] + item[at + SIZE]:
            return 0
    return 1


@kernel
def children(state: State, part: int) -> int:
    """Write the items that can be the next one placed in a part; return where they end."""
    item = state.item
    section = state.section
    choice = state.choice
    pending = state.pending
    now = state.now
    least = pending[part + PART_LEAST]
    rank = pending[part + PART_RANK]
    begin = now[CHOICES]
    first = section[pending[part + PART_FIRST] * SECTION + BORN]
    behind = section[pending[part + PART_BEHIND] * SECTION + BORN]
    now[WORK] += 2 * (behind - first)
    end = by_rest(item, choice, begin, first, behind)
    kept = begin
    for k in range(begin, end):
        i = choice[k]
        rest = item[i * ITEM + REST]
        later = rest > least or (rest == least and item[i * ITEM + RANK] > rank)
        if later != 0 and may_lie(state, i) > 0:
            choice[kept] = i
            kept += 1
        if item[i * ITEM + FIXED] >= 0:
            break
        if not can_be_lifted(state, i):
            break
    return int(kept)


@kernel
def canonical_search(state: State) -> int:
    """Go on with the search; return whether it is solved, refuted, at its limit, or needs room."""
    item = state.item
    frame = state.frame
    pending = state.pending
    now = state.now
    if now[MODE] == BEGIN_SEARCH:
        sections = now[SECTIONS]
        items = now[ITEMS]
        if not begin_search(state, items, sections):
            return REFUTED
    while 1:
        if now[MODE] == OPEN:
            if now[HEAD] < 0:
                return SOLVED
            if now[NODES] >= now[LIMIT]:
                return SPENT
            if crowded(now):
                return CROWDED
            at = open_frame(state) * FRAME
            part = frame[at + PART_OF] * PART
            end = children(state, part)
            frame[at + BEHIND_CHOICES] = end
            continue
        at = back_to_top(state)
        if frame[at + NEXT_CHOICE] == frame[at + BEHIND_CHOICES]:
            if frame[at + PARENT] < 0:
                return REFUTED
            now[DEPTH] = frame[at + PARENT] + 1
            continue
        i = state.choice[frame[at + NEXT_CHOICE]]
        frame[at + NEXT_CHOICE] += 1
        now[NODES] += 1
        part = frame[at + PART_OF] * PART
        first = pending[part + PART_FIRST]
        behind = pending[part + PART_BEHIND]
        rest = item[i * ITEM + REST]
        if not put(state, i, rest):
            continue
        if not all_have_room(state, first, behind, rest):
            continue
        now[PLACED] = rest
        now[PLACED_RANK] = item[i * ITEM + RANK]
        chain = frame[at + REST_OF_CHAIN]
        now[HEAD] = split(state, first, behind, now[DEPTH] - 1, chain)
        now[MODE] = OPEN
    return SPENT
