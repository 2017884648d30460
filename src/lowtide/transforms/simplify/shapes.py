"""Dimensions through reshapes and transposes, and broadcasts as seen behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from lowtide.ir import Instruction, Opcode
from lowtide.passes.matching import dimensions

Sizes = tuple[int, ...]
Group = tuple[range, range]
"""Dimensions before a reshape, and those that they become; the elements are the same."""


def groups_of(old: Sizes, new: Sizes) -> list[Group] | None:
    """Return the smallest groups of dimensions that a reshape maps to one another, in order.

    Dimensions of size 1 may be alone in a group, with nothing on the other side. None for arrays
    without elements.
    """
    if math.prod(old) == 0 or math.prod(old) != math.prod(new):
        return None
    groups: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, second = i, j
        left = right = 1
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new) and (left > 1 or i == len(old) or new[j] == 1):
            right, j = new[j], j + 1
        while left != right:
            if left < right:
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        groups.append((range(first, i), range(second, j)))
    return groups


def changes_unit_dimensions_only(old: Sizes, new: Sizes) -> bool:
    """Whether a reshape does nothing but add or remove dimensions of size 1."""
    return [n for n in old if n != 1] == [n for n in new if n != 1]


def without_units(sizes: Sizes) -> Sizes:
    """Return the sizes other than 1."""
    return tuple([n for n in sizes if n != 1])


@lru_cache(maxsize=1 << 14)
def inverse(permutation: Sizes) -> Sizes:
    """Return the permutation that undoes another one."""
    result = [0] * len(permutation)
    for i, j in enumerate(permutation):
        result[j] = i
    return tuple(result)


def is_ascending(numbers: Sequence[int]) -> bool:
    """Whether numbers are in increasing order."""
    return all(a < b for a, b in pairwise(numbers))


def moves_units_only(permutation: Sequence[int], sizes: Sizes) -> bool:
    """Whether a transpose keeps the order of all dimensions that are not of size 1."""
    return is_ascending([d for d in permutation if sizes[d] != 1])


def is_scalar_broadcast(x: Instruction) -> bool:
    """Whether all elements are one scalar of the program."""
    return x.opcode is Opcode.BROADCAST and not x.operands[0].shape.rank


def reshaped_broadcast(broadcast: Instruction, sizes: Sizes) -> tuple[Sizes, Sizes] | None:
    """Return what a reshape of a broadcast to `sizes` is as a broadcast of a reshape.

    These are the sizes to which the operand is reshaped, and the dimensions of the broadcast. None
    where repeated and other dimensions are merged, or dimensions of the operand out of order.
    """
    source = broadcast.operands[0].shape.dimensions
    places = dimensions(broadcast)
    if 1 in source or not is_ascending(places):
        return None
    groups = groups_of(broadcast.shape.dimensions, sizes)
    if groups is None:
        return None
    new_source: list[int] = []
    new_places: list[int] = []
    for before, after in groups:
        wide = [d for d in before if broadcast.shape.dimensions[d] != 1]
        kept = [d for d in wide if d in places]
        if kept and len(kept) != len(wide):
            return None
        for d in after:
            if kept and sizes[d] != 1:
                new_source.append(sizes[d])
                new_places.append(d)
    return tuple(new_source), tuple(new_places)


def transposed_places(broadcast: Instruction, permutation: Sequence[int]) -> Sizes:
    """Return the dimensions of a broadcast that is transposed; its operand stays as it is."""
    position = inverse(permutation)
    return tuple([position[d] for d in dimensions(broadcast)])
