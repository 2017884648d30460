"""A search for a packing of a height, in slices of so many nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.planning.exact import canonical, moves, parts, skyline
from lowtide.planning.exact.instance import Instance
from lowtide.planning.exact.outcome import CROWDED, Outcome
from lowtide.planning.problem import FREE, Int64Array
from lowtide.records import dataclass

FloatArray = npt.NDArray[np.float64]


class Method(Enum):
    """In what way a search branches."""

    SKYLINE = "by section"
    CANONICAL = "by address"


@dataclass(frozen=True, slots=True)
class SearchTables:
    """Records of an instance before a search; `order` has its items by first section."""

    order: Int64Array
    item: Int64Array
    section: Int64Array
    cover: Int64Array
    sections_of: Int64Array
    obstacles: Int64Array
    common: int
    padding: int

    @property
    def section_count(self) -> int:
        """Number of sections."""
        return len(self.section) // moves.SECTION - 1


def tables_of(instance: Instance) -> SearchTables:
    """Return the records of an instance, no item placed."""
    count, (first, last) = len(instance), instance.spans()
    order = np.lexsort([np.arange(count), first])
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    sections_of = (
        np.concatenate(
            [instance.sections[instance.starts[i] : instance.starts[i + 1]] for i in order.tolist()]
        )
        if count
        else np.zeros(1, np.int64)
    )
    lengths = np.diff(instance.starts)[order]
    common = instance.common_alignment
    rounded = -(-instance.size // common) * common
    item = np.zeros((count, moves.ITEM), np.int64)
    item[:, moves.SIZE] = instance.size[order]
    item[:, moves.ALIGNMENT] = instance.alignment[order]
    item[:, moves.FIXED] = instance.fixed[order]
    item[:, moves.END] = np.cumsum(lengths)
    item[:, moves.BEGIN] = item[:, moves.END] - lengths
    item[:, moves.FIRST], item[:, moves.LAST] = first[order], last[order]
    item[:, moves.PLACE] = -1
    obstacles = _obstacles(instance, order, place, item)
    item[:, moves.TWIN] = _twins(instance, order)
    section = _section_records(instance, rounded, first, last, np.sort(first))
    return SearchTables(
        order,
        item.ravel(),
        section,
        place[instance.cover] if count else np.zeros(1, np.int64),
        sections_of,
        obstacles,
        common,
        int((rounded - instance.size).max(initial=0)),
    )


def _section_records(
    instance: Instance, rounded: Int64Array, first: Int64Array, last: Int64Array, born: Int64Array
) -> Int64Array:
    count = len(instance.steps)
    section = np.zeros((count + 1, moves.SECTION), np.int64)
    section[:count, moves.LEFT] = instance.live(rounded)
    section[:count, moves.COVER] = instance.cover_starts[:-1]
    section[:count, moves.COVER_END] = instance.cover_starts[1:]
    change = np.zeros(count + 2, np.int64)
    np.add.at(change, first + 1, 1)
    np.subtract.at(change, last + 1, 1)
    section[:, moves.CUT] = np.cumsum(change)[: count + 1]
    section[:, moves.BORN] = np.searchsorted(born, np.arange(count + 1))
    return section.ravel()


def _obstacles(
    instance: Instance, order: Int64Array, place: Int64Array, item: Int64Array
) -> Int64Array:
    """Return the fixed neighbours of all items, by address; set where those of each item are."""
    owners, neighbours = [], []
    for i, met in instance.fixed_neighbours():
        owners.append(place[met])
        neighbours.append(np.full(len(met), place[i]))
    if not owners:
        return np.zeros(1, np.int64)
    owner, neighbour = np.concatenate(owners), np.concatenate(neighbours)
    by_owner = np.argsort(owner, kind="stable")
    numbers = np.arange(len(order))
    item[:, moves.OBSTACLES] = np.searchsorted(owner[by_owner], numbers)
    item[:, moves.OBSTACLES_END] = np.searchsorted(owner[by_owner], numbers, side="right")
    ends = (instance.fixed + instance.size)[order][neighbour]
    np.maximum.at(item[:, moves.OBSTACLES_TOP], owner, ends)
    return np.append(neighbour[by_owner], 0)


def _twins(instance: Instance, order: Int64Array) -> Int64Array:
    """Return for each record the last one before it that is the same, or -1."""
    last: dict[tuple[int, int, bytes], int] = {}
    twins = np.full(len(order), -1)
    for number, i in enumerate(order.tolist()):
        if instance.fixed[i] != FREE:
            continue
        sections = instance.sections[instance.starts[i] : instance.starts[i + 1]].tobytes()
        key = (int(instance.size[i]), int(instance.alignment[i]), sections)
        twins[number] = last.get(key, -1)
        last[key] = number
    return twins


_SEARCHES: Final = {
    Method.SKYLINE: skyline.skyline_search,
    Method.CANONICAL: canonical.canonical_search,
}


class Search:
    """One search for a packing of at most `height`, which can be stopped and gone on with.

    `rank` says per item which is tried first. `weight`, per section, is learned from failures and
    changed in place.
    """

    def __init__(
        self,
        tables: SearchTables,
        height: int,
        method: Method,
        rank: Int64Array,
        weight: FloatArray,
    ) -> None:
        self.tables = tables
        self._kernel: Callable[[moves.State], int] = _SEARCHES[method]
        self._now = np.zeros(moves.REGISTERS, np.int64)
        count, sections = len(tables.order), tables.section_count
        item = tables.item.copy()
        item.reshape(-1, moves.ITEM)[:, moves.RANK] = rank[tables.order]
        self._now[moves.HEIGHT] = height
        self._now[moves.PADDING] = tables.padding
        self._now[moves.COMMON] = tables.common
        self._now[moves.PLACED_RANK] = -1
        self._now[moves.LARGEST] = count + sections + 4
        self._now[moves.ITEMS], self._now[moves.SECTIONS] = count, sections
        self._now[moves.HEAD] = -1
        self._now[moves.MODE] = parts.BEGIN_SEARCH
        room = 2 * (count + sections) + 64
        self._state = moves.State(
            item=item,
            section=tables.section.copy(),
            cover=tables.cover.copy(),
            sections_of=tables.sections_of,
            obstacles=tables.obstacles,
            trail=np.zeros(4 * room * moves.UNDO, np.int64),
            frame=np.zeros(room * parts.FRAME, np.int64),
            choice=np.zeros(4 * room, np.int64),
            pending=np.zeros(2 * room * parts.PART, np.int64),
            weight=weight,
            now=self._now,
        )
        self.outcome = Outcome.OPEN

    def run(self, nodes: int) -> Outcome:
        """Go on for at most so many nodes."""
        self._now[moves.LIMIT] = self._now[moves.NODES] + nodes
        status = CROWDED
        while status == CROWDED:
            self._make_room()
            status = self._kernel(self._state)
        self.outcome = Outcome(status)
        return self.outcome

    def _make_room(self) -> None:
        """Double the arrays that are more than half full."""
        state = self._state
        self._state = replace(
            state,
            trail=self._with_room(state.trail, _TRAIL),
            frame=self._with_room(state.frame, _FRAME),
            choice=self._with_room(state.choice, _CHOICE),
            pending=self._with_room(state.pending, _PENDING),
        )

    def _with_room(self, array: Int64Array, stack: _Stack) -> Int64Array:
        needed = 2 * stack.width * int(self._now[stack.used] + self._now[moves.LARGEST])
        if needed > len(array):
            array = np.concatenate([array, np.zeros(needed, np.int64)])
        self._now[stack.room] = len(array) // stack.width
        return array

    @property
    def addresses(self) -> Int64Array:
        """Where each item lies, once the height is known to fit."""
        found = np.empty(len(self.tables.order), np.int64)
        found[self.tables.order] = self._state.item.reshape(-1, moves.ITEM)[:, moves.PLACE]
        return found

    @property
    def work(self) -> int:
        """How much it has looked at so far: about 10**9 in a second."""
        return int(self._now[moves.WORK])

    @property
    def nodes(self) -> int:
        """Nodes so far."""
        return int(self._now[moves.NODES])


@dataclass(frozen=True, slots=True)
class _Stack:
    """An array that grows: how many numbers a record has, and two registers.

    `used` says how many records are in use, `room` how many fit.
    """

    width: int
    used: int
    room: int


_TRAIL: Final = _Stack(moves.UNDO, moves.TRAIL, moves.TRAIL_ROOM)
_FRAME: Final = _Stack(parts.FRAME, moves.DEPTH, moves.FRAME_ROOM)
_CHOICE: Final = _Stack(1, moves.CHOICES, moves.CHOICE_ROOM)
_PENDING: Final = _Stack(parts.PART, moves.PENDING, moves.PENDING_ROOM)
