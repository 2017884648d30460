"""The stack of a search, and its parts of time that do not depend on each other; compiled.

A node of the search is a frame: a part of time, and the choices there. Parts that wait form a
chain. A node takes the first part, and what its choice leaves of the part goes in front of the
chain. Once all choices of a node have failed, its part has no solution. Then the search goes on
with the next choice of the node that left this part; parts solved in between do not matter.
"""

from __future__ import annotations

from typing import Final

from lowtide.planning.exact.moves import (
    CHOICE_ROOM,
    CHOICES,
    CUT,
    DEPTH,
    FLOOR,
    FRAME_ROOM,
    HEAD,
    HEIGHT,
    ITEM,
    LARGEST,
    LEFT,
    MODE,
    PENDING,
    PENDING_ROOM,
    PLACED,
    PLACED_RANK,
    REST,
    SECTION,
    TRAIL,
    TRAIL_ROOM,
    State,
    all_have_room,
    lifted,
    undo,
)
from lowtide.search.kernels import Array, kernel

PART: Final = 7
"""Numbers in a record of `pending`."""
PART_FIRST: Final = 0
PART_BEHIND: Final = 1
PART_PARENT: Final = 2
"""The frame whose choice left this part, or -1."""
PART_NEXT: Final = 3
"""The next part of the chain, or -1."""
PART_SLACK: Final = 4
PART_LEAST: Final = 5
"""The address of the item placed last."""
PART_RANK: Final = 6
"""The rank of the item placed last."""

FRAME: Final = 12
"""Numbers in a record of the stack."""
PARENT: Final = 0
PART_OF: Final = 1
"""The part that the node is about."""
REST_OF_CHAIN: Final = 2
MARK: Final = 3
"""Entries of the trail when the node was opened."""
POOL: Final = 4
"""Records of `pending` when the node was opened."""
FIRST_CHOICE: Final = 5
NEXT_CHOICE: Final = 6
BEHIND_CHOICES: Final = 7
BRANCH: Final = 8
"""The section that the choices are about."""
LEVEL: Final = 9
"""The floor there."""

BEGIN_SEARCH: Final = 0
OPEN: Final = 1
TRY: Final = 2

WASTE: Final = -1
"""A choice: nothing comes to lie on the floor."""


@kernel
def push_part(state: State, first: int, behind: int, frame: int, chain: int) -> int:
    """Put a part into a chain, the tightest first, and return the new head of the chain.

    Only the parts with the same parent frame are compared, those in front.
    """
    section = state.section
    pending = state.pending
    now = state.now
    slack = now[HEIGHT]
    for t in range(first, behind):
        if section[t * SECTION + LEFT]:
            room = now[HEIGHT] - section[t * SECTION + FLOOR] - section[t * SECTION + LEFT]
            slack = min(slack, room)
    new = now[PENDING]
    now[PENDING] += 1
    at = new * PART
    pending[at + PART_FIRST] = first
    pending[at + PART_BEHIND] = behind
    pending[at + PART_PARENT] = frame
    pending[at + PART_SLACK] = slack
    pending[at + PART_LEAST] = now[PLACED]
    pending[at + PART_RANK] = now[PLACED_RANK]
    before = -1
    after = chain
    while after >= 0:
        if pending[after * PART + PART_PARENT] != frame:
            break
        if pending[after * PART + PART_SLACK] >= slack:
            break
        before = after
        after = pending[after * PART + PART_NEXT]
    pending[at + PART_NEXT] = after
    if before < 0:
        return int(new)
    pending[before * PART + PART_NEXT] = new
    return chain


@kernel
def split(state: State, first: int, behind: int, frame: int, chain: int) -> int:
    """Put the parts of a stretch of time where something is left in front of a chain.

    Nothing that is left lives in two parts. Returns the new head.
    """
    section = state.section
    begin = -1
    for t in range(first, behind):
        if begin >= 0 and section[t * SECTION + CUT] == 0:
            chain = push_part(state, begin, t, frame, chain)
            begin = -1
        if begin < 0 and section[t * SECTION + LEFT] > 0:
            begin = t
    if begin >= 0:
        chain = push_part(state, begin, behind, frame, chain)
    return chain


@kernel
def begin_search(state: State, items: int, sections: int) -> int:
    """Let all items rest on the ground, and make parts of time; return 0 if there is no room."""
    item = state.item
    now = state.now
    for i in range(items):
        item[i * ITEM + REST] = lifted(state, i, 0)
    now[HEAD] = -1
    if not all_have_room(state, 0, sections, 0):
        return 0
    now[HEAD] = split(state, 0, sections, -1, -1)
    now[MODE] = OPEN
    return 1


@kernel
def crowded(now: Array) -> int:
    """Return 1 if an array may be too small for what the next node writes, else 0."""
    if now[TRAIL] + 2 * now[LARGEST] > now[TRAIL_ROOM]:
        return 1
    if now[PENDING] + now[LARGEST] > now[PENDING_ROOM]:
        return 1
    if now[DEPTH] + 1 > now[FRAME_ROOM]:
        return 1
    return 1 if now[CHOICES] + now[LARGEST] > now[CHOICE_ROOM] else 0


@kernel
def open_frame(state: State) -> int:
    """Make a frame for the first part of the chain, without choices; return its number."""
    frame = state.frame
    pending = state.pending
    now = state.now
    part = now[HEAD]
    number = now[DEPTH]
    at = number * FRAME
    frame[at + PARENT] = pending[part * PART + PART_PARENT]
    frame[at + PART_OF] = part
    frame[at + REST_OF_CHAIN] = pending[part * PART + PART_NEXT]
    frame[at + MARK] = now[TRAIL]
    frame[at + POOL] = now[PENDING]
    frame[at + FIRST_CHOICE] = now[CHOICES]
    frame[at + NEXT_CHOICE] = now[CHOICES]
    frame[at + BEHIND_CHOICES] = now[CHOICES]
    frame[at + BRANCH] = -1
    frame[at + LEVEL] = 0
    now[DEPTH] += 1
    now[MODE] = TRY
    return int(number)


@kernel
def back_to_top(state: State) -> int:
    """Take back the last choice of the uppermost frame; return where its record begins."""
    frame = state.frame
    now = state.now
    at = (now[DEPTH] - 1) * FRAME
    undo(state, frame[at + MARK])
    now[PENDING] = frame[at + POOL]
    now[CHOICES] = frame[at + BEHIND_CHOICES]
    return int(at)
