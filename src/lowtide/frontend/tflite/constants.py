"""Constants of a model as arrays: plain ones, those of less than a byte, and sparse ones."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.frontend.tflite.model import TYPE_BITS, LiteTensor
from lowtide.frontend.tflite.node import ELEMENT_TYPES
from lowtide.frontend.tflite.sparse import densified
from lowtide.ir import Shape, array_shape
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array

_SIGNED: Final = ("INT4", "INT2")


def shape_of(tensor: LiteTensor) -> Shape:
    """Return the shape of a tensor; raises UnsupportedOpError for a type that no array has."""
    kind = ELEMENT_TYPES.get(tensor.type)
    if kind is None:
        raise UnsupportedOpError(
            f"tensor {tensor.number} ({tensor.name}) is {tensor.type}, which no array is"
        )
    return array_shape(kind, tensor.shape)


def array_of(tensor: LiteTensor) -> Array:
    """Return the array of a constant; elements of less than a byte take one each.

    Raises UnsupportedOpError for a type that no array has, InputError for a damaged sparse one.
    """
    shape = shape_of(tensor)
    dtype = DTYPES[shape.element_type]
    data = np.zeros(0, np.uint8) if tensor.data is None else tensor.data
    if TYPE_BITS[tensor.type] < 8:
        values = _unpacked(data, TYPE_BITS[tensor.type], is_signed=tensor.type in _SIGNED)
    else:
        values = np.frombuffer(data.tobytes(), dtype)
    if tensor.sparsity is not None and len(values) != shape.element_count:
        return densified(values, tensor.shape, tensor.sparsity)
    return values[: shape.element_count].reshape(tensor.shape)


def _unpacked(data: Array, bits: int, *, is_signed: bool) -> Array:
    """Numbers of 2 or 4 bits, the lowest of a byte first, as bytes."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (data[:, None] >> shifts) & ((1 << bits) - 1)
    flat = parts.reshape(-1).astype(np.int8)
    if not is_signed:
        return flat.view(np.uint8)
    return np.where(flat >= 1 << (bits - 1), flat - (1 << bits), flat).astype(np.int8)
