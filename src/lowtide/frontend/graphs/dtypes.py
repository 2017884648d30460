"""The element types that frameworks name in their own ways."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.ir.element_type import BY_KEYWORD, ElementType
from lowtide.ir.literal import ELEMENT_TYPES, NARROW

_E = ElementType

TENSORFLOW: Final = {
    "half": _E.F16,
    "float": _E.F32,
    "double": _E.F64,
    "bfloat16": _E.BF16,
    "bool": _E.PRED,
    "int4": _E.S4,
    "int8": _E.S8,
    "int16": _E.S16,
    "int32": _E.S32,
    "int64": _E.S64,
    "uint4": _E.U4,
    "uint8": _E.U8,
    "uint16": _E.U16,
    "uint32": _E.U32,
    "uint64": _E.U64,
    "complex64": _E.C64,
    "complex128": _E.C128,
    "float8_e5m2": _E.F8E5M2,
    "float8_e4m3fn": _E.F8E4M3FN,
}
"""The types by TensorFlow's names, in lower case and without the prefix DT_."""

ONNX: Final = {
    1: _E.F32,
    2: _E.U8,
    3: _E.S8,
    4: _E.U16,
    5: _E.S16,
    6: _E.S32,
    7: _E.S64,
    9: _E.PRED,
    10: _E.F16,
    11: _E.F64,
    12: _E.U32,
    13: _E.U64,
    14: _E.C64,
    15: _E.C128,
    16: _E.BF16,
    17: _E.F8E4M3FN,
    18: _E.F8E4M3FNUZ,
    19: _E.F8E5M2,
    20: _E.F8E5M2FNUZ,
    21: _E.U4,
    22: _E.S4,
    23: _E.F4E2M1FN,
    24: _E.F8E8M0FNU,
    25: _E.U2,
    26: _E.S2,
    27: _E.F6E2M3FN,
    28: _E.F6E3M2FN,
}
"""The types by the numbers of ONNX's TensorProto.DataType."""


def element_type_of(value: Any) -> ElementType:
    """Return the element type of a dtype, of TensorFlow's or HLO's name, or of ONNX's number.

    Raises ValueError for what is none of them.
    """
    if isinstance(value, ElementType):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        found = ONNX.get(value)
    elif isinstance(value, str):
        name = value.removeprefix("DT_").lower()
        found = TENSORFLOW.get(name) or BY_KEYWORD.get(name) or _of_dtype(name)
    else:
        found = _of_dtype(value)
    if found is None or not found.is_array:
        raise ValueError(f"{value!r} is no element type")
    return found


def _of_dtype(value: Any) -> ElementType | None:
    try:
        return ELEMENT_TYPES.get(np.dtype(value))
    except TypeError:  # NumPy knows the other names once ml_dtypes is there.
        return next((x for x, name in NARROW.items() if name == value), None)
