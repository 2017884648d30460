"""Python and NumPy values as literals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, ELEMENT_TYPES, Array, Literal, array_literal
from lowtide.ir.shape import array_shape

_DEFAULTS: Final = {
    "b": ElementType.PRED,
    "i": ElementType.S32,
    "f": ElementType.F32,
    "c": ElementType.C64,
}
"""The type of Python values, by the kind of the NumPy dtype that they would get."""


def literal_of(value: Any, element_type: ElementType | None = None) -> Literal:
    """Return the literal of a value: a number, an array, nested lists of numbers, or a literal.

    An array keeps its type unless `element_type` says otherwise. Python numbers become pred, s32,
    f32 or c64. Raises ValueError where a Python number has no place in the element type, and
    TypeError for values that are no numbers.
    """
    if isinstance(value, Literal):
        return value
    array = np.asarray(value)
    kind = array.dtype.kind
    if isinstance(value, np.ndarray | np.generic):
        found = ELEMENT_TYPES.get(array.dtype)
        wanted = element_type or found
        if wanted is None:
            raise TypeError(f"no element type holds values of dtype {array.dtype}")
    else:
        # NumPy has several types for integers beyond 63 bits; beside smaller ones they are doubles.
        if kind in "ufO" and array.size:
            exact = np.asarray(value, object)
            if all(isinstance(x, int) for x in exact.flat):
                array, kind = exact, "i"
        found = _DEFAULTS.get(kind)
        if found is None:
            raise TypeError(f"{value!r} is not a number or an array of numbers")
        wanted = element_type or found
        _check_kept(array, kind, wanted)
    # A copy: the literal makes its array read-only.
    copy = np.array(array, DTYPES[wanted])
    return array_literal(array_shape(wanted, copy.shape), copy)


def _check_kept(array: Array, kind: str, element_type: ElementType) -> None:
    """Check that the element type can hold Python numbers: no fraction is dropped, nothing wraps.

    Raises ValueError.
    """
    fits = {
        "b": True,
        "i": element_type is not ElementType.PRED or bool(((array == 0) | (array == 1)).all()),
        "f": element_type.is_floating or element_type.is_complex,
        "c": element_type.is_complex,
    }[kind]
    if not fits:
        raise ValueError(f"{array.tolist()} has no place in {element_type.value}")
    if kind != "i" or not element_type.is_integer or not array.size:
        return
    least, most = element_type.bounds
    if not least <= int(array.min()) <= int(array.max()) <= most:
        raise ValueError(
            f"{array.tolist()} is out of range for {element_type.value}, {least} to {most}"
        )
