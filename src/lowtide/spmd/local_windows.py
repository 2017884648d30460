"""Windows over tiles, which get the rows that they reach into from the neighbours."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import (
    CollectivePermute,
    Convolution,
    Dimensions,
    ReduceWindow,
    Slice,
    Window,
    WindowDimension,
)
from lowtide.ops.factors.record import Halo
from lowtide.ops.reducers import reducer_opcode
from lowtide.passes.matching import identity_of
from lowtide.spmd.choice import LocalOp
from lowtide.spmd.emitter import Emitter


def convolution(emitter: Emitter, op: LocalOp) -> Instruction:
    """Add a convolution of tiles, with fewer groups where features are split."""
    whole = op.instruction.attributes_as(Convolution)
    d, rows = whole.dimensions, list(whole.window.dimensions)
    lhs, rhs = op.operands
    for place, (spatial, kernel, out) in enumerate(
        zip(d.input_spatial, d.kernel_spatial, d.output_spatial, strict=True)
    ):
        halo = _halo_at(op, place)
        left, right = (halo.left, halo.right) if halo else (0, 0)
        if op.axes_of(0, spatial):
            size, length = rhs.shape.dimensions[kernel], lhs.shape.dimensions[spatial]
            result = op.shape.dimensions[out]
            rows[place] = _tile_window(rows[place], size, left, left + length + right, result)
        if halo:
            lhs = _extended(emitter, lhs, halo, op.axes_of(0, spatial), None)
    attributes = op.attributes()
    assert isinstance(attributes, Convolution)
    attributes = replace(attributes, window=Window(tuple(rows)))
    return emitter.like(op.instruction, (lhs, rhs), op.shape, attributes)


def reduce_window(emitter: Emitter, op: LocalOp) -> Instruction:
    """Add a reduce-window of tiles; beyond the ends of the array stands what changes no window."""
    count = len(op.operands) // 2
    inputs, starts = list(op.operands[:count]), op.operands[count:]
    rows = list(op.instruction.attributes_as(ReduceWindow).window.dimensions)
    result = op.shape.tuple_shapes[0] if op.shape.is_tuple else op.shape
    reduction = reducer_opcode(op.instruction.called_computations[0])
    for place, row in enumerate(rows):
        axes = op.axes_of(0, place)
        if not axes:
            continue
        halo = _halo_at(op, place)
        left, right = (halo.left, halo.right) if halo else (0, 0)
        length = left + inputs[0].shape.dimensions[place] + right
        rows[place] = _tile_window(row, row.size, left, length, result.dimensions[place])
        if halo and reduction is not None:
            beyond = emitter.constant(identity_of(reduction, inputs[0].shape.element_type))
            inputs = [_extended(emitter, inputs[0], halo, axes, beyond)]
    attributes = ReduceWindow(Window(tuple(rows)))
    return emitter.like(op.instruction, (*inputs, *starts), op.shape, attributes)


def _tile_window(
    window: WindowDimension, size: int, left: int, length: int, result: int
) -> WindowDimension:
    """Return the window, of `size` elements, over a tile of `length` rows with its halo.

    `left` of them stand before the tile; `result` is the size of the tile of the result.
    """
    base = window.base_dilation
    low = window.padding_low - left * base
    covered = (result - 1) * window.stride + (size - 1) * window.window_dilation + 1
    high = covered - low - ((length - 1) * base + 1)
    return replace(window, size=size, padding_low=low, padding_high=high)


def _halo_at(op: LocalOp, place: int) -> Halo | None:
    """Return the halo along a dimension of the window, None where it is not split or needs none."""
    for halo in op.rule.halos:
        if halo.window == place and op.split.axes.get(halo.factor):
            return halo
    return None


def _extended(
    emitter: Emitter, x: Instruction, halo: Halo, axes: tuple[int, ...], beyond: Instruction | None
) -> Instruction:
    """Return a tile with the rows of its neighbours; beyond the ends stand `beyond`, or zeros."""
    length = x.shape.dimensions[halo.dimension]
    parts = [x]
    if halo.left:
        rows = _rows(emitter, x, halo.dimension, length - halo.left, length)
        parts.insert(0, _from_neighbour(emitter, rows, axes, beyond, is_before=True))
    if halo.right:
        rows = _rows(emitter, x, halo.dimension, 0, halo.right)
        parts.append(_from_neighbour(emitter, rows, axes, beyond, is_before=False))
    return emitter.add(Opcode.CONCATENATE, tuple(parts), Dimensions((halo.dimension,)))


def _rows(emitter: Emitter, x: Instruction, dimension: int, start: int, end: int) -> Instruction:
    starts, limits = [0] * x.shape.rank, list(x.shape.dimensions)
    starts[dimension], limits[dimension] = start, end
    cut = Slice(tuple(starts), tuple(limits), (1,) * x.shape.rank)
    return emitter.add(Opcode.SLICE, (x,), cut)


def _from_neighbour(
    emitter: Emitter,
    rows: Instruction,
    axes: tuple[int, ...],
    beyond: Instruction | None,
    *,
    is_before: bool,
) -> Instruction:
    """Return the rows of the device before or behind along axes; the one at the end has none."""
    pairs = []
    for group in emitter.grid.groups(axes).as_lists():
        pairs += [(a, b) if is_before else (b, a) for a, b in pairwise(group)]
    attributes = CollectivePermute(tuple(sorted(pairs)), emitter.target.channel())
    moved = emitter.add(Opcode.COLLECTIVE_PERMUTE, (rows,), attributes, (), rows.shape)
    if beyond is None:
        return moved
    last = 0 if is_before else emitter.grid.extent(axes) - 1
    is_end = emitter.compare(emitter.position(axes), emitter.number(last), "EQ")
    sizes = rows.shape.dimensions
    outside = emitter.broadcast(beyond, sizes)
    return emitter.add(Opcode.SELECT, (emitter.broadcast(is_end, sizes), outside, moved))
