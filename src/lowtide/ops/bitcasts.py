"""Bitcasts as moves of elements: their meaning is that of layouts, and moves have it in any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

from lowtide.ir.attributes import NO_ATTRIBUTES, Attributes, Dimensions, Reshape
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, array_shape


class BitcastStep(NamedTuple):
    """An operation of one operand: the result of the step before, or what the bitcast reads."""

    opcode: Opcode
    shape: Shape
    attributes: Attributes


def bitcast_steps(before: Shape, after: Shape) -> list[BitcastStep]:
    """Return what equals a bitcast of arrays without tiles: none where nothing changes.

    Elements are put in the order in which memory has them, read in the other form, and put into the
    order of its dimensions.
    """
    steps = _Steps(before)
    order = after.physical_order
    steps.transpose(before.physical_order)
    steps.reread(after.element_type)
    steps.reshape([after.dimensions[d] for d in order])
    steps.transpose([order.index(d) for d in range(len(order))])
    return steps.made


@final
class _Steps:
    """The steps so far, and the shape of the last result."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.made: list[BitcastStep] = []

    def transpose(self, order: Sequence[int]) -> None:
        if list(order) != sorted(order):
            sizes = [self._shape.dimensions[d] for d in order]
            self._add(Opcode.TRANSPOSE, self._like(sizes), Dimensions(tuple(order)))

    def reshape(self, sizes: Sequence[int]) -> None:
        if tuple(sizes) != self._shape.dimensions:
            self._add(Opcode.RESHAPE, self._like(sizes), Reshape())

    def reread(self, type_: ElementType) -> None:
        """Read elements that lie row-major as those of another type; they stand in any sizes."""
        old = self._shape.element_type
        if old is type_:
            return
        if old.bits < type_.bits:
            ratio = type_.bits // old.bits
            self.reshape([self._shape.element_count // ratio, ratio])
        sizes = self._shape.dimensions
        if old.bits < type_.bits:
            sizes = sizes[:-1]
        elif old.bits > type_.bits:
            sizes = (*sizes, old.bits // type_.bits)
        self._add(Opcode.BITCAST_CONVERT, array_shape(type_, sizes), NO_ATTRIBUTES)

    def _like(self, sizes: Sequence[int]) -> Shape:
        return array_shape(self._shape.element_type, tuple(sizes))

    def _add(self, opcode: Opcode, shape: Shape, attributes: Attributes) -> None:
        self.made.append(BitcastStep(opcode, shape, attributes))
        self._shape = shape
