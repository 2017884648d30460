"""Arrays at addresses: read as arrays of their own, and written in the layout of a shape."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape


def array_at(address: int, shape: Shape) -> Array:
    """Return a copy of the array at an address, in row-major order."""
    return np.array(memory_at(address, shape), order="C")


def write_array(address: int, shape: Shape, value: Array) -> None:
    """Write an array of the type and the sizes of a shape to an address."""
    memory_at(address, shape)[...] = value


def memory_at(address: int, shape: Shape) -> Array:
    """Return the memory at an address as an array; a layout has no tiles in native code."""
    dtype = DTYPES[shape.element_type]
    nbytes = shape.element_count * dtype.itemsize
    if not nbytes:
        return np.empty(shape.dimensions, dtype)
    block: Any = (ctypes.c_char * nbytes).from_address(address)
    order = shape.physical_order
    sizes = [shape.dimensions[x] for x in order]
    flat = np.frombuffer(block, np.uint8).view(dtype)
    return flat.reshape(sizes).transpose(np.argsort(order))
