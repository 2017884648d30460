"""Kinds of values in a loop's body: alike in all steps, numbers that follow them, or others."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

from lowtide.analysis.loop_trip_count import COMPARISONS
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Compare
from lowtide.passes.matching import scalar_value
from lowtide.records import dataclass


class StepKind(Enum):
    """How a value differs between the steps of a loop."""

    ALIKE = "alike"
    """The same in all steps."""
    OWN = "own"
    """Another one in each step; the values of many steps lie along a first dimension."""
    STACK = "stack"
    """An array of which each step writes a slice of its own."""
    TOTAL = "total"
    """A number to which each step adds, or the like."""


@dataclass(frozen=True, slots=True)
class StepNumber:
    """A whole number that is `first` in step 0 and grows by `by` from step to step."""

    first: int
    by: int

    def ends(self, count: int) -> tuple[int, int]:
        """Return the least and the greatest of the numbers of `count` steps."""
        last = self.first + self.by * (count - 1)
        return min(self.first, last), max(self.first, last)

    def within(self, element_type: ElementType) -> StepNumber:
        """Return the number with bits of a type, whose arithmetic comes to the same numbers."""
        if not element_type.is_integer:
            return self
        low, high = element_type.bounds
        first, by = [(x - low) % (high - low + 1) + low for x in (self.first, self.by)]
        return StepNumber(first, by)

    def fits(self, element_type: ElementType, count: int) -> bool:
        """Whether the numbers of `count` steps are all of an integer type."""
        (low, high), (least, greatest) = element_type.bounds, self.ends(count)
        return low <= least and greatest <= high


Kind: TypeAlias = StepKind | StepNumber


def counted(x: Instruction, operands: Sequence[Kind], count: int) -> StepNumber | None:
    """Return what an operation makes of counted numbers in `count` steps, if that is counted too.

    It is a number, or an array of one. Numbers that would wrap around in the type of the result are
    not counted; a comparison that comes out alike in all steps is, as 0 or 1.
    """
    if not x.shape.is_array or x.shape.element_count != 1:
        return None
    type_ = x.shape.element_type
    if type_ is ElementType.PRED:
        return _compared(x, operands, count) if x.opcode is Opcode.COMPARE else None
    if not type_.is_integer:
        return None
    if x.opcode is Opcode.SELECT:
        return _selected(operands)
    made = _linear(x, operands)
    return made if made is not None and made.fits(type_, count) else None


def _compared(x: Instruction, operands: Sequence[Kind], count: int) -> StepNumber | None:
    a, b = _numbers(x, operands)
    if a is None or b is None or (a.by and b.by):
        return None
    compare = COMPARISONS[x.attributes_as(Compare).direction]
    low, high = StepNumber(a.first - b.first, a.by - b.by).ends(count)
    found = {compare(low, 0), compare(high, 0)}
    crosses = low < 0 < high and x.attributes_as(Compare).direction in ("EQ", "NE")
    return None if len(found) > 1 or crosses else StepNumber(int(found.pop()), 0)


def _selected(operands: Sequence[Kind]) -> StepNumber | None:
    test = operands[0]
    if not isinstance(test, StepNumber):
        return None
    chosen = operands[1 if test.first else 2]
    return chosen if isinstance(chosen, StepNumber) else None


def _linear(x: Instruction, operands: Sequence[Kind]) -> StepNumber | None:
    if x.opcode in _PASSING:
        (source,) = operands
        return source if isinstance(source, StepNumber) else None
    if x.opcode not in (Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY):
        return None
    a, b = _numbers(x, operands)
    if a is None or b is None:
        return None
    if x.opcode is Opcode.ADD:
        return StepNumber(a.first + b.first, a.by + b.by)
    if x.opcode is Opcode.SUBTRACT:
        return StepNumber(a.first - b.first, a.by - b.by)
    if a.by and b.by:
        return None
    return StepNumber(a.first * b.first, a.by * b.first + b.by * a.first)


_PASSING: Final = frozenset({Opcode.BROADCAST, Opcode.CONVERT, Opcode.COPY, Opcode.RESHAPE})


def _numbers(x: Instruction, operands: Sequence[Kind]) -> list[StepNumber | None]:
    """The operands as counted numbers, None for others."""
    return [_number(y, kind) for y, kind in zip(x.operands, operands, strict=True)]


def _number(x: Instruction, kind: Kind) -> StepNumber | None:
    """A counted operand, or a constant as one that does not grow."""
    if isinstance(kind, StepNumber):
        return kind
    if x.shape.rank or not (x.shape.is_array and x.shape.element_type.is_integer):
        return None
    value = scalar_value(x)
    return None if value is None else StepNumber(int(value), 0)
