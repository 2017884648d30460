"""An order of the instructions of a computation to which further constraints can be added.

The algorithm is that of Pearce and Kelly ("A Dynamic Topological Sort Algorithm for Directed
Acyclic Graphs", 2006): a new edge costs a search between the places of its two ends only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import final

from lowtide.ir import Computation, Instruction
from lowtide.ir.traversal import post_order

Edge = tuple[Instruction, Instruction]


@final
class TopologicalOrder:
    """Operands, control predecessors and added constraints come before what waits for them."""

    def __init__(self, computation: Computation) -> None:
        self._order = post_order(computation)
        self._place = {instruction: i for i, instruction in enumerate(self._order)}
        self._after: dict[Instruction, dict[Instruction, None]] = {}
        self._before: dict[Instruction, dict[Instruction, None]] = {}

    def sequence(self) -> Sequence[Instruction]:
        """Return the instructions in order."""
        return self._order

    def constrain(self, edges: Iterable[Edge]) -> bool:
        """Make the first of each pair run before the second.

        Returns False, and adds none of them, where that would close a cycle.
        """
        added: list[Edge] = []
        for first, second in edges:
            if second in self._after.get(first, ()):
                continue
            if not self._precede(first, second):
                for a, b in added:
                    del self._after[a][b]
                    del self._before[b][a]
                return False
            self._after.setdefault(first, {})[second] = None
            self._before.setdefault(second, {})[first] = None
            added.append((first, second))
        return True

    def _precede(self, first: Instruction, second: Instruction) -> bool:
        """Move things so that `first` stands before `second`; False where `second` leads to it."""
        place = self._place
        low, high = place[second], place[first]
        if high < low:
            return True
        if first is second:
            return False
        forward = self._reach(second, self._successors, lambda x: place[x] <= high)
        if first in forward:
            return False
        backward = self._reach(first, self._predecessors, lambda x: place[x] >= low)
        moved = sorted(backward, key=place.__getitem__) + sorted(forward, key=place.__getitem__)
        for position, instruction in zip(sorted(map(place.__getitem__, moved)), moved, strict=True):
            place[instruction] = position
            self._order[position] = instruction
        return True

    def reaches(self, first: Instruction, second: Instruction, most: int) -> bool:
        """Whether `second` waits for `first`; False also where `most` steps do not tell."""
        place = self._place
        low = place[first]
        seen = {second}
        stack = [second]
        while stack and len(seen) <= most:
            for found in self._predecessors(stack.pop()):
                if found is first:
                    return True
                if found not in seen and place[found] > low:
                    seen.add(found)
                    stack.append(found)
        return False

    def _successors(self, instruction: Instruction) -> Iterable[Instruction]:
        yield from instruction.users
        yield from instruction.control_successors
        yield from self._after.get(instruction, ())

    def _predecessors(self, instruction: Instruction) -> Iterable[Instruction]:
        yield from instruction.operands
        yield from instruction.control_predecessors
        yield from self._before.get(instruction, ())

    def _reach(
        self,
        start: Instruction,
        following: Callable[[Instruction], Iterable[Instruction]],
        within: Callable[[Instruction], bool],
    ) -> set[Instruction]:
        seen = {start}
        stack = [start]
        while stack:
            for found in following(stack.pop()):
                if found not in seen and within(found):
                    seen.add(found)
                    stack.append(found)
        return seen
