"""Sums, products, extremes and the like of arrays of several ranks, always in one order.

A value depends on the values and their order only, not on how arrays are cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.opcode import Opcode

_BLOCK: Final = 1 << 15
"""Elements that are combined at once: their wide forms stay in a core's own cache."""

_SUMS: Final = frozenset({Opcode.ADD, Opcode.MULTIPLY})
_EXACT_IN_TWO: Final = frozenset({ElementType.F32, ElementType.F64})
"""Types whose sum of two values is the same, rounded at once or after a wider one.

Of f64 there is no wider one.
"""

_NUMBERS: Final[Mapping[Opcode, np.ufunc]] = {
    Opcode.ADD: np.add,
    Opcode.AND: np.bitwise_and,
    Opcode.MAXIMUM: np.maximum,
    Opcode.MINIMUM: np.minimum,
    Opcode.MULTIPLY: np.multiply,
    Opcode.OR: np.bitwise_or,
    Opcode.XOR: np.bitwise_xor,
}
"""Of numbers; an extreme with a NaN is a NaN."""

_TRUTH_VALUES: Final[Mapping[Opcode, np.ufunc]] = {
    Opcode.ADD: np.logical_or,
    Opcode.AND: np.logical_and,
    Opcode.MAXIMUM: np.logical_or,
    Opcode.MINIMUM: np.logical_and,
    Opcode.MULTIPLY: np.logical_and,
    Opcode.OR: np.logical_or,
    Opcode.XOR: np.logical_xor,
}


def combine(
    result: Array, arrays: Sequence[Array], reducer: Opcode, element_type: ElementType
) -> None:
    """Write to `result` the arrays combined, the first with the second, and so on.

    All are flat and of one size; `result` may be one of them. Sums and products of inexact numbers
    are computed in f64 or c128 and rounded once.
    """
    ufunc = (_TRUTH_VALUES if element_type is ElementType.PRED else _NUMBERS)[reducer]
    wide = _wide(element_type, reducer)
    in_place = wide == result.dtype or element_type in _EXACT_IN_TWO
    with np.errstate(all="ignore"):
        if len(arrays) == 2 and in_place:
            ufunc(*arrays, out=result)
            return
        for start in range(0, result.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            total: Any = arrays[0][block].astype(wide)
            for array in arrays[1:]:
                ufunc(total, array[block].astype(wide, copy=False), out=total)
            result[block] = total


def _wide(element_type: ElementType, reducer: Opcode) -> np.dtype[Any]:
    """The type to compute in."""
    dtype = DTYPES[element_type]
    if element_type.is_complex:
        return np.dtype(np.complex128)
    if element_type.is_floating:
        if reducer in _SUMS:
            return np.dtype(np.float64)
        return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    return np.dtype(np.int64) if dtype.kind == "V" else dtype
