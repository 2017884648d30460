"""Value numbers that do not tell apart arrays which differ in dimensions of size 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, final

from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.ir.attributes import Constant
from lowtide.ir.traversal import post_order
from lowtide.ops.effects import has_side_effect
from lowtide.ops.table import TABLE
from lowtide.passes.matching import are_plain, dimensions
from lowtide.transforms.control_flow.call_sites import has_control_edges
from lowtide.transforms.control_flow.value_numbers import ValueNumbers

_UNIQUE: Final = frozenset(
    {*(Opcode.OPTIMIZATION_BARRIER, Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE)}
)


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
            else:
                found[x] = self.of_key(self._key(x, found))
        return found

    def _key(self, x: Instruction, found: Mapping[Instruction, int]) -> Hashable:
        if x.opcode in _UNIQUE or has_control_edges(x) or has_side_effect(x):
            return x
        if x.opcode is Opcode.PARAMETER or (
            x.opcode is Opcode.CONSTANT and x.attributes_as(Constant).literal.elided
        ):
            return x
        operands = [found[y] for y in x.operands]
        if TABLE[x.opcode].commutative:
            operands.sort()
        called = tuple([self._numbers.of_computation(y) for y in x.called_computations])
        form: Hashable = (x.attributes, x.shape, *[y.shape for y in x.operands])
        if are_plain(x, *x.operands):
            if TABLE[x.opcode].elementwise:
                form = (x.attributes, _squeezed(x.shape))
            elif x.opcode in _FORMS:
                form = (_FORMS[x.opcode](x), _squeezed(x.shape))
        return (x.opcode, tuple(operands), called, form)


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
