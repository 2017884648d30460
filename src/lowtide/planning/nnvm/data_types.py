"""Element types of NNVM graphs: how many bytes an element takes, and the NumPy type to view it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

DataType = int | str | np.dtype[Any]
"""An element type: a type flag, a name such as `float32` or `int8x4`, or a NumPy type.

The two parts of `int8x4` are the type of a lane and the number of lanes in one element.
"""

TYPE_FLAGS: Final[Mapping[int, str]] = MappingProxyType(
    dict(enumerate(("float32", "float64", "float16", "uint8", "int32", "int8", "int64")))
)
"""The type flags that NNVM and MXNet have in common; other types are given by name."""

_NAME: Final = re.compile(
    r"(?:bool|(bfloat|complex|float|int|uint)([1-9]\d*)(_[a-z\d]+?)?)(?:x([1-9]\d*))?"
)

_NUMPY: Final = (
    *("float16", "float32", "float64", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)

_NARROW: Final = (1, 4)
"""Widths below a byte that the run time of TVM knows; such an element takes a byte."""


@lru_cache(maxsize=256)
def lanes_of(dtype: DataType) -> tuple[np.dtype[Any], int]:
    """Return the NumPy type of a lane, and the number of lanes in one element.

    A type that NumPy does not have is viewed as unsigned integers of its width. Raises ValueError
    for an unknown type, and one whose elements are no whole bytes, nor 1 or 4 bits.
    """
    if isinstance(dtype, np.dtype):
        return dtype, 1
    name = TYPE_FLAGS.get(dtype) if isinstance(dtype, int) else dtype
    match = _NAME.fullmatch(name) if name is not None else None
    if match is None:
        flags = ", ".join([f"{flag} ({text})" for flag, text in TYPE_FLAGS.items()])
        raise ValueError(
            f"unknown dtype {dtype!r}; expected a name such as 'float32' or 'int8x4', or a type "
            f"flag: {flags}"
        )
    kind, width, variant, count = match.groups()
    bits, lanes = int(width or 1), int(count or 1)
    if (bits * lanes) % 8 and bits * lanes not in _NARROW:
        raise ValueError(f"dtype {dtype!r}: {bits * lanes} bits are no whole number of bytes")
    if name == "bool":
        return np.dtype(np.bool_), 1
    if bits % 8:
        return _raw((bits * lanes + 7) // 8), 1
    known = f"{kind}{width}" in _NUMPY and variant is None
    return (np.dtype(f"{kind}{width}") if known else _raw(bits // 8)), lanes


def _raw(nbytes: int) -> np.dtype[Any]:
    return np.dtype(f"u{nbytes}" if nbytes in (1, 2, 4, 8) else f"V{nbytes}")


def element_bytes(dtype: DataType) -> int:
    """Return the bytes of one element, all lanes together; raises ValueError as `lanes_of` does."""
    lane, lanes = lanes_of(dtype)
    return lane.itemsize * lanes
