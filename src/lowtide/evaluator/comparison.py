"""Comparison: by value, or in the total order of floating point numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from lowtide.evaluator.bits import unpadded_bits
from lowtide.evaluator.numeric import element_type_of, widen
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array

DIRECTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
"""The comparison of each direction."""


_UNSIGNED_NAN: Final = (ElementType.F8E4M3B11FNUZ, ElementType.F8E4M3FNUZ, ElementType.F8E5M2FNUZ)
"""Types with one NaN, where others have -0: it is a negative one."""


def compare(direction: str, lhs: Array, rhs: Array, *, total_order: bool = False) -> Array:
    """Return where the comparison holds; by value, NaN is unequal to and unordered with all."""
    if total_order and element_type_of(lhs).is_floating:
        lhs, rhs = total_order_key(lhs), total_order_key(rhs)
    return np.asarray(DIRECTIONS[direction](widen(lhs), widen(rhs)), np.bool_)


def total_order_key(array: Array) -> Array:
    """Return integers that stand in the total order: -NaN < -inf < -0 < 0 < inf < NaN."""
    element_type = element_type_of(array)
    if element_type is ElementType.F8E8M0FNU:
        return np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)
    signed = np.dtype(f"i{array.dtype.itemsize}")
    if element_type.bits < 8:
        shifted = unpadded_bits(array) << np.uint8(8 - element_type.bits)
        bits = np.asarray(shifted).view(signed)
    else:
        bits = np.ascontiguousarray(array).view(signed).reshape(array.shape)
    magnitude = signed.type(np.iinfo(signed).max)
    key = np.where(bits < 0, bits ^ magnitude, bits)
    if element_type in _UNSIGNED_NAN:
        key = np.where(bits == ~magnitude, np.int16(-(2**15)), key.astype(np.int16))
    return key
