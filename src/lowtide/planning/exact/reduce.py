"""The items that a search has to place: all but those that always find room or lie well."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.planning.exact.items import Items
from lowtide.planning.problem import FREE, Int64Array
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Reduced:
    """`core` are the items to search for; `easy` those to place after all others, in that order."""

    core: Int64Array
    easy: Int64Array


def reduced(items: Items, addresses: Int64Array, height: int) -> Reduced:
    """Return which items to search for at a height, given a packing that is higher, perhaps.

    An item is easy if the others that live during its life leave a hole for it wherever they lie,
    not counting items that are easy without it. The others fall into parts of time; those in which
    the packing is low enough stay as they are.
    """
    easy = _easy(items, height)
    hard = np.ones(len(items), bool)
    hard[easy] = False
    part = _parts(items, hard)
    high = (addresses + items.size > height) & hard
    wanted = np.zeros(int(part.max(initial=-1)) + 1, bool)
    wanted[part[high]] = True
    core = np.flatnonzero(hard & wanted[part]) if len(wanted) else np.zeros(0, np.int64)
    return Reduced(core, easy[::-1])


_ROUNDS: Final = 30
"""Most rounds in which easy items are taken away."""


def _easy(items: Items, height: int) -> Int64Array:
    """Return items in an order in which each has room besides all that come later or are hard.

    A neighbour of `s` bytes rules out fewer than `s + size` addresses for an item of `size`, one in
    `alignment` of which counts.
    """
    here = np.flatnonzero(items.fixed == FREE)
    left = np.ones(len(items), bool)
    found = []
    for _ in range(_ROUNDS):
        alignment, size = items.alignment[here], items.size[here]
        count, total = _neighbours(items, left, here)
        places = (height - size) // alignment + 1
        taken = (total + count * (size + alignment - 2)) // alignment
        chosen = here[taken < places]
        if not len(chosen):
            break
        found.append(chosen)
        left[chosen] = False
        here = here[left[here]]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _neighbours(
    items: Items, left: npt.NDArray[np.bool_], here: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return how many other items live during the life of each, and their bytes, at most."""
    lower = np.sort(items.lower[left])
    upper = np.sort(items.upper[left])
    by_lower = items.size[left][np.argsort(items.lower[left], kind="stable")]
    by_upper = items.size[left][np.argsort(items.upper[left], kind="stable")]
    begun = np.searchsorted(lower, items.upper[here], side="right")
    ended = np.searchsorted(upper, items.lower[here], side="left")
    lower_sums = np.concatenate([[0], np.cumsum(by_lower)])
    upper_sums = np.concatenate([[0], np.cumsum(by_upper)])
    return begun - ended - 1, lower_sums[begun] - upper_sums[ended] - items.size[here]


def _parts(items: Items, chosen: npt.NDArray[np.bool_]) -> Int64Array:
    """Return a number for each item: chosen ones with different numbers never live at once."""
    order = np.argsort(items.lower[chosen], kind="stable")
    numbers = np.flatnonzero(chosen)[order]
    reach = np.maximum.accumulate(items.upper[numbers])
    part = np.zeros(len(items), np.int64)
    if len(numbers):
        cuts = items.lower[numbers][1:] > reach[:-1]
        part[numbers] = np.concatenate([[0], np.cumsum(cuts)])
    return part


class ReducedLayout:
    """Addresses of all items, of which some are about to change; equal items never overlap."""

    def __init__(self, items: Items, addresses: Int64Array) -> None:
        self.items = items
        self.addresses = addresses.copy()
        self._begins = np.searchsorted(items.item, np.arange(len(items) + 1))

    def settle(self, moved: Int64Array, easy: Int64Array, height: int) -> None:
        """Find places for the easy items that are in the way of those that moved, or too high.

        Each has room besides the items that are not easy, and easy ones before it in `easy`; those
        after it give way.
        """
        position = np.full(len(self.items), -1)
        position[easy] = np.arange(len(easy))
        high = easy[(self.addresses + self.items.size)[easy] > height]
        waiting = set(position[high].tolist())
        for i in moved.tolist():
            hit = position[self._hit(i)]
            waiting.update(hit[hit >= 0].tolist())
        queue = sorted(waiting)
        while queue:
            number = heappop(queue)
            i = int(easy[number])
            near = self._neighbours(i)
            self.addresses[i] = self._hole(near[position[near] < number], i)
            hit = position[self._hit(i)]
            for other in hit[hit > number].tolist():
                if other not in waiting:
                    waiting.add(other)
                    heappush(queue, other)

    def _neighbours(self, i: int) -> Int64Array:
        """Return the other items that live at some time together with one."""
        items = self.items
        met = np.zeros(len(items.item), bool)
        for row in range(int(self._begins[i]), int(self._begins[i + 1])):
            met |= (items.first <= items.last[row]) & (items.last >= items.first[row])
        near: Int64Array = np.unique(items.item[met])
        others: Int64Array = near[near != i]
        return others

    def _hit(self, i: int) -> Int64Array:
        """Return the items that overlap one, in time and place."""
        near = self._neighbours(i)
        begin, end = self.addresses[near], (self.addresses + self.items.size)[near]
        place, size = self.addresses[i], self.items.size[i]
        hit: Int64Array = near[(begin < place + size) & (end > place)]
        return hit

    def _hole(self, others: Int64Array, i: int) -> int:
        """Return the lowest place for an item among others."""
        order = np.argsort(self.addresses[others], kind="stable")
        begin = self.addresses[others][order]
        end = begin + self.items.size[others][order]
        alignment = int(self.items.alignment[i])
        behind = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(end)])
        start = -(-behind // alignment) * alignment
        room = np.append(begin, np.iinfo(np.int64).max) - start
        return int(start[np.flatnonzero(room >= self.items.size[i])[0]])
