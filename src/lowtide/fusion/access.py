"""The element of an operand that an operation reads for each element that it computes."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final, TypeAlias

from lowtide.ir import Attributes, Instruction, Opcode, Shape
from lowtide.ops.factors.record import FactorKind, OpFactors, factors_of, has_factors
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
    """Return how an operation reads operand `number`, if it is elementwise or only moves it."""
    operand = instruction.operands[number]
    if not operand.shape.is_array:
        return None
    if not operand.shape.rank:
        return ()
    if TABLE[instruction.opcode].elementwise:
        same = operand.shape.dimensions == instruction.shape.dimensions
        return identity(operand.shape.dimensions) if same else None
    if len(instruction.operands) != 1 or not has_factors(instruction.opcode):
        return None
    key = instruction.opcode, instruction.attributes, operand.shape, instruction.shape
    found = _MOVED.get(key)
    if found is None:
        if len(_MOVED) >= _MOST_MOVED:
            _MOVED.clear()
        sizes, made = operand.shape.dimensions, instruction.shape.dimensions
        found = _MOVED[key] = (_moved(sizes, made, factors_of(instruction)),)
    return found[0]


_MOVED: Final[dict[tuple[Opcode, Attributes, Shape, Shape], tuple[Access]]] = {}
"""How operations that move their operand read it, which layers of a model ask again and again."""

_MOST_MOVED: Final = 1 << 14


def _moved(sizes: tuple[int, ...], made: tuple[int, ...], factors: OpFactors) -> Access:
    """Return how one operand is read; None where a dimension of it or the result is in pieces."""
    is_passed = all(kind is FactorKind.PASSED for kind in factors.kinds)
    if not is_passed or len(factors.results) != 1:
        return None
    (operand,), (result,) = factors.operands, factors.results
    places = {own: i for i, own in enumerate(result) if own}
    if any(prod([factors.sizes[f] for f in own]) != n for own, n in zip(result, made, strict=True)):
        return None
    pairs = list(zip(sizes, operand, strict=True))
    if any(size != 1 and (len(own) != 1 or own not in places) for size, own in pairs):
        return None
    return tuple([FIRST if size == 1 else places[own] for size, own in pairs])
