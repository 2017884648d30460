"""Reductions that devices can finish together: one plain operation."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Computation, ElementType, Opcode, Shape

_PLAIN: Final = frozenset(
    {Opcode.ADD, Opcode.MULTIPLY, Opcode.MINIMUM, Opcode.MAXIMUM, Opcode.AND, Opcode.OR}
)


def plain_reduction(computation: Computation) -> Opcode | None:
    """Return the operation that a computation applies to its two parameters, in either order.

    None where it does more, or something that devices cannot finish together.
    """
    root = computation.root
    if len(computation.parameters) != 2 or root.opcode not in _PLAIN:
        return None
    first, second = computation.parameters
    if root.operands not in ((first, second), (second, first)):
        return None
    if root.shape.rank or first.shape.element_type is not root.shape.element_type:
        return None
    if first.shape.element_type is ElementType.PRED:
        is_logical = root.opcode in (Opcode.AND, Opcode.OR)
        return root.opcode if is_logical else None
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
    """Return the reduction that adds zeros to what one device has."""
    return Opcode.OR if result.element_type is ElementType.PRED else Opcode.ADD
