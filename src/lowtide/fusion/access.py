"""The element of an operand that an operation reads for each element that it computes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.ops.table import TABLE

Access: TypeAlias = "tuple[int, ...] | None"
"""Per dimension of an operand the dimension of the iteration space that indexes it.

`FIRST` stands for a dimension of size 1, whose index is 0. None says that the index is something
else: shifted, strided, looked up.
"""

FIRST: Final = -1


@lru_cache(maxsize=1 << 14)
def identity(dimensions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the access of an elementwise operation to an operand of these dimensions."""
    return tuple([FIRST if size == 1 else i for i, size in enumerate(dimensions)])


@lru_cache(maxsize=1 << 14)
def composed(outer: Access, inner: Access) -> Access:
    """Return the access to the operand of an operand: `inner` as seen through `outer`."""
    if outer is None or inner is None:
        return None
    return tuple([FIRST if d == FIRST else outer[d] for d in inner])


def inverse(access: Access, space: tuple[int, ...]) -> Access:
    """Return per dimension of a space the dimension of the operand that it alone indexes.

    None where a dimension indexes several or none of them.
    """
    if access is None:
        return None
    found = {d: i for i, d in enumerate(access) if d != FIRST}
    if len(found) != sum([d != FIRST for d in access]):
        return None
    if any(size != 1 and d not in found for d, size in enumerate(space)):
        return None
    return tuple([FIRST if size == 1 else found[d] for d, size in enumerate(space)])


def access_of(instruction: Instruction, number: int) -> Access:
    """Return how an operation that is no reduction, dot or update reads operand `number`."""
    operand = instruction.operands[number]
    if not operand.shape.is_array:
        return None
    if not operand.shape.rank:
        return ()
    if TABLE[instruction.opcode].elementwise:
        same = operand.shape.dimensions == instruction.shape.dimensions
        return identity(operand.shape.dimensions) if same else None
    rule = _RULES.get(instruction.opcode)
    return None if rule is None else rule(instruction)


def _broadcast(instruction: Instruction) -> Access:
    at = instruction.attributes_as(Dimensions).dimensions
    return _without_ones(instruction.operands[0], at)


def _transpose(instruction: Instruction) -> Access:
    """Result dimension j is dimension permutation[j] of the operand."""
    permutation = instruction.attributes_as(Dimensions).dimensions
    at = tuple([permutation.index(i) for i in range(len(permutation))])
    return _without_ones(instruction.operands[0], at)


def _reshape(instruction: Instruction) -> Access:
    """A reshape that only drops or inserts dimensions of size 1 keeps the others in order."""
    operand = instruction.operands[0].shape.dimensions
    result = instruction.shape.dimensions
    kept = [i for i, size in enumerate(result) if size != 1]
    if [size for size in operand if size != 1] != [result[i] for i in kept]:
        return None
    places = iter(kept)
    return tuple([FIRST if size == 1 else next(places) for size in operand])


def _without_ones(operand: Instruction, at: tuple[int, ...]) -> Access:
    sizes = operand.shape.dimensions
    return tuple([FIRST if size == 1 else d for size, d in zip(sizes, at, strict=True)])


_RULES: Final = {
    Opcode.BROADCAST: _broadcast,
    Opcode.TRANSPOSE: _transpose,
    Opcode.RESHAPE: _reshape,
    Opcode.BITCAST: _reshape,
}
