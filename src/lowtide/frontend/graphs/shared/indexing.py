"""Gathers, scatters, one-hot vectors, and resizing by chosen positions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from lowtide.builder import Builder, BuildError, Op, SubComputation
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.ir import Opcode, array_shape
from lowtide.ir.attributes import Gather, Scatter
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES


def from_end(b: Builder, indices: Op, size: int) -> Op:
    """Return positions from 0 of those that may be counted from the end, as -1, -2, ..."""
    if not indices.element_type.is_signed:
        return indices
    return b.select(indices.lt(0), indices + size, indices)


def take(b: Builder, x: Op, indices: Op, axis: int, batch: int = 0) -> Op:
    """Return the slices of x along `axis` at `indices`, whose dimensions take its place.

    The first `batch` dimensions of both run together. A position outside is clamped.
    """
    batching = tuple(range(batch))
    inner = indices.rank - batch
    before = axis - batch
    offsets = [*range(batch, axis), *range(axis + inner, x.rank - 1 + inner)]
    sizes = [1 if i == axis or i < batch else n for i, n in enumerate(x.dimensions)]
    attributes = Gather(
        offset_dims=tuple(offsets),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=indices.rank,
        slice_sizes=tuple(sizes),
        operand_batching_dims=batching,
        start_indices_batching_dims=batching,
    )
    if before < 0:
        raise BuildError(f"axis {axis} is one of the {batch} batch dimensions")
    found = [*x.dimensions[:axis], *indices.dimensions[batch:], *x.dimensions[axis + 1 :]]
    if not prod(found):
        return _empty(b, x, found)
    return b.gather(x, indices, attributes)


def _empty(b: Builder, x: Op, sizes: Sequence[int]) -> Op:
    """An array of no elements; HLO gathers none of an array that has none either."""
    return b.broadcast(b.constant(np.zeros((), DTYPES[x.element_type])), sizes, [])


def take_vectors(b: Builder, x: Op, indices: Op, batch: int = 0) -> Op:
    """Return the slices of x at the index vectors in the last dimension of `indices`."""
    length = indices.dimensions[-1]
    if length > x.rank - batch:
        raise BuildError(f"index vectors of {length} numbers for {x.rank - batch} dimensions")
    indexed = range(batch, batch + length)
    kept = x.rank - batch - length
    first = indices.rank - 1
    attributes = Gather(
        offset_dims=tuple(range(first, first + kept)),
        collapsed_slice_dims=tuple(indexed),
        start_index_map=tuple(indexed),
        index_vector_dim=first,
        slice_sizes=(*[1] * (batch + length), *x.dimensions[batch + length :]),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
    )
    found = [*indices.dimensions[:-1], *x.dimensions[batch + length :]]
    if not prod(found):
        return _empty(b, x, found)
    return b.gather(x, indices, attributes)


def element_vectors(b: Builder, indices: Op, axis: int) -> Op:
    """Return the full index vector of each element of `indices`, which counts along `axis`."""
    parts = [
        indices if i == axis else b.iota(array_shape(indices.element_type, indices.dimensions), i)
        for i in range(indices.rank)
    ]
    wide = [b.reshape(x, [*x.dimensions, 1]) for x in parts]
    return wide[0] if len(wide) == 1 else b.concatenate(wide, indices.rank)


_COMBINE: Final = {
    "add": Opcode.ADD,
    "mul": Opcode.MULTIPLY,
    "max": Opcode.MAXIMUM,
    "min": Opcode.MINIMUM,
}

SCATTER_KINDS: Final = ("none", *_COMBINE)


def put_vectors(b: Builder, x: Op, indices: Op, updates: Op, kind: str = "none") -> Op:
    """Return x with updates stored, or combined, at the index vectors of `indices`."""
    length = indices.dimensions[-1]
    first = indices.rank - 1
    attributes = Scatter(
        update_window_dims=tuple(range(first, updates.rank)),
        inserted_window_dims=tuple(range(length)),
        scatter_dims_to_operand_dims=tuple(range(length)),
        index_vector_dim=first,
    )
    return b.scatter(x, indices, updates, _combiner(b, kind, x.element_type), attributes)


def put_in_segments(b: Builder, x: Op, segments: Op, kind: str, count: int) -> Op:
    """Return what the slices of x come to by segment; of a negative number they count for none."""
    start = b.constant(_start(kind, DTYPES[x.element_type]), x.element_type)
    empty = b.broadcast(start, [count, *x.dimensions[segments.rank :]], [])
    places = b.reshape(segments, [*segments.dimensions, 1])
    return put_vectors(b, empty, places, x, kind)


def _start(kind: str, dtype: np.dtype[Any]) -> complex:
    """What no slice comes to."""
    if kind in ("add", "mul"):
        return int(kind == "mul")
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    found = limits.min if kind == "max" else limits.max
    return float(found) if dtype.kind == "f" else int(found)


def _combiner(b: Builder, kind: str, element_type: ElementType) -> SubComputation:
    if kind != "none":
        return b.scalar_computation(_COMBINE[kind], element_type)
    scalar = array_shape(element_type)
    child = b.sub_builder("store")
    _, update = [child.parameter(i, scalar) for i in range(2)]
    return child.build_computation(update)


def one_hot(b: Builder, indices: Op, depth: int, on: Op, off: Op, axis: int) -> Op:
    """Return `on` where the position along a new dimension is the index, else `off`."""
    sizes = list(indices.dimensions)
    sizes.insert(axis, depth)
    kept = [i for i in range(len(sizes)) if i != axis]
    wanted = b.broadcast(indices, sizes, kept)
    positions = b.iota(array_shape(indices.element_type, tuple(sizes)), axis)
    parts = [expand(b, x, sizes) for x in (on, off)]
    return b.select(wanted.eq(positions), *parts)


def resized_nearest(b: Builder, x: Op, positions: Sequence[np.ndarray | None]) -> Op:
    """Return the elements at given positions along each dimension; None leaves one as it is."""
    for axis, chosen in enumerate(positions):
        if chosen is not None and chosen.tolist() != list(range(x.dimensions[axis])):
            x = take(b, x, b.constant(chosen.astype(np.int32)), axis)
    return x


def resized_linear(b: Builder, x: Op, coordinates: Sequence[np.ndarray | None]) -> Op:
    """Return values between elements, at fractional coordinates along each dimension."""
    for axis, at in enumerate(coordinates):
        if at is None or at.tolist() == list(range(x.dimensions[axis])):
            continue
        inside = np.clip(at, 0, x.dimensions[axis] - 1)
        low = np.floor(inside).astype(np.int32)
        high = np.minimum(low + 1, x.dimensions[axis] - 1).astype(np.int32)
        left, right = [take(b, x, b.constant(i), axis) for i in (low, high)]
        share = b.constant(inside - low, x.element_type)
        x = left + (right - left) * along(b, share, axis, left.dimensions)
    return x
