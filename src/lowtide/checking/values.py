"""The values of each computation: what is new at which instruction, and what is passed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from lowtide.checking.elements import CheckedElements
from lowtide.checking.forwarding import NEW, Values, forwarded, may_forward
from lowtide.checking.order import CheckedOrder
from lowtide.ir import Computation, Instruction, Opcode

Renames = Callable[[Instruction], bool]
"""Whether the plan gives an operation that `may_forward` and its operand one place."""


@dataclass(frozen=True, eq=False, slots=True)
class ComputationValues:
    """The values of one computation, numbered; each has a maker and a number of its element.

    `of` has per instruction the values of the elements of its result. `made` has the numbers of
    those elements that are new with it, for instructions that have such. Values returned by a call
    are `made` at the call although they are made in the callee. `parameters` are the values of
    the elements of all parameters, in order.
    """

    of: dict[Instruction, Values] = field(default_factory=dict)
    made: dict[Instruction, tuple[int, ...]] = field(default_factory=dict)
    maker: list[tuple[Instruction, int]] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.maker)


def find_values(
    order: CheckedOrder, elements: CheckedElements, renames: Renames
) -> dict[Computation, ComputationValues]:
    """Return the values of all computations that run."""
    found: dict[Computation, ComputationValues] = {}
    for computation in order.computations:
        found[computation] = _Finder(found, elements, renames).run(order, computation)
    return found


class _Finder:
    def __init__(
        self,
        known: Mapping[Computation, ComputationValues],
        elements: CheckedElements,
        renames: Renames,
    ) -> None:
        self.known = known
        self.elements = elements
        self.renames = renames
        self.found = ComputationValues()

    def run(self, order: CheckedOrder, computation: Computation) -> ComputationValues:
        found = self.found
        for instruction in order.sequences[computation]:
            operands = [found.of[x] for x in instruction.operands]
            values = self._passed_on(instruction, operands)
            if values is None:
                values = (NEW,) * self.elements.count(instruction.shape)
            if NEW in values:
                values = self._number(instruction, values)
            found.of[instruction] = values
        for parameter in computation.parameters:
            found.parameters.extend(found.of[parameter])
        return found

    def _number(self, instruction: Instruction, values: Values) -> Values:
        found = self.found
        made = tuple([i for i, value in enumerate(values) if value == NEW])
        first = found.count
        found.maker.extend([(instruction, i) for i in made])
        found.made[instruction] = made
        if len(made) == len(values):
            return tuple(range(first, first + len(made)))
        numbers = iter(range(first, found.count))
        return tuple([next(numbers) if value == NEW else value for value in values])

    def _passed_on(self, instruction: Instruction, operands: Sequence[Values]) -> Values | None:
        if instruction.opcode is Opcode.WHILE:
            return self._while(instruction, operands[0])
        if instruction.opcode is Opcode.CONDITIONAL:
            return self._conditional(instruction, operands)
        if instruction.opcode is Opcode.CALL:
            return self._returned(instruction, tuple(chain.from_iterable(operands)), 0)
        if instruction.opcode is Opcode.ASYNC_START:
            return self._async_start(instruction, operands)
        if may_forward(instruction) and self.renames(instruction):
            return operands[0]
        return forwarded(instruction, operands, self.elements)

    def _returned(self, instruction: Instruction, given: Values, callee: int) -> Values:
        """What a callee returns: values that it was given, and new ones."""
        computation = instruction.called_computations[callee]
        inner = self.known[computation]
        outer = dict(zip(inner.parameters, given, strict=True))
        return tuple([outer.get(value, NEW) for value in inner.of[computation.root]])

    def _async_start(self, instruction: Instruction, operands: Sequence[Values]) -> Values:
        shape = instruction.shape
        given = tuple(chain.from_iterable(operands))
        values = [NEW] * self.elements.count(shape)
        first = self.elements.part(shape, (0,))
        values[first.stop - len(given) : first.stop] = given
        values[self.elements.part(shape, (1,))] = self._returned(instruction, given, 0)
        return tuple(values)

    def _conditional(self, instruction: Instruction, operands: Sequence[Values]) -> Values:
        """An element is passed on where all branches return one and the same value."""
        branches = [
            self._returned(instruction, given, number) for number, given in enumerate(operands[1:])
        ]
        return tuple(
            [values[0] if len(set(values)) == 1 else NEW for values in zip(*branches, strict=True)]
        )

    def _while(self, instruction: Instruction, initial: Values) -> Values:
        """An element is passed on where the body returns it, or one that began as the same."""
        body = instruction.called_computations[1]
        inner = self.known[body]
        place = {value: number for number, value in enumerate(inner.parameters)}
        source = [place.get(value, NEW) for value in inner.of[body.root]]
        followers: dict[int, list[int]] = {}
        for number, before in enumerate(source):
            followers.setdefault(before, []).append(number)
        changed = list(followers.get(NEW, ()))
        changed += [
            number
            for number, before in enumerate(source)
            if before != NEW and initial[before] != initial[number]
        ]
        reached = set(changed)
        while changed:
            for number in followers.get(changed.pop(), ()):
                if number not in reached:
                    reached.add(number)
                    changed.append(number)
        return tuple([NEW if i in reached else value for i, value in enumerate(initial)])
