"""OpDefinition: what one operation of HLO means, as data and small functions.

The functions see shapes and attributes only, never instructions, so that one answer serves all
instructions of the same signature. Only that of `factors` sees the instruction: its called
computation tells whether parts of a sum can be combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lowtide.ir.attributes import Attributes
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ProgramShape, Shape, ShapeIndex
from lowtide.ops.quantities import CostRule, no_cost
from lowtide.records import dataclass

Infer = Callable[[Sequence[Shape], Any, Sequence[ProgramShape]], Shape]
"""(operand shapes, attributes, called) -> result shape; raises ShapeError where they do not fit."""

Verify = Callable[[Shape, Sequence[Shape], Any, Sequence[ProgramShape]], None]
"""(result shape, operand shapes, attributes, called) -> None; raises ShapeError."""

UNLIMITED: Final = None
"""The upper end of an arity without a limit."""

Arity = tuple[int, int | None]
"""The least and the greatest number of operands or called computations, both included."""


def accept_any(
    result: Shape, operands: Sequence[Shape], attributes: Any, called: Sequence[ProgramShape]
) -> None:
    """Check nothing: the operation has no rule of its own beyond what inference checks."""


@dataclass(frozen=True, slots=True)
class OpDefinition:
    """One row of the table of operations.

    `infer` is None where operands and attributes leave the result shape open, e.g. for convert.
    `verify` checks what remains once the declared shape is known to agree with `infer`. `cost`
    gives the work of one execution. `calls` names the role of each called computation, in the
    order of `Instruction.called_computations`; the last role stands for all further ones where
    `calls_arity` admits more.

    `factors` names the function of `ops/factors/` that says which dimensions are split together, as
    "file.function"; it is loaded when it is asked. "" means those of an elementwise operation,
    or that all dimensions stay whole.

    `declared` tells that HLO text must state the result shape even where `infer` is known.
    `exact_type` tells that the result only passes data on, so that not even the floating point
    precision may differ from the inferred shape. `free_element_type` tells that the program
    chooses the element type of the result, as in the accumulation type of a dot.

    `in_place` lists pairs (operand, output index) which always occupy one buffer. `elementwise`
    means that element i of the result depends on element i of the operands only.
    """

    opcode: Opcode
    summary: str
    arity: Arity = (1, 1)
    attributes: type[Attributes] = Attributes
    calls: tuple[str, ...] = ()
    calls_arity: Arity | None = None
    infer: Infer | None = None
    verify: Verify = accept_any
    cost: CostRule = no_cost
    factors: str = ""
    declared: bool = False
    exact_type: bool = False
    free_element_type: bool = False
    elementwise: bool = False
    commutative: bool = False
    in_place: tuple[tuple[int, ShapeIndex], ...] = ()
    has_side_effect: bool = False

    def operand_count_fits(self, count: int) -> bool:
        """Whether the operation takes `count` operands."""
        return fits(self.arity, count)

    def call_count_fits(self, count: int) -> bool:
        """Whether the operation takes `count` called computations."""
        if self.calls_arity is None:
            return count == len(self.calls)
        return fits(self.calls_arity, count)


def fits(arity: Arity, count: int) -> bool:
    """Whether `count` lies within `arity`."""
    least, most = arity
    return least <= count and (most is None or count <= most)


def arity_text(arity: Arity) -> str:
    """Return an arity in words: `2`, `1 to 3`, `at least 1`, `any number`."""
    least, most = arity
    if most is None:
        return f"at least {least}" if least else "any number"
    return str(least) if least == most else f"{least} to {most}"
