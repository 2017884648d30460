"""Broadcasts, iotas and constants: how they are written, and how they move behind operations."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode, array_shape
from lowtide.ir.attributes import Constant, Iota
from lowtide.ir.literal import Array
from lowtide.ops.table import TABLE
from lowtide.passes.matching import are_plain, dimensions, is_plain
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.simplify.shapes import is_ascending, without_units
from lowtide.transforms.simplify.support import FLOATS, INTEGERS, Made, again, arrays, splat, spread

# -- broadcasts --------------------------------------------------------------------------------


@arrays(Opcode.BROADCAST, of=(Opcode.BROADCAST,))
def broadcast_of_broadcast(broadcast: Instruction, at: Rewriter) -> Made:
    """broadcast(broadcast(x)) => broadcast(x)"""
    inner = broadcast.operands[0]
    if inner.opcode is not Opcode.BROADCAST or not are_plain(inner.operands[0]):
        return None
    places = dimensions(broadcast)
    at_last = [places[d] for d in dimensions(inner)]
    return at.build.broadcast(at(inner.operands[0]), broadcast.shape.dimensions, at_last)


@arrays(Opcode.BROADCAST)
def broadcast_nothing(broadcast: Instruction, at: Rewriter) -> Made:
    """broadcast(x) => x or transpose(x), where no dimension is added"""
    x = broadcast.operands[0]
    if x.shape.rank != broadcast.shape.rank:
        return None
    places = dimensions(broadcast)
    if is_ascending(places):
        return x
    return at.build.transpose(at(x), [places.index(d) for d in range(x.shape.rank)])


@arrays(Opcode.BROADCAST)
def broadcast_unit_dimensions(broadcast: Instruction, at: Rewriter) -> Made:
    """broadcast(x) => reshape(x), where all that is added has size 1"""
    x = broadcast.operands[0]
    count = x.shape.element_count
    if not x.shape.rank or not count or count != broadcast.shape.element_count:
        return None
    if not is_ascending(dimensions(broadcast)):
        return None
    return at.build.reshape(at(x), broadcast.shape.dimensions)


@arrays(Opcode.BROADCAST)
def broadcast_of_unit_dimensions(broadcast: Instruction, at: Rewriter) -> Made:
    """broadcast(x) => broadcast(reshape(x)), without the dimensions of size 1 that x has"""
    x = broadcast.operands[0]
    sizes = x.shape.dimensions
    if 1 not in sizes:
        return None
    places = [d for d, n in zip(dimensions(broadcast), sizes, strict=True) if n != 1]
    smaller = at.build.reshape(at(x), without_units(sizes))
    return at.build.broadcast(smaller, broadcast.shape.dimensions, places)


@arrays(Opcode.BROADCAST, of=(Opcode.TRANSPOSE,))
def broadcast_of_transpose(broadcast: Instruction, at: Rewriter) -> Made:
    """broadcast(transpose(x)) => broadcast(x)"""
    inner = broadcast.operands[0]
    if inner.opcode is not Opcode.TRANSPOSE or not are_plain(inner.operands[0]):
        return None
    places, permutation = dimensions(broadcast), dimensions(inner)
    moved = [places[permutation.index(d)] for d in range(len(permutation))]
    return at.build.broadcast(at(inner.operands[0]), broadcast.shape.dimensions, moved)


# -- sources -----------------------------------------------------------------------------------


@rule(Opcode.IOTA)
def iota_of_one_element(iota: Instruction, at: Rewriter) -> Made:
    """iota => 0, where it counts to 1"""
    shape = iota.shape
    if shape.rank != 1 or not is_plain(shape) or shape.dimensions[0] != 1:
        return None
    return splat(at, 0, shape)


@rule(Opcode.IOTA)
def iota_of_one_dimension(iota: Instruction, at: Rewriter) -> Made:
    """iota => broadcast(iota), which counts along its only dimension"""
    shape = iota.shape
    if shape.rank < 2 or not is_plain(shape):
        return None
    along = iota.attributes_as(Iota).dimension
    row = array_shape(shape.element_type, (shape.dimensions[along],))
    return at.build.broadcast(at.build.iota(row), shape.dimensions, [along])


@rule(Opcode.CONSTANT)
def constant_of_equal_elements(constant: Instruction, at: Rewriter) -> Made:
    """constant => broadcast(scalar constant), where all elements have the same bits"""
    shape = constant.shape
    literal = constant.attributes_as(Constant).literal
    if not shape.rank or not is_plain(shape) or literal.elided or not shape.element_count:
        return None
    first = _common_element(literal.array)
    return None if first is None else spread(at, at.build.constant(first), shape)


def _common_element(array: Array) -> Array | None:
    """Return the scalar array of the element to which all are equal, bit by bit."""
    first = np.array(array[(0,) * array.ndim])
    if any(array.strides):
        flat = array.ravel()
        if not _all_equal(flat[:16], first) or not _all_equal(flat, first):
            return None
    return first


def _all_equal(row: Array, element: Array) -> bool:
    bits = np.ascontiguousarray(row).view(np.uint8).reshape(len(row), -1)
    return bool((bits == element.reshape(1).view(np.uint8)).all())


@rule(Opcode.CONSTANT)
def constant_that_counts(constant: Instruction, at: Rewriter) -> Made:
    """constant => iota, where the elements are 0, 1, 2, ..."""
    shape = constant.shape
    literal = constant.attributes_as(Constant).literal
    if shape.rank != 1 or not is_plain(shape) or literal.elided or shape.dimensions[0] < 3:
        return None
    if shape.element_type not in INTEGERS and shape.element_type not in FLOATS:
        return None
    array = literal.array
    if array[1] != 1 or array[2] != 2:
        return None
    counts = np.arange(len(array)).astype(array.dtype)
    return at.build.iota(shape) if counts.tobytes() == array.tobytes() else None


# -- behind operations -------------------------------------------------------------------------

_WITHOUT: Final = (Opcode.BITCAST_CONVERT, Opcode.COPY, Opcode.MAP)
ELEMENTWISE: Final = tuple(
    [x for x, definition in TABLE.items() if definition.elementwise and x not in _WITHOUT]
)
"""Operations that may be done before or after elements change places."""


def _reads_other_arrays(x: Instruction) -> bool:
    return any(y.shape.rank and y.opcode is not Opcode.BROADCAST for y in x.operands)


@arrays(*ELEMENTWISE, of=(Opcode.BROADCAST,), unless=_reads_other_arrays)
def elementwise_of_broadcasts(x: Instruction, at: Rewriter) -> Made:
    """f(broadcast(x), broadcast(y)) => broadcast(f(x, y)), with fewer elements to compute"""
    if not x.shape.rank or not x.shape.element_count:
        return None
    large = [y for y in x.operands if y.shape.rank]
    parts = [y for y in large if y.operands[0].shape.rank]
    model = parts[0] if parts else large[0]
    sizes = model.operands[0].shape.dimensions
    for y in parts:
        if y.operands[0].shape.dimensions != sizes or dimensions(y) != dimensions(model):
            return None
    if len(sizes) >= x.shape.rank:
        return None
    operands = [_small(at, y, sizes) for y in x.operands]
    shape = array_shape(x.shape.element_type, sizes)
    small = again(at, x, *operands, shape=shape)
    return at.build.broadcast(small, x.shape.dimensions, dimensions(model))


def _small(at: Rewriter, y: Instruction, sizes: tuple[int, ...]) -> Op:
    """Return an operand as it is before the broadcast; scalars are repeated to `sizes`."""
    if not y.shape.rank:
        return at(y)
    source = y.operands[0]
    if source.shape.rank or not sizes:
        return at(source)
    return at.build.broadcast(at(source), sizes, ())
