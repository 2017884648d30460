"""Bitcasts as moves of elements: their meaning is that of layouts, and parts have other ones."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Dimensions, Reshape
from lowtide.ir.errors import unsupported
from lowtide.ir.shape import array_shape
from lowtide.passes.editing import make


def as_moves(x: Instruction) -> Instruction:
    """Return what equals a bitcast in every layout: transposes, a reshape, a bitcast-convert.

    The elements are put in the order in which memory has them, read in the other form, and put into
    the order of its dimensions. Raises UnsupportedOpError for tiled layouts.
    """
    source, target = x.operands[0].shape, x.shape
    if not (source.is_array and target.is_array) or source.is_dynamic or target.is_dynamic:
        return x
    if any(y.layout is not None and y.layout.tiles for y in (source, target)):
        raise unsupported(x, "a bitcast of tiled layouts is not partitioned; remove the tiles")
    order = target.physical_order
    stored = [target.dimensions[d] for d in order]
    value = _transposed(x, x.operands[0], source.physical_order)
    value = _reread(x, value, target.element_type)
    value = _reshaped(x, value, stored)
    value = _transposed(x, value, sorted(range(len(order)), key=order.__getitem__))
    if value is not x.operands[0]:
        value.set_shape(target)  # The layout tells a bitcast that reads it in which order.
    return value


def _transposed(like: Instruction, x: Instruction, order: Sequence[int]) -> Instruction:
    if list(order) == sorted(order):
        return x
    shape = array_shape(x.shape.element_type, tuple([x.shape.dimensions[d] for d in order]))
    return make(like.parent, Opcode.TRANSPOSE, shape, (x,), like, Dimensions(tuple(order)))


def _reshaped(like: Instruction, x: Instruction, sizes: Sequence[int]) -> Instruction:
    if tuple(sizes) == x.shape.dimensions:
        return x
    shape = array_shape(x.shape.element_type, tuple(sizes))
    return make(like.parent, Opcode.RESHAPE, shape, (x,), like, Reshape())


def _reread(like: Instruction, x: Instruction, type_: ElementType) -> Instruction:
    """Read elements that lie row-major as those of another type; they stand in any dimensions."""
    old = x.shape.element_type
    if old is type_:
        return x
    sizes = x.shape.dimensions
    if old.bits < type_.bits:
        ratio = type_.bits // old.bits
        x = _reshaped(like, x, (x.shape.element_count // ratio, ratio))
        sizes = x.shape.dimensions[:-1]
    elif old.bits > type_.bits:
        sizes = (*sizes, old.bits // type_.bits)
    return make(like.parent, Opcode.BITCAST_CONVERT, array_shape(type_, sizes), (x,), like)
