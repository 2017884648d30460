"""Bits of elements: counting them, and reading them as another type."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.evaluator.numeric import element_type_of
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array


def unsigned_dtype(itemsize: int) -> np.dtype[Any]:
    """Return the unsigned dtype of `itemsize` bytes: 1, 2, 4 or 8."""
    return np.dtype(f"u{itemsize}")


# -- counting ----------------------------------------------------------------------------------

_MASKS: Final = tuple([np.uint64(m) for m in (
    0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x0101010101010101,
)])  # fmt: skip


def _raw(bits: int, x: Array) -> Array:
    return x.astype(np.uint64) & np.uint64((1 << bits) - 1)


def _ones(x: Array) -> Array:
    """Return the number of bits set in each 64-bit word, by adding up ever wider fields."""
    pairs, nibbles, bytes_, sum_of_bytes = _MASKS
    x = x - ((x >> np.uint64(1)) & pairs)
    x = (x & nibbles) + ((x >> np.uint64(2)) & nibbles)
    x = (x + (x >> np.uint64(4))) & bytes_
    return np.asarray((x * sum_of_bytes) >> np.uint64(56))


def population_count(bits: int, x: Array) -> Array:
    """Return the number of bits set among the lower `bits` of each integer."""
    return _ones(_raw(bits, x)).astype(x.dtype)


def count_leading_zeros(bits: int, x: Array) -> Array:
    """Return how many of the lower `bits` bits stand clear above the first that is set."""
    filled = _raw(bits, x)
    for distance in (1, 2, 4, 8, 16, 32):
        filled = filled | (filled >> np.uint64(distance))
    return (np.uint64(bits) - _ones(filled)).astype(x.dtype)


# -- bitcast-convert ---------------------------------------------------------------------------


def bitcast_convert(array: Array, element_type: ElementType) -> Array:
    """Return the bits of `array` read as `element_type`.

    To a narrower type, the result has a new last dimension, least significant part first; to a
    wider one, the last dimension disappears.
    """
    source = element_type_of(array).bits
    target = element_type.bits
    if source == target:
        return _reread(array, element_type)
    if source % 8 == 0 and target % 8 == 0:
        return _view_bytes(array, DTYPES[element_type])
    if source > target:
        return _split(array, source, element_type)
    return _join(array, source, element_type)


def _reread(array: Array, element_type: ElementType) -> Array:
    dtype = DTYPES[element_type]
    if element_type.bits % 8:
        return (unpadded_bits(array)).view(dtype)
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape)


def unpadded_bits(array: Array) -> Array:
    """Return the bits of each element of a type narrower than a byte, upper bits clear."""
    bits = element_type_of(array).bits
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)
    return np.asarray(raw & np.uint8((1 << bits) - 1))


def _view_bytes(array: Array, dtype: np.dtype[Any]) -> Array:
    if array.dtype.itemsize > dtype.itemsize:
        ratio = array.dtype.itemsize // dtype.itemsize
        return np.ascontiguousarray(array).reshape(-1, 1).view(dtype).reshape(*array.shape, ratio)
    flat = np.ascontiguousarray(array).reshape(-1, array.shape[-1])
    return flat.view(dtype).reshape(array.shape[:-1])


def _split(array: Array, source: int, element_type: ElementType) -> Array:
    bits = element_type.bits
    wide = unsigned_dtype(array.dtype.itemsize)
    raw = unpadded_bits(array) if source < 8 else np.ascontiguousarray(array).view(wide)
    shifts = np.arange(0, source, bits).astype(wide)
    parts: Array = (raw.reshape(*array.shape, 1) >> shifts) & wide.type((1 << bits) - 1)
    return parts.astype(np.uint8).view(DTYPES[element_type])


def _join(array: Array, source: int, element_type: ElementType) -> Array:
    dtype = DTYPES[element_type]
    wide = unsigned_dtype(dtype.itemsize)
    shifts = np.arange(0, element_type.bits, source).astype(wide)
    parts = unpadded_bits(array).astype(wide) << shifts
    return np.asarray(np.bitwise_or.reduce(parts, axis=-1)).view(dtype)
