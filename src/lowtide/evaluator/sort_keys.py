"""Comparators that order by keys: `key(lhs) < key(rhs)`, perhaps several keys in turn.

Most comparators that frameworks emit are of this form, after the example
`or(lt(f(l0), f(r0)), and(eq(f(l0), f(r0)), lt(g(l1), g(r1))))`. The keys are found by comparing
both sides of each comparison: they have to be one expression, on lhs and rhs parameters in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.evaluator.comparison import total_order_key
from lowtide.evaluator.values import Value, as_array, from_literal
from lowtide.evaluator.vectorized import vector_handlers
from lowtide.ir.attributes import Compare, Constant, Parameter
from lowtide.ir.computation import Computation
from lowtide.ir.element_type import ElementType
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression over the even (lhs) parameters of a comparator, and how to order by it.

    `total_order` tells -0 from +0, and puts NaN before or after all numbers by its sign.
    """

    expression: Instruction
    descending: bool
    total_order: bool


def sort_keys(comparator: Computation) -> tuple[SortKey, ...] | None:
    """Return the keys by which the comparator orders, the first one foremost, or None."""
    keys: list[SortKey] = []
    instruction = comparator.root
    while instruction.opcode is Opcode.OR:
        split = _split_lexicographic(instruction)
        if split is None:
            return None
        first, instruction = split
        keys.append(first)
    last = _strict_key(instruction)
    return None if last is None else (*keys, last)


def _split_lexicographic(instruction: Instruction) -> tuple[SortKey, Instruction] | None:
    """Return (a, rest) of `a or (the keys of a are equal and rest)`, else None."""
    for less, tie in (instruction.operands, instruction.operands[::-1]):
        key = _strict_key(less)
        if key is None or tie.opcode is not Opcode.AND:
            continue
        for equal, rest in (tie.operands, tie.operands[::-1]):
            if _compares_equal(equal, less):
                return key, rest
    return None


def _strict_key(instruction: Instruction) -> SortKey | None:
    if instruction.opcode is not Opcode.COMPARE:
        return None
    compare = instruction.attributes_as(Compare)
    if compare.direction not in ("LT", "GT"):
        return None
    lhs, rhs = instruction.operands
    descending = compare.direction == "GT"
    total_order = compare.type == "TOTALORDER"
    if _mirrored(lhs, rhs):
        return SortKey(lhs, descending, total_order)
    if _mirrored(rhs, lhs):
        return SortKey(rhs, not descending, total_order)
    return None


def _compares_equal(equal: Instruction, less: Instruction) -> bool:
    """Whether `equal` compares the same two keys as `less`, in the same sense."""
    if equal.opcode is not Opcode.COMPARE or less.opcode is not Opcode.COMPARE:
        return False
    ours, theirs = equal.attributes_as(Compare), less.attributes_as(Compare)
    if ours.direction != "EQ" or ours.type != theirs.type:
        return False
    return equal.operands in (less.operands, less.operands[::-1])


def _mirrored(lhs: Instruction, rhs: Instruction) -> bool:
    """Whether `rhs` is `lhs` with each even parameter replaced by the next, odd one."""
    done: set[tuple[Instruction, Instruction]] = set()
    work = [(lhs, rhs)]
    while work:
        pair = work.pop()
        if pair in done:
            continue
        done.add(pair)
        a, b = pair
        if a.opcode is not b.opcode or a.shape is not b.shape or not _has_key(a):
            return False
        if a.opcode is Opcode.PARAMETER:
            number = a.attributes_as(Parameter).number
            if number % 2 or b.attributes_as(Parameter).number != number + 1:
                return False
        elif a.attributes != b.attributes or len(a.operands) != len(b.operands):
            return False
        work.extend(zip(a.operands, b.operands, strict=True))
    return True


def _has_key(instruction: Instruction) -> bool:
    """Whether a key can be made of the instruction: it is elementwise and calls nothing."""
    if instruction.called_computations or not instruction.shape.is_array:
        return False
    return instruction.opcode in _SOURCES or instruction.opcode in vector_handlers()


_SOURCES: Final = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})


# -- values of keys ----------------------------------------------------------------------------


def key_values(interpreter: Interpreter, key: SortKey, operands: Sequence[Array]) -> Array:
    """Return the key of each element; `operands` are those of the sort."""
    values: dict[Instruction, Value] = {}
    stack = [key.expression]
    while stack:
        instruction = stack[-1]
        waiting = [x for x in instruction.operands if x not in values]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if instruction not in values:
            values[instruction] = _evaluate(interpreter, instruction, values, operands)
    return as_array(values[key.expression])


def _evaluate(
    interpreter: Interpreter,
    instruction: Instruction,
    values: dict[Instruction, Value],
    operands: Sequence[Array],
) -> Value:
    if instruction.opcode is Opcode.PARAMETER:
        return operands[instruction.attributes_as(Parameter).number // 2]
    if instruction.opcode is Opcode.CONSTANT:
        return from_literal(instruction.attributes_as(Constant).literal)
    handler = vector_handlers()[instruction.opcode]
    return handler(interpreter, instruction, [values[x] for x in instruction.operands])


# -- keys as integers --------------------------------------------------------------------------


def integer_key(values: Array, key: SortKey) -> Array:
    """Return integers whose ascending order is the order of the key."""
    element_type = key.expression.shape.element_type
    integers = as_integers(values, element_type, total_order=key.total_order)
    return ~integers if key.descending else integers


def as_integers(values: Array, element_type: ElementType, *, total_order: bool) -> Array:
    """Return integers in the order of the values; -0 equals +0 unless `total_order`."""
    if element_type is ElementType.PRED:
        return values.astype(np.uint8)
    if element_type.is_integer:
        return values.astype(np.int8) if element_type.bits < 8 else values
    if not total_order:
        values = np.where(values == 0, values.dtype.type(0), values)
    return total_order_key(values)
