"""Comparators that order by keys: `key(left) < key(right)`, perhaps several keys in turn.

Frameworks write comparators of several keys as
`or(lt(f(l0), f(r0)), and(eq(f(l0), f(r0)), lt(g(l1), g(r1))))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Compare, Parameter
from lowtide.ops.table import TABLE
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class NativeSortKey:
    """An expression of the left parameters of a comparator (the even ones).

    `total_order` tells -0 from +0.
    """

    expression: Instruction
    descending: bool
    total_order: bool

    @property
    def bits(self) -> int:
        """The bits of the integers in whose order it is; see `order.py`."""
        type_ = self.expression.shape.element_type
        return max(32, type_.bits) if type_.is_floating else max(8, type_.bits)


def keys_of(comparator: Computation) -> tuple[NativeSortKey, ...] | None:
    """Return the keys by which a comparator orders, the foremost first; None where it has none."""
    keys: list[NativeSortKey] = []
    rest = comparator.root
    while rest.opcode is Opcode.OR:
        found = next(_first_and_rest(rest), None)
        if found is None:
            return None
        key, rest = found
        keys.append(key)
    last = _key(rest)
    return None if last is None else (*keys, last)


def _first_and_rest(either: Instruction) -> Iterator[tuple[NativeSortKey, Instruction]]:
    """The key and what decides among equal ones, of `less or (equal and what decides)`."""
    for less, other in _both_ways(either):
        key = _key(less)
        if key is None or other.opcode is not Opcode.AND:
            continue
        for equal, rest in _both_ways(other):
            if _is_tie(equal, less):
                yield key, rest


def _both_ways(instruction: Instruction) -> tuple[tuple[Instruction, Instruction], ...]:
    a, b = instruction.operands
    return (a, b), (b, a)


def _is_tie(equal: Instruction, less: Instruction) -> bool:
    if equal.opcode is not Opcode.COMPARE:
        return False
    one, other = equal.attributes_as(Compare), less.attributes_as(Compare)
    is_same = set(equal.operands) == set(less.operands)
    return is_same and one.direction == "EQ" and one.type == other.type


_DESCENDING: Final = {"LT": False, "GT": True}


def _key(instruction: Instruction) -> NativeSortKey | None:
    if instruction.opcode is not Opcode.COMPARE:
        return None
    compare = instruction.attributes_as(Compare)
    descending = _DESCENDING.get(compare.direction)
    if descending is None or instruction.operands[0].shape.element_type.is_complex:
        return None
    is_total = compare.type == "TOTALORDER"
    left, right = instruction.operands
    if _is_mirrored(left, right):
        return NativeSortKey(left, descending, is_total)
    if _is_mirrored(right, left):
        return NativeSortKey(right, not descending, is_total)
    return None


def _is_mirrored(left: Instruction, right: Instruction) -> bool:
    """Whether `right` is `left` with each left parameter replaced by the right one beside it."""
    pairs = {(left, right): None}
    for a, b in (stack := [(left, right)]):
        if not _are_alike(a, b):
            return False
        fresh = [x for x in zip(a.operands, b.operands, strict=True) if x not in pairs]
        pairs.update(dict.fromkeys(fresh))
        stack += fresh
    return True


def _are_alike(a: Instruction, b: Instruction) -> bool:
    if a.opcode is not b.opcode or a.shape is not b.shape or len(a.operands) != len(b.operands):
        return False
    if a.opcode is Opcode.PARAMETER:
        number = a.attributes_as(Parameter).number
        return number % 2 == 0 and b.attributes_as(Parameter).number == number + 1
    is_known = a.opcode is Opcode.CONSTANT or TABLE[a.opcode].elementwise
    return is_known and a.attributes == b.attributes
