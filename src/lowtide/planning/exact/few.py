"""Exact packing of few buffers, in plain Python.

Some lowest packing is canonical: buffers taken by offset, each lies as low as those before it that
live with it let it. So buffers are placed at offsets that do not decrease, each at the height where
it rests, as in Moffitt ("MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
Machine Learning", 2023). A branch ends where at some step what is placed there and what is not yet
is too high together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import gcd
from typing import Final, final

import numpy as np

from lowtide.planning.problem import FREE, Int64Array, PackingProblem
from lowtide.records import dataclass
from lowtide.search.effort import Effort

MOST: Final = 24
"""So many buffers are few."""

_WORK: Final = {Effort.FAST: 300, Effort.DEFAULT: 15_000, Effort.PROOF: 15_000}
"""Buffers looked at before the search gives up."""

_TIMES: Final = 6
"""The part of the buffers that joins them in each turn."""


@dataclass(frozen=True, eq=False, slots=True)
class Few:
    """Offsets of a packing that is lower than asked for, None where none was found.

    With `ended` the search left nothing out: no packing is lower than that one, or else than was
    asked for.
    """

    offsets: Int64Array | None
    ended: bool


def lowest(problem: PackingProblem, below: int, target: int, effort: Effort) -> Few:
    """Return the lowest packing in the arena of less than `below` bytes; `target` is low enough.

    The problem has no regions, and a fixed offset is one in the arena. Low heights are refuted soon
    and high ones met soon, so that what lies between is halved, once the target was tried.
    """
    search = _Search(problem, _WORK[effort])
    best: list[int] | None = None
    unit = search.unit
    least, behind = -(-target // unit), -(-below // unit)
    height = least
    try:
        while least < behind:
            found = search.within(min(height * unit, below - 1))
            if found is None:
                least = height + 1
            else:
                best, behind = found, -(-search.height(found) // unit)
            height = (least + behind) // 2
    except _SpentError:
        pass
    offsets = None if best is None else np.array(best, np.int64)
    return Few(offsets, least >= behind)


class _SpentError(Exception):
    """The work is done that there may be."""


@final
class _Search:
    """Buffers by number; those with bytes are placed one by one, the others lie at 0."""

    def __init__(self, problem: PackingProblem, work: int) -> None:
        self.size: list[int] = problem.nbytes.tolist()
        self.alignment: list[int] = problem.alignment.tolist()
        self.fixed: list[int] = problem.fixed_offset.tolist()
        self.steps = _steps(problem)
        self.mask = [sum([1 << step for step in steps]) for steps in self.steps]
        held = [x for x in self.fixed if x != FREE]
        self.unit = max(1, gcd(*self.size, *self.alignment, *held))
        """What divides all offsets and ends, of buffers that are fixed too."""
        self.twin = self._twins()
        count = 1 + max([-1, *[x for steps in self.steps for x in steps]])
        powers = [x & -x for x in self.alignment]
        kinds = sorted(set(powers))
        self.kind = [kinds.index(x) for x in powers]
        self.rest = [[[x, 0] for x in kinds] for _ in range(count)]
        """By step powers of two that divide alignments, and the bytes of each still to place."""
        self.top = [0] * count
        """The end of what is placed, by step."""
        self.place = [0 if x == FREE else x for x in self.fixed]
        area = [x * len(y) for x, y in zip(self.size, self.steps, strict=True)]
        with_bytes = [item for item, size in enumerate(self.size) if size]
        self.order = sorted(with_bytes, key=lambda x: -area[x] * len(self.steps[x]))
        """The buffers with bytes, those first that are in the way of most."""
        count = len(self.order)
        self.counts = [*range(count // 2, count, max(1, count // _TIMES)), count]
        """How many of them are placed in turn: where those have no room, all have none."""
        self.limit = 0
        self.left = work
        self.apart: dict[frozenset[int], list[tuple[frozenset[int], list[int]]]] = {}
        """By what waits its parts that are connected in time, each with its steps."""
        self.failed: set[tuple[frozenset[int], int, tuple[int, ...]]] = set()
        """What waits, at which offset and above, on which tops: there is no room for it."""

    def within(self, limit: int) -> list[int] | None:
        """Return the offsets of a packing of at most `limit` bytes, None where there is none.

        Raises _SpentError where the work is done that there may be.
        """
        self.limit = limit
        for count in self.counts:
            self.failed.clear()
            waiting = frozenset(self.order[:count])
            for item in waiting:
                self._put_back(item)
            found = self._go_on(waiting, 0)
            for item in waiting:
                self._take(item)
            if not found:
                return None
        return self.place.copy()

    def height(self, offsets: list[int]) -> int:
        """Return the height of a packing."""
        return max([x + y for x, y in zip(offsets, self.size, strict=True)], default=0)

    def _twins(self) -> list[int]:
        """Per buffer an equal one of lower number, which lies no higher than it; -1 for none."""
        seen: dict[tuple[object, ...], int] = {}
        found = []
        for item, steps in enumerate(self.steps):
            kind = (self.size[item], self.alignment[item], steps, self.fixed[item])
            found.append(seen.get(kind, -1))
            seen[kind] = item
        return found

    def _go_on(self, waiting: frozenset[int], floor: int) -> bool:
        """Place what waits at the offset `floor` or above; return whether that was possible.

        All is as it was afterwards but `place`. What never lives together is placed by itself.
        """
        parts = self.apart.get(waiting)
        if parts is None:
            parts = self.apart[waiting] = self._parts(waiting)
        return all(self._placed(part, steps, floor) for part, steps in parts)

    def _placed(self, waiting: frozenset[int], steps: list[int], floor: int) -> bool:
        """The same for buffers that are connected in time, at some steps."""
        begins = [x if x > floor else floor for x in [self.top[step] for step in steps]]
        if not self._has_room(steps, begins):
            return False
        state = (waiting, floor, tuple(begins))
        if state in self.failed:
            return False
        for height, item in self._next(waiting, floor):
            before = [self.top[step] for step in self.steps[item]]
            for step in self.steps[item]:
                self.top[step] = height + self.size[item]
            self._take(item)
            self.place[item] = height
            found = self._go_on(waiting - {item}, height)
            for step, top in zip(self.steps[item], before, strict=True):
                self.top[step] = top
            self._put_back(item)
            if found:
                return True
        self.failed.add(state)
        return False

    def _parts(self, waiting: frozenset[int]) -> list[tuple[frozenset[int], list[int]]]:
        """Return the buffers that are connected by steps at which they live, and these steps."""
        parts: list[tuple[int, list[int]]] = []
        for item in sorted(waiting):
            mask, items = self.mask[item], [item]
            apart = []
            for part in parts:
                if part[0] & mask:
                    mask, items = mask | part[0], items + part[1]
                else:
                    apart.append(part)
            parts = [*apart, (mask, items)]
        return [
            (frozenset(items), sorted({step for item in items for step in self.steps[item]}))
            for _, items in parts
        ]

    def _put_back(self, item: int) -> None:
        for step in self.steps[item]:
            self.rest[step][self.kind[item]][1] += self.size[item]

    def _take(self, item: int) -> None:
        for step in self.steps[item]:
            self.rest[step][self.kind[item]][1] -= self.size[item]

    def _has_room(self, steps: list[int], begins: list[int]) -> bool:
        """Whether what waits at some steps may fit in, above where each of them begins.

        What is free below the first multiple of an alignment is for what has a smaller one.
        """
        for step, begin in zip(steps, begins, strict=True):
            end = begin
            for alignment, nbytes in self.rest[step]:
                if nbytes:
                    aligned = begin + -begin % alignment
                    end = (aligned if aligned > end else end) + nbytes
            if end > self.limit and end > begin:
                return False
        return True

    def _next(self, waiting: frozenset[int], floor: int) -> list[tuple[int, int]]:
        """Offset and number of the buffers that can come next, the lowest and largest first."""
        self.left -= len(waiting)
        if self.left < 0:
            raise _SpentError
        rests: dict[int, int] = {}
        least = self.limit
        for item in sorted(waiting):
            rest = max([self.top[step] for step in self.steps[item]], default=0)
            rest += -rest % self.alignment[item]
            fixed, end = self.fixed[item], rest + self.size[item]
            if fixed != FREE:
                if rest > fixed:
                    return []
                rest = fixed
            elif end > self.limit:
                return []
            elif end < least:
                least = end
            rests[item] = rest
        # What rests above the end of another could let that one lie below it.
        found = [(rest, x) for x, rest in rests.items() if floor <= rest < least]
        found = [x for x in found if self.twin[x[1]] not in waiting]
        found.sort(key=lambda x: (x[0], -self.size[x[1]], x[1]))
        for number, (_, item) in enumerate(found):
            if not self._may_be_lifted(item, rests):
                return found[: number + 1]
        return found

    def _may_be_lifted(self, item: int, rests: dict[int, int]) -> bool:
        """Whether something that waits can come to lie where an item rests."""
        if self.fixed[item] != FREE:
            return False
        mask, top = self.mask[item], rests[item] + self.size[item]
        return any(
            rest < top and other != item and self.mask[other] & mask
            for other, rest in rests.items()
        )


def _steps(problem: PackingProblem) -> list[tuple[int, ...]]:
    """The steps of each buffer at which some row begins: what lives together shares one.

    Steps at which no more lives than at another one are left out: they ask for nothing more.
    """
    begins = sorted(set(problem.first.tolist()))
    living = [0] * len(begins)
    """By step what lives there, a bit for each buffer."""
    rows = zip(problem.item.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True)
    for item, first, last in rows:
        for step in range(bisect_left(begins, first), bisect_right(begins, last)):
            living[step] |= 1 << item
    most: list[int] = []
    for live in sorted(set(living), key=int.bit_count, reverse=True):
        if not any(live & ~other == 0 for other in most):
            most.append(live)
    kept = sorted([living.index(live) for live in most])
    found = [[step for step in kept if living[step] >> item & 1] for item in range(len(problem))]
    numbers = {step: number for number, step in enumerate(kept)}
    return [tuple([numbers[step] for step in steps]) for steps in found]
