"""Cost: how much one operation computes and how many bytes it touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lowtide.ir.shape import Shape
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one execution, called computations included.

    `flops` counts arithmetic on elements (a multiply-add is two), `transcendentals` functions such
    as exp, `bytes_accessed` bytes read plus bytes written. `unknown` counts the instructions, e.g.
    custom calls, whose work is not known and therefore missing from the other three.
    """

    flops: float = 0
    transcendentals: float = 0
    bytes_accessed: float = 0
    unknown: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes_accessed + other.bytes_accessed,
            self.unknown + other.unknown,
        )

    def times(self, count: float) -> Cost:
        """Return the arithmetic of `count` executions; bytes are left out.

        For computations applied per element, whose values live in registers.
        """
        return Cost(self.flops * count, self.transcendentals * count, 0, self.unknown)


NO_COST: Final = Cost()
UNKNOWN_COST: Final = Cost(unknown=1)

CostRule = Callable[[Shape, Sequence[Shape], Any, Sequence[Cost]], Cost]
"""(result shape, operand shapes, attributes, costs of the called computations) -> cost."""


def bytes_touched(result: Shape, operands: Sequence[Shape]) -> int:
    """Return the bytes of all operands and of the result; of a tuple operand its index table."""
    written = result.leaf_nbytes if result.is_tuple else result.nbytes
    return written + sum([x.nbytes for x in operands])


def no_cost(
    result: Shape, operands: Sequence[Shape], attributes: Any, called: Sequence[Cost]
) -> Cost:
    """Return zero: nothing is computed and nothing moves."""
    return NO_COST


def moves_all(
    result: Shape, operands: Sequence[Shape], attributes: Any, called: Sequence[Cost]
) -> Cost:
    """Return the cost of reading all operands and writing the result, without arithmetic."""
    return Cost(bytes_accessed=bytes_touched(result, operands))


def flop_per_element(
    result: Shape, operands: Sequence[Shape], attributes: Any, called: Sequence[Cost]
) -> Cost:
    """Return one flop per element of the result."""
    return Cost(result.element_count, 0, bytes_touched(result, operands))


def unknown_cost(
    result: Shape, operands: Sequence[Shape], attributes: Any, called: Sequence[Cost]
) -> Cost:
    """Return the mark of work that is not known."""
    return UNKNOWN_COST
