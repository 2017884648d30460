"""The least memory of all compilations of a small computation, by trying all of them.

A state is what is stored and which operations have run that run once. All kernels are tried from
each: those that store whatever can be computed of what is stored, and those around an operation
that runs once, with what may run behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain, combinations

from lowtide.ir import Computation, Instruction, Opcode

APART = {Opcode.DOT, Opcode.REDUCE_WINDOW}
IN_PLACE = {Opcode.SORT, Opcode.SCATTER}
BEHIND = {Opcode.ADD, Opcode.MULTIPLY, Opcode.NEGATE, Opcode.CONVERT, Opcode.RESHAPE}

State = tuple[frozenset[Instruction], frozenset[Instruction]]


def is_once(x: Instruction) -> bool:
    return x.opcode in APART | IN_PLACE


def subsets(items: frozenset[Instruction]) -> Iterator[frozenset[Instruction]]:
    ordered = sorted(items, key=lambda x: x.name)
    chosen = chain.from_iterable(combinations(ordered, n) for n in range(len(ordered) + 1))
    return (frozenset(x) for x in chosen)


class Search:
    """All compilations of a computation whose parameters are donated, without constants."""

    def __init__(self, computation: Computation) -> None:
        self.all = [*computation.instructions.values()]
        root = computation.root
        self.kept = frozenset(root.operands if root.opcode is Opcode.TUPLE else [root])
        self.all = [x for x in self.all if x.opcode is not Opcode.TUPLE]
        self.given = frozenset(x for x in self.all if x.opcode is Opcode.PARAMETER)

    def least(self) -> int:
        """Return the least of what is in memory at the largest moment of a compilation."""
        start = (self.given, frozenset[Instruction]())
        best, heap, serial = {start: self.nbytes(self.given)}, [], 0
        heappush(heap, (best[start], serial, start))
        every = frozenset(x for x in self.all if is_once(x))
        while heap:
            cost, _, state = heappop(heap)
            if cost > best[state]:
                continue
            if state[1] == every and self.kept <= state[0]:
                return cost
            for during, after in self.steps(state):
                reached = max(cost, during)
                if reached < best.get(after, 1 << 60):
                    best[after] = reached
                    serial += 1
                    heappush(heap, (reached, serial, after))
        raise AssertionError("no compilation ends")

    def nbytes(self, stored: frozenset[Instruction]) -> int:
        return sum([x.shape.nbytes for x in stored])

    def free(self, stored: frozenset[Instruction]) -> frozenset[Instruction]:
        """What can be computed of stored values without an operation that runs once."""
        found = set(stored)
        for x in self.all:
            if not is_once(x) and x not in self.given and found.issuperset(x.operands):
                found.add(x)
        return frozenset(found)

    def behind(self, x: Instruction, reached: frozenset[Instruction]) -> frozenset[Instruction]:
        """What the kernel of an operation can store: its result, and what runs behind it."""
        after = {x}
        for y in self.all:
            known = all(z in after or z in reached for z in y.operands)
            if known and y.opcode in BEHIND and not after.isdisjoint(y.operands):
                after.add(y)
        return frozenset(after)

    def steps(self, state: State) -> Iterator[tuple[int, State]]:
        stored, ran = state
        size, reached = self.nbytes(stored), self.free(stored)
        for other in subsets(reached):
            yield max(size, self.nbytes(other)), (other, ran)
        for x in self.all:
            if not is_once(x) or x in ran or not reached.issuperset(x.operands):
                continue
            for made in subsets(self.behind(x, reached)):
                both, after = stored | made, ran | {x}
                if x.opcode in APART:
                    yield self.nbytes(both), (both, after)
                else:
                    for left in subsets(both):
                        yield max(size, self.nbytes(left)), (left, after)
