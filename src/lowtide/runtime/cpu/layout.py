"""A test whether arrays and tuples lie in memory as the native entry takes them to."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np

from lowtide.runtime.cpu.entry import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_RANK,
    ARRAY_SHAPE,
    C_CONTIGUOUS,
    TUPLE_COUNT,
    TUPLE_ITEMS,
)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _number(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def _array_fits(array: Any) -> bool:
    at = id(array)
    shape = _word(at + ARRAY_SHAPE)
    if _word(at + 8) != id(np.ndarray) or _number(at + ARRAY_RANK) != array.ndim:
        return False
    if _word(at + ARRAY_DATA) != array.ctypes.data or _word(at + ARRAY_DTYPE) != id(array.dtype):
        return False
    if bool(_number(at + ARRAY_FLAGS) & C_CONTIGUOUS) != array.flags.c_contiguous:
        return False
    return all(_word(shape + 8 * axis) == size for axis, size in enumerate(array.shape))


@cache
def is_known() -> bool:
    """Whether fields of arrays and tuples may be read where `entry.py` says.

    Each is compared with what Python says of it, on arrays of several kinds. Nothing is read
    beyond an object's size.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    if np.ndarray.__basicsize__ < ARRAY_FLAGS + 4 or tuple.__basicsize__ != TUPLE_ITEMS:
        return False
    plain = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    frozen = np.arange(5, dtype=np.int64)
    frozen.flags.writeable = False
    samples = (plain, plain.T, plain[:, ::2], frozen, np.zeros((), np.complex64), np.zeros((0, 7)))
    if _word(id(samples) + TUPLE_COUNT) != len(samples):
        return False
    items = [_word(id(samples) + TUPLE_ITEMS + 8 * x) for x in range(len(samples))]
    return items == [id(x) for x in samples] and all(_array_fits(x) for x in samples)


def address_of(array: Any) -> int:
    """Return where the elements of an array begin, sooner than its property `ctypes` tells."""
    return _word(id(array) + ARRAY_DATA) if is_known() else int(array.ctypes.data)
