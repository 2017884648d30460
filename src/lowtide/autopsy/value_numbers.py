"""Numbers for values: equal ones where the same is computed from the same."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.traversal import post_order


class ValueNumbers:
    """Gives the results of instructions numbers.

    Two instructions have one number where opcode, shape and attributes are equal, and the numbers
    of operands and called computations. Parameters have numbers of their own.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], int] = {}
        self._computations: dict[Computation, int] = {}
        self.number: dict[Instruction, int] = {}
        """The numbers given so far."""

    def find(self, instruction: Instruction) -> int:
        """Give an instruction its number, that of an equal one if there is any."""
        operands = [self.number[operand] for operand in instruction.operands]
        found = self.number[instruction] = self._of(instruction, operands)
        return found

    def make(self, instruction: Instruction) -> int:
        """Give an instruction a number that nothing else has."""
        found = self.number[instruction] = self._number(("alone", len(self._known)))
        return found

    def _of(self, x: Instruction, operands: Sequence[int]) -> int:
        if x.opcode is Opcode.PARAMETER:
            return self._number(("alone", len(self._known)))
        called = tuple([self._computation(callee) for callee in x.called_computations])
        return self._number((x.opcode, x.shape, x.attributes, tuple(operands), called))

    def _computation(self, computation: Computation) -> int:
        """The number of a called computation, as a function of its parameters."""
        known = self._computations.get(computation)
        if known is None:
            inside = {
                x: self._number(("argument", i)) for i, x in enumerate(computation.parameters)
            }
            for x in post_order(computation):
                if x not in inside:
                    inside[x] = self._of(x, [inside[operand] for operand in x.operands])
            known = self._computations[computation] = inside[computation.root]
        return known

    def _number(self, key: tuple[object, ...]) -> int:
        return self._known.setdefault(key, len(self._known))
