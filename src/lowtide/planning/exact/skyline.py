"""Search by section: the item that comes to lie on the floor of a section, or none; compiled.

The section is a place in a valley of the skyline with the fewest choices, weighed by how often it
was in the way before (Boussemart and others, "Boosting Systematic Search by Weighting Constraints",
2004). One choice is an item that fits into the valley and rests on its floor. The other is to raise
the floor to the next height at which some item can rest. Each packing in which nothing can be
lowered is reached in one way.
"""

from __future__ import annotations

from lowtide.planning.exact.moves import (
    BEGIN,
    CHOICES,
    CLOCK,
    COVER,
    COVER_END,
    DEPTH,
    END,
    FIXED,
    FLOOR,
    HEAD,
    HEIGHT,
    HIGH,
    ITEM,
    ITEMS,
    LEFT,
    LIMIT,
    LOW,
    MODE,
    NEVER,
    NODES,
    PADDING,
    PLACE,
    RANK,
    REST,
    SECTION,
    SECTIONS,
    SEEN,
    SIZE,
    TWIN,
    WORK,
    State,
    all_have_room,
    lifted,
    put,
    raise_floor,
)
from lowtide.planning.exact.outcome import CROWDED, REFUTED, SOLVED, SPENT
from lowtide.planning.exact.parts import (
    BEGIN_SEARCH,
    BEHIND_CHOICES,
    BRANCH,
    FRAME,
    LEVEL,
    NEXT_CHOICE,
    OPEN,
    PARENT,
    PART,
    PART_BEHIND,
    PART_FIRST,
    PART_OF,
    REST_OF_CHAIN,
    WASTE,
    back_to_top,
    begin_search,
    crowded,
    open_frame,
    split,
)
from lowtide.search.kernels import Array, kernel


@kernel
def count_choices(state: State, p: int, most: int) -> int:
    """Return how many items can rest on the floor of section `p`, at most about `most`.

    -1 stands for a section to avoid: an item there rests on this floor, but hangs over a deeper
    place in another stretch of its life.
    """
    item = state.item
    section = state.section
    level = section[p * SECTION + FLOOR]
    found = 0
    for k in range(section[p * SECTION + COVER], section[p * SECTION + COVER_END]):
        at = state.cover[k] * ITEM
        if item[at + PLACE] >= 0 or item[at + REST] != level:
            continue
        for s in range(item[at + BEGIN], item[at + END]):
            if section[state.sections_of[s] * SECTION + FLOOR] != level:
                return -1
        if item[at + TWIN] >= 0 and item[item[at + TWIN] * ITEM + PLACE] < 0:
            continue
        found += 1
        if found > most:
            return found
    return found


@kernel
def falls(section: Array, t: int, level: int) -> int:
    """Return 1 if something is left in section `t` and its floor is below `level`, else 0."""
    return 1 if section[t * SECTION + LEFT] > 0 and section[t * SECTION + FLOOR] < level else 0


@kernel
def valley(state: State, first: int, behind: int) -> int:
    """Return the edge of a valley to branch on, in the sections from `first` to before `behind`."""
    section = state.section
    now = state.now
    room = now[HEIGHT] + now[PADDING]
    best = -1
    best_score = 0.0
    best_slack = 0
    now[WORK] += behind - first
    t = first
    while t < behind:
        if section[t * SECTION + LEFT] == 0:
            t += 1
            continue
        level = section[t * SECTION + FLOOR]
        begin = t
        while (
            t < behind and section[t * SECTION + LEFT] > 0 and section[t * SECTION + FLOOR] == level
        ):
            t += 1
        if begin > first and falls(section, begin - 1, level) > 0:
            continue
        if t < behind and falls(section, t, level) > 0:
            continue
        for side in range(2):
            p = t - 1 if side else begin
            slack = room - level - section[p * SECTION + LEFT]
            now[WORK] += section[p * SECTION + COVER_END] - section[p * SECTION + COVER]
            found = count_choices(state, p, 1 << 30)
            if found < 0:
                continue
            if slack > 0:
                found += 1
            if found == 0:
                return p
            score = float(found)
            if found > 1:
                score = 2.0 + (found - 1.0) / state.weight[p]
            if best < 0 or score < best_score or (score == best_score and slack < best_slack):
                best = p
                best_score = score
                best_slack = slack
    return best


@kernel
def lowest(section: Array, first: int, behind: int) -> int:
    """Return the section with the lowest floor of those where something is left."""
    best = -1
    for t in range(first, behind):
        if section[t * SECTION + LEFT] == 0:
            continue
        if best < 0 or section[t * SECTION + FLOOR] < section[best * SECTION + FLOOR]:
            best = t
    return best


@kernel
def collect(state: State, at: int) -> int:
    """Write the choices of a frame, by rank, those that waste space last; return their number."""
    item = state.item
    section = state.section
    frame = state.frame
    choice = state.choice
    now = state.now
    p = frame[at + BRANCH]
    level = section[p * SECTION + FLOOR]
    begin = now[CHOICES]
    end = begin
    for k in range(section[p * SECTION + COVER], section[p * SECTION + COVER_END]):
        i = state.cover[k]
        entry = i * ITEM
        if item[entry + PLACE] >= 0 or item[entry + REST] != level:
            continue
        if item[entry + TWIN] >= 0 and item[item[entry + TWIN] * ITEM + PLACE] < 0:
            continue
        to = end
        while to > begin and item[choice[to - 1] * ITEM + RANK] > item[entry + RANK]:
            choice[to] = choice[to - 1]
            to -= 1
        choice[to] = i
        end += 1
    if now[HEIGHT] + now[PADDING] - level - section[p * SECTION + LEFT] > 0:
        choice[end] = WASTE
        end += 1
    frame[at + LEVEL] = level
    frame[at + BEHIND_CHOICES] = end
    now[CHOICES] = end
    return int(end - begin)


@kernel
def next_level(state: State, p: int) -> int:
    """Return the lowest height above the floor of section `p` at which an item there can rest.

    One that could rest on the floor has to be lifted by an item that does not live in `p`; a fixed
    one cannot be.
    """
    item = state.item
    section = state.section
    cover = state.cover
    now = state.now
    level = section[p * SECTION + FLOOR]
    best = NEVER
    now[CLOCK] += 1
    for k in range(section[p * SECTION + COVER], section[p * SECTION + COVER_END]):
        item[cover[k] * ITEM + SEEN] = now[CLOCK]
    for k in range(section[p * SECTION + COVER], section[p * SECTION + COVER_END]):
        i = cover[k]
        at = i * ITEM
        if item[at + PLACE] >= 0:
            continue
        if item[at + REST] > level:
            best = min(best, item[at + REST])
            continue
        if item[at + FIXED] >= 0:
            return NEVER
        under = NEVER
        for s in range(item[at + BEGIN], item[at + END]):
            t = state.sections_of[s] * SECTION
            now[WORK] += section[t + COVER_END] - section[t + COVER]
            for m in range(section[t + COVER], section[t + COVER_END]):
                other = cover[m] * ITEM
                if item[other + PLACE] < 0 and item[other + SEEN] != now[CLOCK]:
                    under = min(under, item[other + REST] + item[other + SIZE])
        if under < NEVER:
            best = min(best, lifted(state, i, under))
    return best


@kernel
def attempt(state: State, i: int, p: int, level: int) -> int:
    """Make a choice at section `p`; return 1 if nothing speaks against it, else 0."""
    now = state.now
    if i != WASTE:
        if not put(state, i, level):
            state.weight[p] += 1.0
            return 0
    else:
        above = next_level(state, p)
        if above + state.section[p * SECTION + LEFT] > now[HEIGHT] + now[PADDING]:
            return 0
        now[LOW] = p
        now[HIGH] = p + 1
        if not raise_floor(state, p, above):
            return 0
    return all_have_room(state, now[LOW], now[HIGH], 0)


@kernel
def skyline_search(state: State) -> int:
    """Go on with the search; return whether it is solved, refuted, at its limit, or needs room."""
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
            first = pending[part + PART_FIRST]
            behind = pending[part + PART_BEHIND]
            p = valley(state, first, behind)
            if p < 0:
                p = lowest(state.section, first, behind)
            frame[at + BRANCH] = p
            collect(state, at)
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
        p = frame[at + BRANCH]
        level = frame[at + LEVEL]
        if not attempt(state, i, p, level):
            continue
        part = frame[at + PART_OF] * PART
        first = pending[part + PART_FIRST]
        behind = pending[part + PART_BEHIND]
        chain = frame[at + REST_OF_CHAIN]
        now[HEAD] = split(state, first, behind, now[DEPTH] - 1, chain)
        now[MODE] = OPEN
    return SPENT
