"""Moves of both searches: to place an item, to raise a floor, to take moves back; compiled.

State lies in arrays of records. The floor of a section is the height below which all is decided
there. The rest height of an item is the lowest address that floors, alignment and fixed items leave
it. Every change is first written to the trail, from which it is undone.
"""

from __future__ import annotations

from typing import Final

from lowtide.records import dataclass
from lowtide.search.kernels import Array, FloatArray, Record, kernel

ITEM: Final = 15
"""Numbers in the record of an item."""
SIZE: Final = 0
ALIGNMENT: Final = 1
FIXED: Final = 2
BEGIN: Final = 3
"""Where its sections begin in `sections_of`."""
END: Final = 4
FIRST: Final = 5
"""Its first section."""
LAST: Final = 6
OBSTACLES: Final = 7
"""Where its fixed neighbours begin in `obstacles`, lowest first."""
OBSTACLES_END: Final = 8
RANK: Final = 9
"""Of items that rest equally high, the one with the lower rank is tried first."""
TWIN: Final = 10
"""The item of lower number that is the same in all, or -1."""
PLACE: Final = 11
"""Its address, or -1."""
REST: Final = 12
SEEN: Final = 13
"""When a search of neighbours came by last."""
OBSTACLES_TOP: Final = 14
"""The address behind all its fixed neighbours."""

SECTION: Final = 6
"""Numbers in the record of a section."""
FLOOR: Final = 0
LEFT: Final = 1
"""Bytes of items live here and not placed, rounded up to the common alignment."""
COVER: Final = 2
"""Where its items begin in `cover`."""
COVER_END: Final = 3
CUT: Final = 4
"""Number of items not placed that live both before this section and in it or behind."""
BORN: Final = 5
"""The first item whose first section is this one or a later one: items stand in that order."""

UNDO: Final = 3
"""Numbers of an entry of the trail: one of the kinds below, of what, and the value before."""
UNDO_REST: Final = 0
UNDO_FLOOR: Final = 1
UNDO_PLACE: Final = 2

# Registers of a search, in the array `now`.
HEIGHT: Final = 0
PADDING: Final = 1
"""The most bytes that rounding adds to an item."""
COMMON: Final = 2
"""A number that all offsets are multiples of."""
TRAIL: Final = 3
"""Entries on the trail."""
LOW: Final = 4
"""The first section that the last move touched."""
HIGH: Final = 5
"""The section behind the last one that the last move touched."""
CLOCK: Final = 6
NODES: Final = 7
"""Choices that were tried."""
LIMIT: Final = 8
"""Number of nodes at which to return."""
DEPTH: Final = 9
"""Frames on the stack."""
HEAD: Final = 10
"""The parts of time that wait for a search: the first of a chain in `pending`, or -1."""
PENDING: Final = 11
"""Records in `pending`."""
CHOICES: Final = 12
"""Numbers on the stack of choices."""
MODE: Final = 13
"""Whether to open a node or to try the next choice of the last one."""
FAILED: Final = 14
"""The section at which the last check failed."""
TRAIL_ROOM: Final = 15
PENDING_ROOM: Final = 16
FRAME_ROOM: Final = 17
CHOICE_ROOM: Final = 18
LARGEST: Final = 19
"""The most items that are live in one section, and the number of items and sections."""
PLACED: Final = 20
"""The address of the item placed last, where that is the lowest one possible; else 0."""
PLACED_RANK: Final = 21
"""The rank of that item, else -1."""
ITEMS: Final = 22
SECTIONS: Final = 23
WORK: Final = 24
"""Entries of arrays that were looked at, about."""
REGISTERS: Final = 25

NEVER: Final = 1 << 62
"""A height that is out of reach."""


@dataclass(frozen=True, eq=False, slots=True)
class State(Record):
    """The state of a search.

    What is read together lies together: `item`, `section`, `trail` are records of so many numbers
    (ITEM, SECTION, UNDO), as are `frame` (`parts.FRAME`) and `pending` (`parts.PART`). Per section:
    `cover` lists its items, and `weight` is how often it was in the way. `sections_of` lists the
    sections of each item, `obstacles` its fixed neighbours. `choice` is a stack of items to try,
    `now` has the registers.
    """

    item: Array
    section: Array
    cover: Array
    sections_of: Array
    obstacles: Array
    trail: Array
    frame: Array
    choice: Array
    pending: Array
    weight: FloatArray
    now: Array


@kernel
def lifted(state: State, i: int, height: int) -> int:
    """Return the lowest address from `height` up at which fixed items and alignment let `i` lie."""
    item = state.item
    at = i * ITEM
    if item[at + FIXED] >= 0:
        return int(item[at + FIXED])
    alignment = item[at + ALIGNMENT]
    size = item[at + SIZE]
    place = (height + alignment - 1) // alignment * alignment
    if place >= item[at + OBSTACLES_TOP]:
        return int(place)
    for k in range(item[at + OBSTACLES], item[at + OBSTACLES_END]):
        other = state.obstacles[k] * ITEM
        end = item[other + FIXED] + item[other + SIZE]
        if end > place:
            if place + size <= item[other + FIXED]:
                return int(place)
            place = (end + alignment - 1) // alignment * alignment
    return int(place)


@kernel
def remember(state: State, kind: int, what: int, before: int) -> int:
    """Write a value to the trail that is about to change."""
    trail = state.trail
    at = state.now[TRAIL] * UNDO
    trail[at] = kind
    trail[at + 1] = what
    trail[at + 2] = before
    state.now[TRAIL] += 1
    return 0


@kernel
def raise_floor(state: State, t: int, height: int) -> int:
    """Set the floor of section `t`; return 0 where a fixed item there is in the way, else 1."""
    item = state.item
    section = state.section
    now = state.now
    remember(state, UNDO_FLOOR, t, section[t * SECTION + FLOOR])
    section[t * SECTION + FLOOR] = height
    now[WORK] += section[t * SECTION + COVER_END] - section[t * SECTION + COVER]
    for k in range(section[t * SECTION + COVER], section[t * SECTION + COVER_END]):
        j = state.cover[k]
        at = j * ITEM
        if item[at + PLACE] >= 0 or item[at + REST] >= height:
            continue
        if item[at + FIXED] >= 0:
            now[FAILED] = t
            return 0
        remember(state, UNDO_REST, j, item[at + REST])
        item[at + REST] = lifted(state, j, height)
        now[LOW] = min(now[LOW], item[at + FIRST])
        now[HIGH] = max(now[HIGH], item[at + LAST] + 1)
    return 1


@kernel
def put(state: State, i: int, address: int) -> int:
    """Place item `i`; return 0 where it is too high or a fixed item is in the way, else 1.

    The sections that this touches are from `now[LOW]` to before `now[HIGH]`.
    """
    item = state.item
    section = state.section
    sections_of = state.sections_of
    now = state.now
    at = i * ITEM
    remember(state, UNDO_PLACE, i, 0)
    item[at + PLACE] = address
    size = (item[at + SIZE] + now[COMMON] - 1) // now[COMMON] * now[COMMON]
    now[LOW] = item[at + FIRST]
    now[HIGH] = item[at + LAST] + 1
    for t in range(item[at + FIRST] + 1, item[at + LAST] + 1):
        section[t * SECTION + CUT] -= 1
    for k in range(item[at + BEGIN], item[at + END]):
        section[sections_of[k] * SECTION + LEFT] -= size
    top = address + item[at + SIZE]
    good = 1 if top <= now[HEIGHT] else 0
    for k in range(item[at + BEGIN], item[at + END]):
        if not raise_floor(state, sections_of[k], top):
            good = 0
    return good


@kernel
def undo(state: State, mark: int) -> int:
    """Take back all that was done since the trail had `mark` entries."""
    item = state.item
    section = state.section
    trail = state.trail
    now = state.now
    while now[TRAIL] > mark:
        now[TRAIL] -= 1
        entry = now[TRAIL] * UNDO
        what = trail[entry + 1]
        if trail[entry] == UNDO_REST:
            item[what * ITEM + REST] = trail[entry + 2]
        elif trail[entry] == UNDO_FLOOR:
            section[what * SECTION + FLOOR] = trail[entry + 2]
        else:
            at = what * ITEM
            item[at + PLACE] = -1
            size = (item[at + SIZE] + now[COMMON] - 1) // now[COMMON] * now[COMMON]
            for t in range(item[at + FIRST] + 1, item[at + LAST] + 1):
                section[t * SECTION + CUT] += 1
            for k in range(item[at + BEGIN], item[at + END]):
                section[state.sections_of[k] * SECTION + LEFT] += size
    return 0


@kernel
def has_room(state: State, t: int, least: int) -> int:
    """Return 0 if what is not placed in section `t` is proved not to fit above `least`, else 1.

    It is a machine that works on one job at a time; rest heights are release dates, and the
    earliest end is had in order of these (Jackson, "Scheduling a Production Line to Minimize
    Maximum Tardiness", 1955). `cover` stays sorted by rest height, so that the next sort is short.
    """
    item = state.item
    section = state.section
    cover = state.cover
    now = state.now
    at = t * SECTION
    now[WORK] += 2
    room = now[HEIGHT] + now[PADDING]
    end = max(section[at + FLOOR], least)
    if end + section[at + LEFT] > room:
        return 0
    begin = section[at + COVER]
    now[WORK] += section[at + COVER_END] - begin
    highest = end
    for k in range(begin, section[at + COVER_END]):
        entry = cover[k] * ITEM
        if item[entry + PLACE] < 0:
            highest = max(highest, item[entry + REST])
    if highest + section[at + LEFT] <= room:
        return 1
    now[WORK] += 2 * (section[at + COVER_END] - begin)
    for k in range(begin + 1, section[at + COVER_END]):
        moving = cover[k]
        rest = item[moving * ITEM + REST]
        to = k
        while to > begin and item[cover[to - 1] * ITEM + REST] > rest:
            cover[to] = cover[to - 1]
            to -= 1
        cover[to] = moving
    common = now[COMMON]
    for k in range(begin, section[at + COVER_END]):
        entry = cover[k] * ITEM
        if item[entry + PLACE] < 0:
            size = (item[entry + SIZE] + common - 1) // common * common
            end = max(end, item[entry + REST]) + size
    return 1 if end <= room else 0


@kernel
def all_have_room(state: State, first: int, behind: int, least: int) -> int:
    """Return 1 if no section from `first` to before `behind` lacks room, else 0.

    The section that does becomes heavier, and is `now[FAILED]`.
    """
    for t in range(first, behind):
        left = state.section[t * SECTION + LEFT]
        if left > 0 and has_room(state, t, least) == 0:
            state.weight[t] += 1.0
            state.now[FAILED] = t
            return 0
    return 1
