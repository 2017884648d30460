"""Value numbers that do not tell apart arrays which differ in dimensions of size 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, final

from lowtide.analysis.value_numbers import ValueNumbers
from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.ir.traversal import post_order
from lowtide.ops.table import TABLE
from lowtide.passes.matching import are_plain, dimensions


@final
class SqueezedNumbers:
    """Numbers for instructions of several computations, equal for what is computed alike.

    Arrays of one number have the same elements in the same order, and the same sizes but for those
    of 1. What has side effects, control edges or random results has a number of its own, and so do
    parameters, barriers and constants of unknown value.
    """

    def __init__(self) -> None:
        self._numbers = ValueNumbers()

    def of_key(self, key: Hashable) -> int:
        """Return the number of any value, the same for equal ones."""
        return self._numbers.of_key(key)

    def of_instructions(
        self, computation: Computation, given: Mapping[Instruction, int]
    ) -> dict[Instruction, int]:
        """Return the numbers of all instructions; those in `given` have theirs already."""
        found: dict[Instruction, int] = {}
        for x in post_order(computation):
            if x in given:
                found[x] = given[x]
            elif passes_on(x):
                found[x] = found[x.operands[0]]
            elif x.opcode is Opcode.PARAMETER:
                found[x] = self.of_key(x)
            else:
                found[x] = self._numbers.of(x, found, _form)
        return found


def _form(x: Instruction) -> Hashable:
    """What of attributes and shapes tells the elements of an array, and their order."""
    if are_plain(x, *x.operands):
        if TABLE[x.opcode].elementwise:
            return (x.attributes, _squeezed(x.shape))
        if x.opcode in _FORMS:
            return (_FORMS[x.opcode](x), _squeezed(x.shape))
    return (x.attributes, x.shape, *[y.shape for y in x.operands])


def passes_on(x: Instruction) -> bool:
    """Whether an instruction only adds or removes dimensions of size 1."""
    if x.opcode is not Opcode.RESHAPE or not are_plain(x, x.operands[0]):
        return False
    return _squeezed(x.shape) == _squeezed(x.operands[0].shape)


def _squeezed(shape: Shape) -> Hashable:
    return (shape.element_type, tuple([n for n in shape.dimensions if n != 1]))


def _places(shape: Shape, chosen: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of a shape that are larger than 1, counted without those of size 1."""
    places: dict[int, int] = {}
    for i, n in enumerate(shape.dimensions):
        if n != 1:
            places[i] = len(places)
    return tuple([places[i] for i in chosen if i in places])


_FORMS: Final[Mapping[Opcode, Callable[[Instruction], Hashable]]] = {
    Opcode.BROADCAST: lambda x: _places(x.shape, dimensions(x)),
    Opcode.REDUCE: lambda x: _places(x.operands[0].shape, sorted(dimensions(x))),
    Opcode.TRANSPOSE: lambda x: _places(x.operands[0].shape, dimensions(x)),
}
"""Where operations on dimensions take them from or put them, without those of size 1."""
