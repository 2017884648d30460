"""Value numbers: equal numbers for what is computed in the same way.

After Alpern, Wegman and Zadeck, "Detecting equality of variables in programs" (1988).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, final

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.traversal import callees, post_order
from lowtide.ops.effects import has_side_effect
from lowtide.ops.table import TABLE
from lowtide.transforms.control_flow.call_sites import has_control_edges
from lowtide.transforms.control_flow.editing import element_index

_UNIQUE: Final = frozenset(
    {Opcode.OPTIMIZATION_BARRIER, Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE}
)


@final
class ValueNumbers:
    """Numbers for instructions and computations; those of one object can be compared.

    What has side effects, control edges or random results has a number of its own, and so do
    constants of unknown value. So do optimization barriers, unless they are looked through: then
    they are what they pass on. Sources and shardings do not count.
    """

    def __init__(self, *, through_barriers: bool = False) -> None:
        self._through_barriers = through_barriers
        self._numbers: dict[Hashable, int] = {}
        self._computations: dict[Computation, int] = {}

    def of_key(self, key: Hashable) -> int:
        """Return the number of any value, the same for equal ones."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of_instructions(
        self, computation: Computation, given: Mapping[Instruction, int]
    ) -> dict[Instruction, int]:
        """Return the numbers of all instructions; those in `given` have theirs already."""
        found: dict[Instruction, int] = {}
        for x in post_order(computation):
            number = given.get(x)
            found[x] = self._of(x, found) if number is None else number
        return found

    def _of(self, x: Instruction, found: Mapping[Instruction, int]) -> int:
        if self._through_barriers and x.opcode is Opcode.OPTIMIZATION_BARRIER:
            return found[x.operands[0]]
        if x.opcode is Opcode.GET_TUPLE_ELEMENT:
            source = self._source(x.operands[0])
            if source.opcode is Opcode.TUPLE:
                return found[source.operands[element_index(x)]]
        return self.of_key(self._key(x, found))

    def _source(self, x: Instruction) -> Instruction:
        """The value that an instruction is, before barriers that are looked through."""
        while self._through_barriers and x.opcode is Opcode.OPTIMIZATION_BARRIER:
            x = x.operands[0]
        return x

    def _key(self, x: Instruction, found: Mapping[Instruction, int]) -> Hashable:
        if x.opcode in _UNIQUE or has_control_edges(x) or has_side_effect(x):
            return x
        if x.opcode is Opcode.CONSTANT and x.attributes_as(Constant).literal.elided:
            return x
        operands = [found[y] for y in x.operands]
        if TABLE[x.opcode].commutative:
            operands.sort()
        called = tuple([self.of_computation(y) for y in x.called_computations])
        return (x.opcode, tuple(operands), x.attributes, called, x.shape)

    def of_computation(self, computation: Computation) -> int:
        """Return the number of a computation: the same for those that compute the same."""
        stack = [computation]
        while stack:
            current = stack[-1]
            if current in self._computations:
                stack.pop()
                continue
            waiting = [y for y in callees(current) if y not in self._computations]
            if waiting:
                stack += waiting
                continue
            self._computations[current] = self._number(current)
            stack.pop()
        return self._computations[computation]

    def _number(self, computation: Computation) -> int:
        values = computation.instructions.values()
        if any(has_control_edges(x) or has_side_effect(x) for x in values):
            return self.of_key(computation)
        given = {
            x: self.of_key(("parameter", number, x.shape))
            for number, x in enumerate(computation.parameters)
        }
        root = self.of_instructions(computation, given)[computation.root]
        shapes = tuple([x.shape for x in computation.parameters])
        return self.of_key(("computation", root, shapes, computation.execution_thread))
