"""Operations which move elements: shapes, orders, slices, padding, dynamic sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.evaluator.bits import bitcast_convert
from lowtide.evaluator.numeric import element_type_of
from lowtide.evaluator.values import Values, as_array
from lowtide.ir.attributes import Dimensions, DynamicSlice, Iota, Pad, Slice
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler


def broadcast(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the operand, its dimensions placed as the attribute says, repeated over the others."""
    operand = as_array(operands[0])
    places = instruction.attributes_as(Dimensions).dimensions
    sizes = list(instruction.shape.dimensions)
    aligned = [1] * len(sizes)
    for place, size in zip(places, operand.shape, strict=True):
        aligned[place] = size
        sizes[place] = size if instruction.shape.dynamic else sizes[place]
    order = np.argsort(np.asarray(places, np.int64), kind="stable")
    return np.broadcast_to(operand.transpose(order).reshape(aligned), sizes)


def transpose(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return a view of the operand with its dimensions in another order."""
    return as_array(operands[0]).transpose(instruction.attributes_as(Dimensions).dimensions)


def reverse(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return a view of the operand with some dimensions from last to first."""
    return np.flip(as_array(operands[0]), instruction.attributes_as(Dimensions).dimensions)


def reshape(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the elements, row major, in other dimensions; one dynamic size follows from them."""
    operand = as_array(operands[0])
    sizes = list(instruction.shape.dimensions)
    if operand.size != math.prod(sizes):
        dynamic = [d for d, flag in enumerate(instruction.shape.dynamic) if flag]
        if len(dynamic) != 1:
            raise unsupported(instruction, "its sizes do not follow from the operand's")
        sizes[dynamic[0]] = 1
        sizes[dynamic[0]] = operand.size // max(math.prod(sizes), 1)
    return operand.reshape(sizes)


def dynamic_reshape(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the elements of operand 0, row major, in the sizes of the other operands."""
    return as_array(operands[0]).reshape([int(as_array(size)) for size in operands[1:]])


def bitcast(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the operand's memory read as another type, shape and layout."""
    operand = as_array(operands[0])
    source, target = instruction.operands[0].shape, instruction.shape
    if _is_tiled(source) or _is_tiled(target):
        raise unsupported(instruction, "tiled layouts are not evaluated; remove the tiles")
    physical = operand.transpose(_major_to_minor(source)).reshape(-1)
    elements = _reread(physical, target.element_type)
    order = _major_to_minor(target)
    stored = elements.reshape([target.dimensions[d] for d in order])
    return stored.transpose(np.argsort(order)) if order else stored


def _is_tiled(shape: Shape) -> bool:
    return shape.layout is not None and bool(shape.layout.tiles)


def _major_to_minor(shape: Shape) -> tuple[int, ...]:
    if shape.layout is None:
        return tuple(range(shape.rank))
    return tuple(reversed(shape.layout.minor_to_major))


def _reread(flat: Array, element_type: ElementType) -> Array:
    source = element_type_of(flat).bits
    if source >= element_type.bits:
        return bitcast_convert(flat, element_type).reshape(-1)
    return bitcast_convert(flat.reshape(-1, element_type.bits // source), element_type)


def concatenate(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the operands one after the other along one dimension."""
    axis = instruction.attributes_as(Dimensions).dimensions[0]
    return np.concatenate([as_array(x) for x in operands], axis)


def static_slice(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return a view of every stride-th element from the start up to the limit."""
    bounds = instruction.attributes_as(Slice)
    places = zip(bounds.starts, bounds.limits, bounds.strides, strict=True)
    return as_array(operands[0])[tuple([slice(*place) for place in places])]


def dynamic_slice(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the slice that starts at the given indices, moved inside of the operand."""
    operand = as_array(operands[0])
    sizes = instruction.attributes_as(DynamicSlice).sizes
    return operand[_window_at(operand, operands[1:], sizes)]


def dynamic_update_slice(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Array:
    """Return operand 0 with operand 1 at the given indices, which are moved inside."""
    result, update = as_array(operands[0]).copy(), as_array(operands[1])
    result[_window_at(result, operands[2:], update.shape)] = update
    return result


def _window_at(operand: Array, starts: Values, sizes: Sequence[int]) -> tuple[slice, ...]:
    """Return the place of a window; `starts` are scalars, or one vector of them."""
    indices = [int(i) for start in starts for i in as_array(start).reshape(-1).tolist()]
    window = []
    for index, size, dimension in zip(indices, sizes, operand.shape, strict=True):
        start = min(max(index, 0), max(dimension - size, 0))
        window.append(slice(start, start + size))
    return tuple(window)


def pad(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the operand with the padding value around and between its elements."""
    value = as_array(operands[1])
    padding = [(d.low, d.high, d.interior) for d in instruction.attributes_as(Pad).dimensions]
    return padded(as_array(operands[0]), padding, value)


def padded(array: Array, padding: Sequence[tuple[int, int, int]], value: Array) -> Array:
    """Return `array` with (low, high, interior) elements of `value` added along each dimension.

    Negative `low` and `high` remove elements, also such as `interior` added.
    """
    sizes, targets, sources = [], [], []
    for size, (low, high, interior) in zip(array.shape, padding, strict=True):
        step = interior + 1
        length = max(low + size + max(size - 1, 0) * interior + high, 0)
        first = max(-(low // step), 0)
        stop = max(min(size, -((low - length) // step)), first)
        start = low + first * step
        sizes.append(length)
        sources.append(slice(first, stop))
        targets.append(slice(start, start + (stop - first) * step, step))
    result = np.full(sizes, value, array.dtype)
    result[tuple(targets)] = array[tuple(sources)]
    return result


def iota(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the index along one dimension, repeated over the others."""
    shape = instruction.shape
    axis = instruction.attributes_as(Iota).dimension
    size = shape.dimensions[axis]
    wide = np.complex128 if shape.element_type.is_complex else np.int64
    counts = np.arange(size).astype(wide).astype(DTYPES[shape.element_type])
    aligned = [1] * shape.rank
    aligned[axis] = size
    return np.broadcast_to(counts.reshape(aligned), shape.dimensions)


def get_dimension_size(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Array:
    """Return the actual size of one dimension."""
    axis = instruction.attributes_as(Dimensions).dimensions[0]
    size = as_array(operands[0]).shape[axis]
    return np.asarray(size, DTYPES[instruction.shape.element_type])


def set_dimension_size(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Array:
    """Return operand 0 with one dimension cut, or filled up with zeros, to the given size."""
    operand = as_array(operands[0])
    axis = instruction.attributes_as(Dimensions).dimensions[0]
    size = int(as_array(operands[1]))
    missing = size - operand.shape[axis]
    padding = [(0, missing if d == axis else 0, 0) for d in range(operand.ndim)]
    return padded(operand, padding, np.zeros((), operand.dtype)) if missing else operand


HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.BITCAST: bitcast,
    Opcode.BROADCAST: broadcast,
    Opcode.CONCATENATE: concatenate,
    Opcode.DYNAMIC_RESHAPE: dynamic_reshape,
    Opcode.DYNAMIC_SLICE: dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: dynamic_update_slice,
    Opcode.GET_DIMENSION_SIZE: get_dimension_size,
    Opcode.IOTA: iota,
    Opcode.PAD: pad,
    Opcode.RESHAPE: reshape,
    Opcode.REVERSE: reverse,
    Opcode.SET_DIMENSION_SIZE: set_dimension_size,
    Opcode.SLICE: static_slice,
    Opcode.TRANSPOSE: transpose,
}
