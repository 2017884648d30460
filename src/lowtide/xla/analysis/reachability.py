"""Instructions of one computation that wait for others, directly or through others.

Rows of bits are kept per instruction, half of a square of the number of instructions: 10,000 take
6 MB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from lowtide.ir import Computation, Instruction
from lowtide.ir.errors import InvalidModuleError
from lowtide.ir.traversal import post_order

Predecessors = Mapping[Instruction, Sequence[Instruction]]
"""For each instruction of a computation those that it waits for directly."""


def direct_predecessors(computation: Computation) -> dict[Instruction, tuple[Instruction, ...]]:
    """Return the operands and control predecessors of each instruction, none of them twice."""
    return {
        x: tuple(dict.fromkeys((*x.operands, *x.control_predecessors)))
        for x in computation.instructions.values()
    }


@final
class Reachability:
    """The transitive closure of some predecessors; it does not change once made.

    Get one from `reachability` or `closure`.
    """

    def __init__(self, sequence: Sequence[Instruction], predecessors: Predecessors) -> None:
        self._number = {instruction: i for i, instruction in enumerate(sequence)}
        self._rows: list[bytes] = []
        bits: list[int] = []
        for number, instruction in enumerate(sequence):
            row = 1 << number
            for predecessor in predecessors[instruction]:
                row |= bits[self._number[predecessor]]
            bits.append(row)
        for number, row in enumerate(bits):
            # A test of one bit of an integer would copy all of it.
            bits[number] = 0
            self._rows.append(row.to_bytes(number // 8 + 1, "little"))

    def reaches(self, first: Instruction, second: Instruction) -> bool:
        """Whether `second` waits for `first`, or is it; raises KeyError for strangers."""
        number, row = self._number[first], self._number[second]
        return number <= row and bool(self._rows[row][number >> 3] >> (number & 7) & 1)

    def connected(self, first: Instruction, second: Instruction) -> bool:
        """Whether one of two instructions waits for the other, or is it."""
        return self.reaches(first, second) or self.reaches(second, first)


def reachability(computation: Computation) -> Reachability:
    """Return the closure of operands and control predecessors."""
    return Reachability(post_order(computation), direct_predecessors(computation))


def closure(computation: Computation, predecessors: Predecessors) -> Reachability:
    """Return the closure of given predecessors, which name each instruction.

    Raises InvalidModuleError where an instruction is missing or waits for itself.
    """
    return Reachability(topological_order(computation, predecessors), predecessors)


def topological_order(
    computation: Computation, predecessors: Predecessors
) -> tuple[Instruction, ...]:
    """Return all instructions, each after those that it waits for; earlier created ones first.

    Raises InvalidModuleError as `closure` does.
    """
    waits: dict[Instruction, int] = {}
    followers: dict[Instruction, list[Instruction]] = {}
    for instruction in computation.instructions.values():
        if instruction not in predecessors:
            message = f"the partial order of %{computation.name} leaves it out"
            raise InvalidModuleError(message, instruction=instruction.name)
        distinct = dict.fromkeys(predecessors[instruction])
        waits[instruction] = len(distinct)
        for predecessor in distinct:
            followers.setdefault(predecessor, []).append(instruction)
    order = [instruction for instruction, count in waits.items() if not count]
    for instruction in order:
        for follower in followers.get(instruction, ()):
            waits[follower] -= 1
            if not waits[follower]:
                order.append(follower)
    if len(order) != len(waits):
        late = next(instruction for instruction, count in waits.items() if count)
        message = f"the partial order of %{computation.name} has a cycle before it"
        raise InvalidModuleError(message, instruction=late.name)
    return tuple(order)
