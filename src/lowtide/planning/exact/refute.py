"""A packing of a height, or the answer that there is none; plain Python.

Buffers are placed with addresses that do not decrease, each as low as what is placed lets it. That
is right since in a packing with the least sum of addresses no buffer can be lowered by itself:

* What is placed next comes after what was placed last in order of rest height, then number. It
  rests below the top of every other one that could be placed: else that one could be lowered.
* A free buffer that nothing can come under is not passed over, nor is a fixed one.
* Of twins, the same in size, alignment and time, the one with the lower number lies lower.
* A node is closed by a step at which what is left needs more than the height, with rest heights as
  release dates of a machine. All but the topmost item take multiples of the common alignment there.
* Where what is left falls into parts, one part that has no packing is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from itertools import pairwise
from math import gcd
from typing import Final

from lowtide.planning.exact.instance import Instance
from lowtide.planning.exact.outcome import Outcome
from lowtide.planning.problem import FREE
from lowtide.records import dataclass

_NODES_BETWEEN_CHECKS: Final = 32

Last = tuple[int, int]
"""Address and number of what was placed last."""


@dataclass(slots=True)
class _Frame:
    """A node that waits for the result of a subtree.

    `parts` are sets of items that are left to look at, or None in a node whose `children` are
    items.
    """

    left: int
    last: Last
    children: list[int] = field(default_factory=list)
    parts: list[int] | None = None
    next: int = 0
    found: list[tuple[int, int]] = field(default_factory=list)
    undo: list[tuple[int, int]] = field(default_factory=list)


class RefutationTree:
    """The search for a packing of an instance of at most `height`; sets of items are bit masks.

    `lives` says per item when it is live: equally for those that are live at the same time.
    `addresses` is the packing that it found.
    """

    def __init__(
        self, instance: Instance, lives: Sequence[Hashable], height: int, most_nodes: int
    ) -> None:
        self.height = height
        self.nodes = most_nodes
        self.addresses: list[int] = []
        self.size: list[int] = instance.size.tolist()
        self.alignment: list[int] = instance.alignment.tolist()
        self.fixed: list[int] = instance.fixed.tolist()
        starts, sections = instance.starts.tolist(), instance.sections.tolist()
        self.sections = [sections[a:b] for a, b in pairwise(starts)]
        self.cover = [0] * len(instance.steps)
        for i, inside in enumerate(self.sections):
            for t in inside:
                self.cover[t] |= 1 << i
        self.neighbours = [self._neighbours(i) for i in range(len(self.size))]
        self.twin = self._twins(lives)
        self.suspects = list(range(len(self.cover)))
        self.rest = [max(0, place) for place in self.fixed]

    def _neighbours(self, i: int) -> int:
        found = 0
        for t in self.sections[i]:
            found |= self.cover[t]
        return found & ~(1 << i)

    def _twins(self, lives: Sequence[Hashable]) -> list[int]:
        last: dict[tuple[int, int, Hashable], int] = {}
        twins = []
        for i, life in enumerate(lives):
            key = (self.size[i], self.alignment[i], life)
            twins.append(last.get(key, -1) if self.fixed[i] == FREE else -1)
            if self.fixed[i] == FREE:
                last[key] = i
        return twins

    def search(self, check: Callable[[], None] | None = None) -> Outcome:
        """Return whether there is a packing, or `OPEN` where there are too few nodes to tell.

        `check` is called now and then, and may raise an exception to end the search.
        """
        stack: list[_Frame] = []
        node: tuple[int, Last] | None = ((1 << len(self.size)) - 1, (-1, -1))
        result: list[tuple[int, int]] | None = None
        while True:
            if node is not None:
                if self.nodes <= 0:
                    return Outcome.OPEN
                self.nodes -= 1
                if check is not None and self.nodes % _NODES_BETWEEN_CHECKS == 0:
                    check()
                opened, result = self._open(*node)
                node = None
                if opened is not None:
                    stack.append(opened)
                    node = self._advance(opened)
                    result = None
            elif not stack:
                break
            else:
                node, result = self._returned(stack, result)
        if result is None:
            return Outcome.REFUTED
        places = dict(result)
        self.addresses = [places[i] for i in range(len(self.size))]
        return Outcome.FITS

    def _open(self, left: int, last: Last) -> tuple[_Frame | None, list[tuple[int, int]] | None]:
        """Return the frame of a node, or its result: none for a closed one, nothing to place."""
        if not left:
            return None, []
        if self._is_closed(left, last):
            return None, None
        frame = _Frame(left, last)
        parts = self._parts(left)
        if len(parts) > 1:
            frame.parts = sorted(parts, key=self._slack)
        else:
            frame.children = self._children(left, last)
        return frame, None

    def _advance(self, frame: _Frame) -> tuple[int, Last] | None:
        """Return the next node below a frame, or None where there is none."""
        number = frame.next
        frame.next += 1
        if frame.parts is not None:
            if number == len(frame.parts):
                return None
            return frame.parts[number], frame.last
        if number >= len(frame.children):
            return None
        i = frame.children[number]
        last = (self.rest[i], i)
        frame.undo = self._place(i, frame.left)
        return frame.left & ~(1 << i), last

    def _returned(
        self, stack: list[_Frame], result: list[tuple[int, int]] | None
    ) -> tuple[tuple[int, Last] | None, list[tuple[int, int]] | None]:
        """Give the result of a subtree to the frame above; return the next node, or a result."""
        frame = stack[-1]
        for i, rest in frame.undo:
            self.rest[i] = rest
        frame.undo = []
        if frame.parts is not None and result is None:
            stack.pop()
            return None, None
        if result is not None:
            frame.found += result
            if frame.parts is None:
                i = frame.children[frame.next - 1]
                stack.pop()
                return None, [*frame.found, (i, self.rest[i])]
        node = self._advance(frame)
        if node is None:
            stack.pop()
            return None, frame.found if frame.parts is not None else None
        return node, None

    def _members(self, mask: int) -> list[int]:
        found = []
        while mask:
            low = mask & -mask
            found.append(low.bit_length() - 1)
            mask ^= low
        return found

    def _place(self, i: int, left: int) -> list[tuple[int, int]]:
        """Raise the rest heights of what is left beside `i`; return the old ones."""
        top = self.rest[i] + self.size[i]
        undo = []
        for j in self._members(self.neighbours[i] & left):
            if self.fixed[j] == FREE and self.rest[j] < top:
                undo.append((j, self.rest[j]))
                self.rest[j] = -(-top // self.alignment[j]) * self.alignment[j]
        return undo

    def _is_closed(self, left: int, last: Last) -> bool:
        """Whether a step has no room; what had none before is looked at first."""
        for position, t in enumerate(self.suspects):
            here = self.cover[t] & left
            if here and self._needed(here, last) > self.height:
                self.suspects.insert(0, self.suspects.pop(position))
                return True
        return False

    def _needed(self, here: int, last: Last) -> int:
        """Return how high what is live at one step has to reach."""
        members = self._members(here)
        common = gcd(*[self.alignment[i] for i in members])
        jobs = []
        for i in members:
            low = self.fixed[i]
            if low == FREE:
                low = -(-max(self.rest[i], last[0]) // self.alignment[i]) * self.alignment[i]
            jobs.append((low, self.size[i]))
        jobs.sort(reverse=True)
        total = padding = most = 0
        for low, size in jobs:
            rounded = -(-size // common) * common
            total += rounded
            padding = max(padding, rounded - size)
            most = max(most, low + total - padding)
        return most

    def _parts(self, left: int) -> list[int]:
        """Return what hangs together in time, lowest number first."""
        parts = []
        while left:
            part = waiting = left & -left
            while waiting:
                low = waiting & -waiting
                new = self.neighbours[low.bit_length() - 1] & left & ~part
                part |= new
                waiting = (waiting ^ low) | new
            parts.append(part)
            left &= ~part
        return parts

    def _slack(self, part: int) -> int:
        least = self.height
        for cover in self.cover:
            if cover & part:
                least = min(least, self.height - self._needed(cover & part, (0, -1)))
        return least

    def _children(self, left: int, last: Last) -> list[int]:
        """Return what may be placed next, by rest height, then number."""
        children: list[int] = []
        top = self.height + 1
        for i in sorted(self._members(left), key=lambda i: (self.rest[i], i)):
            if self.rest[i] >= top:
                break
            if (self.rest[i], i) > last and self._may_lie(i, left):
                children.append(i)
            end = self.rest[i] + self.size[i]
            under = self._members(self.neighbours[i] & left)
            if self.fixed[i] != FREE or all(self.rest[j] >= end for j in under):
                break
            top = min(top, end)
        return children

    def _may_lie(self, i: int, left: int) -> bool:
        end = self.rest[i] + self.size[i]
        if end > self.height or (self.twin[i] >= 0 and left >> self.twin[i] & 1):
            return False
        return all(
            self.fixed[j] == FREE or self.fixed[j] >= end
            for j in self._members(self.neighbours[i] & left)
        )
