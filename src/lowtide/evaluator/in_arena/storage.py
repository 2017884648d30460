"""Arrays as bytes in memory: elements in the order of a layout, narrow ones packed where it asks.

Tiles and padding are left out, as in the sizes of slices.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.records import dataclass

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Storage:
    """How the array of one leaf lies in memory.

    `order` lists the dimensions from major to minor, `back` undoes it; both are None where memory
    is row major. `packed` is the number of elements in a byte. `nbytes` is 0 for what lies in no
    memory: tokens, opaque values, empty arrays.
    """

    nbytes: int
    dimensions: tuple[int, ...]
    dtype: np.dtype[Any]
    bits: int
    packed: int
    order: tuple[int, ...] | None
    back: tuple[int, ...] | None

    def to_bytes(self, array: Array) -> Bytes:
        """Return the bytes of an array, whose dimensions may be smaller than the bounds."""
        if self.order is not None:
            array = array.transpose(self.order)
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if self.bits >= 8:
            return raw
        raw = raw & np.uint8((1 << self.bits) - 1)
        return _packed(raw, self.bits, self.packed) if self.packed > 1 else raw

    def to_array(self, raw: Bytes, sizes: tuple[int, ...] | None = None) -> Array:
        """Return the array in the first of the bytes, a copy of its own, in row-major order.

        `sizes` are its dimensions where they are smaller than the bounds.
        """
        sizes = self.dimensions if sizes is None else sizes
        count = math.prod(sizes)
        if self.packed > 1:
            raw = _unpacked(raw, self.bits, self.packed)
        array = raw[: count * self.dtype.itemsize].view(self.dtype)
        if self.order is None:
            return array.reshape(sizes).copy()
        stored = array.reshape([sizes[d] for d in self.order])
        return stored.transpose(self.back).copy(order="C")


@lru_cache(maxsize=4096)
def storage_of(shape: Shape) -> Storage:
    """Return how a leaf of this shape lies in memory.

    Raises UnsupportedOpError for elements that are neither packed nor of their natural size.
    """
    array = array_of(shape)
    dtype = DTYPES.get(array.element_type, np.dtype(np.uint8))
    layout = array.layout
    nbytes = array.nbytes if array.element_type.is_array else 0
    if layout is None:
        bits = array.element_type.bits
        return Storage(nbytes, array.dimensions, dtype, bits, 1, None, None)
    order = _canonical(tuple(reversed(layout.minor_to_major)), array.dimensions)
    return Storage(
        nbytes,
        array.dimensions,
        dtype,
        array.element_type.bits,
        _elements_per_byte(array, layout.element_size_in_bits),
        order,
        _inverse(order),
    )


def _canonical(order: tuple[int, ...], dimensions: tuple[int, ...]) -> tuple[int, ...] | None:
    """One order for all that mean the same bytes: dimensions of size 1 do not count."""
    kept = [d for d in order if dimensions[d] != 1]
    if kept == sorted(kept):
        return None
    return (*[d for d in range(len(order)) if dimensions[d] == 1], *kept)


def _inverse(order: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if order is None else tuple([order.index(d) for d in range(len(order))])


def _elements_per_byte(shape: Shape, bits: int) -> int:
    if bits in (0, shape.element_type.nbytes * 8):
        return 1
    if bits == shape.element_type.bits and 8 % bits == 0:
        return 8 // bits
    raise UnsupportedOpError(f"{shape}: elements of {bits} bits have no place in memory here")


def _packed(raw: Bytes, bits: int, per_byte: int) -> Bytes:
    """Several elements in each byte, the first one in the lowest bits."""
    whole = np.zeros(-(-raw.size // per_byte) * per_byte, np.uint8)
    whole[: raw.size] = raw
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    shifted = whole.reshape(-1, per_byte) << shifts
    return np.asarray(np.bitwise_or.reduce(shifted, axis=1), np.uint8)


def _unpacked(raw: Bytes, bits: int, per_byte: int) -> Bytes:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (raw.reshape(-1, 1) >> shifts) & np.uint8((1 << bits) - 1)
    assert parts.shape[1] == per_byte
    return np.ascontiguousarray(parts).reshape(-1)


def transposed(storage: Storage, dimensions: tuple[int, ...]) -> Storage:
    """Return how the same bytes are an array whose dimension `i` is `dimensions[i]` of the old."""
    sizes = tuple([storage.dimensions[d] for d in dimensions])
    order = storage.order or tuple(range(len(dimensions)))
    moved = _canonical(tuple([dimensions.index(d) for d in order]), sizes)
    return replace(storage, dimensions=sizes, order=moved, back=_inverse(moved))


def reshaped(storage: Storage, dimensions: tuple[int, ...]) -> Storage | None:
    """Return how the same bytes are the same elements in other dimensions; None if they are not.

    Sizes of 1 come and go in any layout, others change in row-major memory only.
    """
    if storage.order is None:
        return replace(storage, dimensions=dimensions)
    before = [d for d, size in enumerate(storage.dimensions) if size != 1]
    after = [d for d, size in enumerate(dimensions) if size != 1]
    if [storage.dimensions[d] for d in before] != [dimensions[d] for d in after]:
        return None
    number = dict(zip(before, after, strict=True))
    kept = [number[d] for d in storage.order if d in number]
    ones = [d for d, size in enumerate(dimensions) if size == 1]
    order = _canonical((*ones, *kept), dimensions)
    return replace(storage, dimensions=dimensions, order=order, back=_inverse(order))


def array_of(shape: Shape) -> Shape:
    """Return the shape itself, or that of the array in a mutable buffer."""
    return shape.tuple_shapes[0] if shape.is_buffer else shape


def memory_order(shape: Shape) -> Array:
    """Return for each element of an array of this shape its number in memory."""
    layout = shape.layout
    if layout is None:
        return np.arange(shape.element_count).reshape(shape.dimensions)
    order = tuple(reversed(layout.minor_to_major))
    stored = np.arange(shape.element_count).reshape([shape.dimensions[d] for d in order])
    return stored.transpose([order.index(d) for d in range(shape.rank)])


@lru_cache(maxsize=4096)
def leaf_starts(shape: Shape) -> tuple[int, ...]:
    """Return per element of a tuple the number of leaves in front of it, and the total."""
    starts = [0]
    for element in shape.tuple_shapes:
        starts.append(starts[-1] + leaf_count(element))
    return tuple(starts)


def leaf_count(shape: Shape) -> int:
    """Return the number of leaves: 1 for what is no tuple, 0 for an empty tuple."""
    return leaf_starts(shape)[-1] if shape.is_tuple else 1


def leaf_position(shape: Shape, index: tuple[int, ...]) -> int:
    """Return the number of leaves in front of the subshape at `index`."""
    position = 0
    for element in index:
        position += leaf_starts(shape)[element]
        shape = shape.tuple_shapes[element]
    return position
