"""The place along the rows of scores of all that depends on the scores of an attention.

From the result backwards each value gets its place along the axes: those of the result, and those
along a row, which the second dot sums over. Where two ways lead to one value, both have to agree.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import field
from math import prod
from typing import Final

from lowtide.fusion.index_digits import (
    Digit,
    IndexMap,
    count,
    digits_of,
    overlap,
    regrouped,
    whole_axes,
)
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions, Slice
from lowtide.ops.dot_roles import dot_roles
from lowtide.ops.table import TABLE
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class SecondDot:
    """A dot as the second one, whose operand `side` is made of scores."""

    dot: Instruction
    side: int

    @property
    def weights(self) -> Instruction:
        """The operand that is made of scores."""
        return self.dot.operands[self.side]

    @property
    def values(self) -> Instruction:
        """The other operand."""
        return self.dot.operands[1 - self.side]

    @property
    def contracted(self) -> tuple[int, ...]:
        """The dimensions of the weights that are summed over, which make a row."""
        return dot_roles(self.dot)[self.side].contracted

    @property
    def row_length(self) -> int:
        """How many weights a row has."""
        return prod([self.weights.shape.dimensions[d] for d in self.contracted])


@dataclass(eq=False, slots=True)
class ScoreRegion:
    """All that depends on the scores, up to the result, and the place of each value along the axes.

    Axes from 0 on are the dimensions of the result, those below 0 go along a row.
    """

    root: Instruction
    second: SecondDot
    firsts: tuple[Instruction, ...]
    maps: dict[Instruction, IndexMap] = field(default_factory=dict)


def is_laid_out(region: ScoreRegion, dependent: Sequence[Instruction]) -> bool:
    """Find how what depends on the scores lies along the axes; return whether it all fits."""
    among = set(dependent)
    if region.second.weights not in among or region.second.values in among:
        return False
    if not any(x.opcode is Opcode.REDUCE for x in dependent):
        return False
    if any(y in among for x in region.firsts for y in x.operands):
        return False
    region.maps = {region.root: whole_axes(region.root.shape.dimensions)}
    return all(_lays_out_operands(region, x, among) for x in reversed(dependent))


def _lays_out_operands(region: ScoreRegion, x: Instruction, dependent: Set[Instruction]) -> bool:
    """Find how the operands of an instruction lie, from how it does itself."""
    if x in region.firsts:
        return _is_first(region, x)
    for number, operand in enumerate(x.operands):
        if operand not in dependent:
            continue
        found = _operand_map(region, x, number)
        if found is None or region.maps.setdefault(operand, found) != found:
            return False
    return True


def _operand_map(region: ScoreRegion, x: Instruction, number: int) -> IndexMap | None:
    """Return how operand `number` lies, None where it is not read row by row."""
    own = region.maps[x]
    operand = x.operands[number]
    if x is region.second.dot:
        return _weights_map(region, own) if number == region.second.side else None
    if TABLE[x.opcode].elementwise:
        return own if operand.shape.dimensions == x.shape.dimensions else None
    if x.opcode in (Opcode.RESHAPE, Opcode.BITCAST):
        return regrouped(digits_of(own), operand.shape.dimensions)
    if x.opcode is Opcode.TRANSPOSE:
        permutation = x.attributes_as(Dimensions).dimensions
        return tuple([own[permutation.index(i)] for i in range(len(own))])
    if x.opcode is Opcode.BROADCAST:
        return tuple([own[d] for d in x.attributes_as(Dimensions).dimensions])
    if x.opcode is Opcode.REDUCE and number == 0:
        return _reduced_map(region, x, own)
    if x.opcode is Opcode.SLICE:
        return _cut_map(x.attributes_as(Slice).strides, own, operand)
    if x.opcode is Opcode.CONCATENATE:
        return _cut_map((1,), own, operand)
    return None


def _weights_map(region: ScoreRegion, own: IndexMap) -> IndexMap:
    """Return how the weights lie: contracted dimensions go along a row, the others as the result's.

    A dot has the batch dimensions, what is left of its left operand, and of its right one.
    """
    roles = dot_roles(region.second.dot)[region.second.side]
    sizes = region.second.weights.shape.dimensions
    along = whole_axes([sizes[d] for d in roles.contracted], _ROW)
    return tuple(roles.spread(own[: len(roles.batch)], along, own[roles.first :]))


_ROW: Final = -64
"""The first of the axes along a row; no array has so many dimensions."""


def lengths_alone(dot: Instruction) -> list[int]:
    """Return for both operands the product of the dimensions that are not paired."""
    return [
        prod([x.shape.dimensions[d] for d in roles.free])
        for x, roles in zip(dot.operands, dot_roles(dot), strict=True)
    ]


def _is_along(digit: Digit) -> bool:
    return digit.axis < 0


def _reduced_map(region: ScoreRegion, reduce: Instruction, own: IndexMap) -> IndexMap | None:
    """A reduction has to run along the whole row, and its result must not."""
    if any(map(_is_along, digits_of(own))):
        return None
    reduced = reduce.attributes_as(Dimensions).dimensions
    sizes = [reduce.operands[0].shape.dimensions[d] for d in sorted(reduced)]
    row = [region.second.weights.shape.dimensions[d] for d in region.second.contracted]
    axes = digits_of(whole_axes(row, _ROW))
    if len(axes) == 1:
        axes = (axes[0]._replace(size=prod(sizes)),)
    along = regrouped(axes, sizes)
    if along is None or prod(sizes) == 1:
        return None
    found = dict(zip(sorted(reduced), along, strict=True))
    kept = iter(own)
    rank = reduce.operands[0].shape.rank
    return tuple([found[d] if d in found else next(kept) for d in range(rank)])


def _cut_map(strides: Sequence[int], own: IndexMap, operand: Instruction) -> IndexMap | None:
    """Slices and concatenates may cut rows, of which each piece is a row again."""
    if any(stride != 1 for stride in strides):
        return None
    along = [digit for digit in digits_of(own) if _is_along(digit)]
    found = []
    for digits, size in zip(own, operand.shape.dimensions, strict=True):
        if count(digits) == size:
            found.append(digits)
        elif digits == tuple(along) and len(along) == 1:
            found.append((along[0]._replace(size=size),))
        else:
            return None
    return tuple(found)


def _is_first(region: ScoreRegion, dot: Instruction) -> bool:
    """Whether a dot makes scores: one operand has just the dimensions of a row beside paired ones.

    Of the result's axes it has those of the rows, hence none which the values add.
    """
    own = region.maps[dot]
    second = region.second.dot
    weights = region.maps[region.second.weights]
    if count(digits_of(own)) != count(digits_of(weights)):
        return False
    result = region.maps[second]
    theirs = dot_roles(second)[1 - region.second.side].in_result
    added = result[theirs.start : theirs.stop]
    if overlap(digits_of(own), digits_of(added)):
        return False
    return key_side(region, dot) is not None


def key_side(region: ScoreRegion, dot: Instruction) -> int | None:
    """Return which operand of the first dot has the keys: what it has alone is a row."""
    own = region.maps[dot]
    is_along = [bool(digits) and all(map(_is_along, digits)) for digits in own]
    is_across = [not any(map(_is_along, digits)) for digits in own]
    for side, roles in enumerate(dot_roles(dot)):
        alone = roles.in_result
        others = [i for i in range(len(own)) if i not in alone]
        if any(is_along[i] for i in alone) and all(
            [is_along[i] or own[i] == () for i in alone] + [is_across[i] for i in others]
        ):
            return side
    return None


def longest_row(region: ScoreRegion) -> int:
    """Return the bytes of a row in the widest type that the kernel computes in."""
    longest = 1
    for x, index_map in region.maps.items():
        row = count(tuple(filter(_is_along, digits_of(index_map))))
        longest = max(longest, row * max(1, x.shape.element_type.bits // 8))
    return longest
