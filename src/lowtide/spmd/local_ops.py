"""Operations on tiles: the attributes that differ from those on whole arrays, and what is added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.ir import ElementType, Instruction, Opcode, Shape, array_shape
from lowtide.ir.attributes import (
    CustomCall,
    Dimensions,
    DynamicSlice,
    Gather,
    GetTupleElement,
    Iota,
    Pad,
    PaddingDimension,
    Scatter,
    Slice,
)
from lowtide.passes.matching import identity_of
from lowtide.spmd.choice import LocalOp
from lowtide.spmd.emitter import Emitter
from lowtide.spmd.factor_axes import chosen_axes
from lowtide.spmd.local_windows import convolution, reduce_window

_MOST: Final = np.uint64(2**63 - 1)
"""The largest index as it is written for a device."""


def write(emitter: Emitter, op: LocalOp) -> Instruction:
    """Add the operation on tiles; return what makes the tile of the result."""
    special = _SPECIAL.get(op.instruction.opcode)
    if special is not None:
        return special(emitter, op)
    return emitter.like(op.instruction, op.operands, op.shape, op.attributes())


# -- attributes --------------------------------------------------------------------------------


def _custom_call(emitter: Emitter, op: LocalOp) -> Instruction:
    """Return the call on tiles; its arrays lie in memory as it says of the whole ones."""
    a = op.instruction.attributes_as(CustomCall)
    whole = iter([leaf for _, leaf in op.instruction.shape.leaves()])
    shape = op.shape.with_leaves(lambda leaf: leaf.with_layout(next(whole).layout))
    if a.operand_layouts is not None:
        pairs = zip(a.operand_layouts, op.operands, strict=True)
        laid = [
            tile.shape.with_layout(given.layout) if given.is_array else given
            for given, tile in pairs
        ]
        a = replace(a, operand_layouts=tuple(laid))
    return emitter.like(op.instruction, op.operands, shape, a)


def _iota(emitter: Emitter, op: LocalOp) -> Instruction:
    dimension = op.instruction.attributes_as(Iota).dimension
    axes = op.split.results[0].axes[dimension]
    if not axes:
        return emitter.like(op.instruction, (), op.shape)
    # Numbers are counted as integers: sums of rounded ones would round again.
    element_type = op.shape.element_type
    counted = element_type if element_type.is_integer else ElementType.S32
    shape = array_shape(counted, op.shape.dimensions)
    made = emitter.add(Opcode.IOTA, (), op.instruction.attributes, (), shape)
    offset = emitter.offset(axes, op.shape.dimensions[dimension])
    start = emitter.broadcast(emitter.convert(offset, counted), op.shape.dimensions)
    return emitter.convert(emitter.add(Opcode.ADD, (made, start)), element_type)


# -- what addresses data by numbers ------------------------------------------------------------


def _index(emitter: Emitter, x: Instruction) -> Instruction:
    """Return an index in a signed type that holds it: a tile may start behind it."""
    if x.shape.element_type in (ElementType.U32, ElementType.S64, ElementType.U64):
        return _index64(emitter, x)
    return emitter.convert(x, ElementType.S32)


def _index64(emitter: Emitter, x: Instruction) -> Instruction:
    """Return an index as s64; one that is larger is beyond any array, and so is the largest."""
    if x.shape.element_type is ElementType.U64:
        most = emitter.broadcast(emitter.constant(_MOST), x.shape.dimensions)
        x = emitter.add(Opcode.MINIMUM, (x, most))
    return emitter.convert(x, ElementType.S64)


def _scalar(emitter: Emitter, like: Instruction, value: int) -> Instruction:
    return emitter.convert(emitter.number(value), like.shape.element_type)


def _clamped(emitter: Emitter, index: Instruction, last: int) -> Instruction:
    low, high = _scalar(emitter, index, 0), _scalar(emitter, index, max(last, 0))
    sizes = index.shape.dimensions
    if sizes:
        low, high = emitter.broadcast(low, sizes), emitter.broadcast(high, sizes)
    return emitter.add(Opcode.CLAMP, (low, index, high), shape=index.shape)


def _dynamic_slice(emitter: Emitter, op: LocalOp) -> Instruction:
    """Return the slice, or this device's part of it among zeros where a cut dimension is split."""
    source, *starts = op.operands
    whole = op.instruction.operands[0].shape.dimensions
    taken = op.instruction.shape.dimensions
    mask: Instruction | None = None
    for d, size in enumerate(taken):
        axes = op.axes_of(0, d)
        if not axes or size == whole[d]:
            continue
        local = source.shape.dimensions[d]
        start = _clamped(emitter, _index(emitter, starts[d]), whole[d] - size)
        offset = emitter.convert(emitter.offset(axes, local), start.shape.element_type)
        first = emitter.add(Opcode.SUBTRACT, (start, offset))
        source = _padded(emitter, source, d, size)
        place = emitter.add(Opcode.ADD, (first, _scalar(emitter, first, size)))
        starts[d] = _clamped(emitter, place, local + size)
        # Slice row j is row first + j of the tile.
        mask = _rows_within(emitter, op.shape, d, first, local, mask)
    made = _cut(emitter, op, source, starts)
    if mask is None:
        return made
    zero = emitter.broadcast(
        emitter.constant(identity_of(Opcode.ADD, op.shape.element_type)), op.shape.dimensions
    )
    return emitter.add(Opcode.SELECT, (mask, made, zero))


def _cut(
    emitter: Emitter, op: LocalOp, source: Instruction, starts: Sequence[Instruction]
) -> Instruction:
    return emitter.add(
        Opcode.DYNAMIC_SLICE, (source, *_alike(emitter, starts)), DynamicSlice(op.shape.dimensions)
    )


def _alike(emitter: Emitter, starts: Sequence[Instruction]) -> list[Instruction]:
    """Return starts of one type, as dynamic slices want them."""
    types = {x.shape.element_type for x in starts}
    if len(types) <= 1:
        return list(starts)
    return [_index64(emitter, x) for x in starts]


def _padded(emitter: Emitter, x: Instruction, dimension: int, by: int) -> Instruction:
    """Return an array with rows of zeros before and after those of a dimension."""
    rank = x.shape.rank
    padding = [PaddingDimension(0, 0)] * rank
    padding[dimension] = PaddingDimension(by, by)
    zero = emitter.constant(identity_of(Opcode.ADD, x.shape.element_type))
    return emitter.add(Opcode.PAD, (x, zero), Pad(tuple(padding)))


def _rows_within(
    emitter: Emitter,
    shape: Shape,
    dimension: int,
    first: Instruction,
    count: int,
    also: Instruction | None,
) -> Instruction:
    """Return where row j of an array has 0 <= first + j < count, and `also` holds."""
    index_type = first.shape.element_type
    rows = array_shape(index_type, shape.dimensions)
    numbers = emitter.add(Opcode.IOTA, (), Iota(dimension), (), rows)
    place = emitter.add(
        Opcode.ADD, (numbers, emitter.broadcast(first, shape.dimensions)), shape=rows
    )
    zero = emitter.broadcast(_scalar(emitter, first, 0), shape.dimensions)
    end = emitter.broadcast(_scalar(emitter, first, count), shape.dimensions)
    low, high = emitter.compare(place, zero, "GE"), emitter.compare(place, end, "LT")
    found = emitter.add(Opcode.AND, (low, high))
    return found if also is None else emitter.add(Opcode.AND, (found, also))


def _dynamic_update_slice(emitter: Emitter, op: LocalOp) -> Instruction:
    """Return the tile with the rows of the update that fall into it."""
    target, update, *starts = op.operands
    whole = op.instruction.operands[0].shape.dimensions
    sizes = op.instruction.operands[1].shape.dimensions
    mask: Instruction | None = None
    for d, size in enumerate(sizes):
        axes = op.axes_of(0, d)
        if not axes or size == whole[d]:
            continue
        local = target.shape.dimensions[d]
        start = _clamped(emitter, _index(emitter, starts[d]), whole[d] - size)
        offset = emitter.convert(emitter.offset(axes, local), start.shape.element_type)
        # Row r of the tile takes row r + behind of the update.
        behind = emitter.add(Opcode.SUBTRACT, (offset, start))
        update = _padded(emitter, update, d, local)
        place = emitter.add(Opcode.ADD, (behind, _scalar(emitter, behind, local)))
        taken = list(update.shape.dimensions)
        taken[d] = local
        zero = _scalar(emitter, place, 0)
        at = [zero] * len(taken)
        at[d] = _clamped(emitter, place, size + local)
        update = emitter.add(Opcode.DYNAMIC_SLICE, (update, *at), DynamicSlice(tuple(taken)))
        mask = _rows_within(emitter, update.shape, d, behind, size, mask and _grown(
            emitter, mask, d, local))  # fmt: skip
        starts[d] = _scalar(emitter, starts[d], 0)
    if mask is not None:
        old = emitter.add(
            Opcode.DYNAMIC_SLICE, (target, *starts), DynamicSlice(update.shape.dimensions)
        )
        update = emitter.add(Opcode.SELECT, (mask, update, old))
    return emitter.add(Opcode.DYNAMIC_UPDATE_SLICE, (target, update, *starts))


def _grown(emitter: Emitter, mask: Instruction, dimension: int, size: int) -> Instruction:
    """Return a mask, which is alike along a dimension, for another size of that dimension."""
    sizes = list(mask.shape.dimensions)
    sizes[dimension] = 1
    zero = [emitter.number(0)] * len(sizes)
    row = emitter.add(Opcode.DYNAMIC_SLICE, (mask, *zero), DynamicSlice(tuple(sizes)))
    kept = [d for d in range(len(sizes)) if d != dimension]
    flat = emitter.reshape(row, [sizes[d] for d in kept])
    sizes[dimension] = size
    shape = array_shape(ElementType.PRED, tuple(sizes))
    return emitter.add(Opcode.BROADCAST, (flat,), Dimensions(tuple(kept)), (), shape)


def _gather(emitter: Emitter, op: LocalOp) -> Instruction:
    """Return the slices, with zeros for those of other devices where their dimension is split."""
    a = op.instruction.attributes_as(Gather)
    source, indices = op.operands
    whole = op.instruction.operands[0].shape.dimensions
    local = source.shape.dimensions
    split = [d for d in a.collapsed_slice_dims if d in a.start_index_map and op.axes_of(0, d)]
    attributes = op.attributes()
    if not split:
        return emitter.like(op.instruction, op.operands, op.shape, attributes)
    indices = _index(emitter, indices)
    limits = {d: (whole[d] - 1, op.axes_of(0, d), local[d]) for d in split}
    places, mask = _moved_indices(
        emitter, indices, a.start_index_map, a.index_vector_dim, limits, clamp=True
    )
    made = emitter.like(op.instruction, (source, places), op.shape, attributes)
    batch = [d for d in range(op.shape.rank) if d not in a.offset_dims]
    shape = array_shape(ElementType.PRED, op.shape.dimensions)
    wide = emitter.add(Opcode.BROADCAST, (mask,), Dimensions(tuple(batch)), (), shape)
    zero = emitter.constant(identity_of(Opcode.ADD, op.shape.element_type))
    return emitter.add(Opcode.SELECT, (wide, made, emitter.broadcast(zero, op.shape.dimensions)))


def _moved_indices(
    emitter: Emitter,
    indices: Instruction,
    index_map: Sequence[int],
    vector: int,
    limits: dict[int, tuple[int, tuple[int, ...], int]],
    *,
    clamp: bool,
) -> tuple[Instruction, Instruction]:
    """Return indices into the tile, and which vectors of them lie within it.

    `limits` has (last index of the whole, axes, length of the tile) of each split dimension.
    """
    sizes = list(indices.shape.dimensions)
    implicit = vector == len(sizes)
    rows = sizes if implicit else [n for d, n in enumerate(sizes) if d != vector]
    parts: list[Instruction] = []
    mask: Instruction | None = None
    for number, dimension in enumerate(index_map):
        part = indices
        if not implicit:
            starts, ends = [0] * len(sizes), list(sizes)
            starts[vector], ends[vector] = number, number + 1
            cut = Slice(tuple(starts), tuple(ends), (1,) * len(sizes))
            part = emitter.add(Opcode.SLICE, (indices,), cut)
        if dimension in limits:
            last, axes, length = limits[dimension]
            if clamp:
                part = _clamped(emitter, part, last)
            offset = emitter.convert(emitter.offset(axes, length), part.shape.element_type)
            start = emitter.broadcast(offset, part.shape.dimensions)
            part = emitter.add(Opcode.SUBTRACT, (part, start))
            shape = part.shape.dimensions
            zero = emitter.broadcast(_scalar(emitter, part, 0), shape)
            end = emitter.broadcast(_scalar(emitter, part, length), shape)
            inside = emitter.add(
                Opcode.AND, (emitter.compare(part, zero, "GE"), emitter.compare(part, end, "LT"))
            )
            inside = emitter.reshape(inside, rows)
            mask = inside if mask is None else emitter.add(Opcode.AND, (mask, inside))
        parts.append(part)
    assert mask is not None, "some dimension is split"
    if implicit or len(parts) == 1:
        return parts[0], mask
    joined = emitter.add(Opcode.CONCATENATE, tuple(parts), Dimensions((vector,)))
    return joined, mask


def _scatter(emitter: Emitter, op: LocalOp) -> Instruction:
    """Return the tile with the updates that fall into it; others vanish behind its ends."""
    a = op.instruction.attributes_as(Scatter)
    count = (len(op.operands) - 1) // 2
    split = [
        d
        for d in a.inserted_window_dims
        if d in a.scatter_dims_to_operand_dims and op.axes_of(0, d)
    ]
    if not split:
        return emitter.like(op.instruction, op.operands, op.shape)
    whole = op.instruction.operands[0].shape.dimensions
    local = op.operands[0].shape.dimensions
    indices = _index(emitter, op.operands[count])
    limits = {d: (whole[d] - 1, op.axes_of(0, d), local[d]) for d in split}
    places, _ = _moved_indices(
        emitter, indices, a.scatter_dims_to_operand_dims, a.index_vector_dim, limits, clamp=False
    )
    operands = (*op.operands[:count], places, *op.operands[count + 1 :])
    return emitter.like(op.instruction, operands, op.shape)


def _reduce(emitter: Emitter, op: LocalOp) -> Instruction:
    """Return the reduction of the tile, or of what all devices make of their tiles."""
    made = emitter.like(op.instruction, op.operands, op.shape)
    axes = chosen_axes(op.rule, op.split.axes)
    if not axes:
        return made
    leaves = op.shape.tuple_shapes if op.shape.is_tuple else (op.shape,)
    gathered = []
    for number, leaf in enumerate(leaves):
        part = made
        if op.shape.is_tuple:
            part = emitter.add(Opcode.GET_TUPLE_ELEMENT, (made,), GetTupleElement(number))
        row = emitter.reshape(part, (1, *leaf.dimensions))
        gathered.append(emitter.gathered(row, axes, 0))
    operands = (*gathered, *op.operands[len(leaves) :])
    return emitter.like(op.instruction, operands, op.shape, Dimensions((0,)))


_SPECIAL: Final[dict[Opcode, Callable[[Emitter, LocalOp], Instruction]]] = {
    Opcode.CONVOLUTION: convolution,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.GATHER: _gather,
    Opcode.IOTA: _iota,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: reduce_window,
    Opcode.SCATTER: _scatter,
}
