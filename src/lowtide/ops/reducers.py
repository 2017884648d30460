"""Reducers: computations that fold two values into one, by a plain operation or a choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir.computation import Computation
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape

_OF_TRUTH_VALUES: Final[Mapping[Opcode, Opcode]] = {
    Opcode.ADD: Opcode.OR,
    Opcode.MAXIMUM: Opcode.OR,
    Opcode.MULTIPLY: Opcode.AND,
    Opcode.MINIMUM: Opcode.AND,
}
REDUCERS: Final = frozenset(
    {Opcode.ADD, Opcode.AND, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.MULTIPLY, Opcode.OR, Opcode.XOR}
)
"""The associative and commutative operations of two numbers."""


def reducer_opcode(computation: Computation) -> Opcode | None:
    """Return the operation of `REDUCERS` that a computation of two scalars is, or None.

    Of truth values it is one of AND, OR and XOR, however it is written.
    """
    parameters = computation.parameters
    root = computation.root
    if len(parameters) != 2 or root.opcode not in REDUCERS:
        return None
    if set(root.operands) != set(parameters):
        return None
    shape = parameters[0].shape
    if shape.rank or parameters[1].shape is not shape or root.shape is not shape:
        return None
    if shape.element_type is ElementType.PRED:
        return _OF_TRUTH_VALUES.get(root.opcode, root.opcode)
    return root.opcode


_SELECTING: Final = frozenset(
    {
        *(Opcode.PARAMETER, Opcode.CONSTANT, Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT),
        *(Opcode.COMPARE, Opcode.SELECT, Opcode.AND, Opcode.OR, Opcode.NOT),
        *(Opcode.MINIMUM, Opcode.MAXIMUM),
    }
)


def selects(computation: Computation) -> bool:
    """Whether a reducer only chooses among its operands, as argmax does.

    Then its initial value may be taken into account any number of times.
    """
    return all(x.opcode in _SELECTING for x in computation.instructions.values())


def sum_of(result: Shape) -> Opcode:
    """Return the reduction that adds zeros to what one part has."""
    return Opcode.OR if result.element_type is ElementType.PRED else Opcode.ADD
