"""The types in which values of each element type are computed, and the way back.

Narrow floating point types are computed in f32 and rounded once; narrow integers are computed in
bytes and wrap around.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, ELEMENT_TYPES, Array

_WIDE: Final = (ElementType.F64, ElementType.F32)


def _compute_dtype(element_type: ElementType) -> np.dtype[Any]:
    if element_type.is_floating and element_type not in _WIDE:
        return np.dtype(np.float32)
    if element_type.is_integer and element_type.bits < 8:
        return np.dtype(np.int8 if element_type.is_signed else np.uint8)
    return DTYPES[element_type]


COMPUTE_DTYPES: Final = {x: _compute_dtype(x) for x in DTYPES}
"""The NumPy dtype in which values of each element type are computed."""

_WIDER: Final = {DTYPES[x]: dtype for x, dtype in COMPUTE_DTYPES.items()}


def widen(array: Array) -> Array:
    """Return the same values in the dtype in which they are computed."""
    dtype = _WIDER[array.dtype]
    return array if dtype is array.dtype else array.astype(dtype)


def narrow(array: Any, element_type: ElementType) -> Array:
    """Return computed values in the dtype of `element_type`; narrow integers wrap around.

    A double is rounded once to a type of at most a byte, where NumPy would go by way of f32.
    """
    given = np.asarray(array)
    if given.dtype == np.float64 and element_type.is_floating and element_type.bits <= 8:
        given = _to_odd(given)
    found = given.astype(DTYPES[element_type], copy=False)
    return _above_least_power(given, found) if element_type is ElementType.F8E8M0FNU else found


def _above_least_power(given: Array, found: Array) -> Array:
    """Return the powers of two that are `found`, where all that exceeds the least one goes up.

    So XLA rounds, and ml_dtypes before 0.7; that takes the nearest one, halves upward, from there
    on. All others are the nearest ones.
    """
    least = 2.0**-127
    is_above = (given > least) & (given < 1.5 * least)
    return np.where(is_above, np.float32(2 * least).astype(found.dtype), found)


def _to_odd(array: Array) -> Array:
    """Return doubles cut off to f32, the last bit set where that is not exact.

    What has 22 bits or less comes from these as from the doubles. Source: S. Boldo, G. Melquiond
    (2008), Emulation of FMA and correctly rounded sums.
    """
    with np.errstate(over="ignore", under="ignore"):
        nearest = array.astype(np.float32)
    back = nearest.astype(np.float64)
    bits = np.ascontiguousarray(nearest).view(np.uint32).reshape(array.shape)
    cut = np.where(np.abs(back) > np.abs(array), bits - np.uint32(1), bits)
    is_inexact = (back != array) & ~np.isnan(array)
    return np.asarray(np.where(is_inexact, cut | np.uint32(1), cut)).view(np.float32)


def element_type_of(array: Array) -> ElementType:
    """Return the element type whose dtype the array has."""
    return ELEMENT_TYPES[array.dtype]


def integer_range(element_type: ElementType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = element_type.bits
    if element_type.is_signed:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1
