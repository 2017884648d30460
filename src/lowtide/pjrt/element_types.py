"""Element types by their numbers in PJRT, which differ from those of HLO's protobuf."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.pjrt.errors import UNIMPLEMENTED, PluginError

_NAMES: Final = """
pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f8e5m2 f8e4m3fn f8e4m3b11fnuz
f8e5m2fnuz f8e4m3fnuz s4 u4 token s2 u2 f8e4m3 f8e3m4 f8e8m0fnu f4e2m1fn s1 u1
"""

NUMBERS: Final = {ElementType(name): number for number, name in enumerate(_NAMES.split(), 1)}
"""The number of each element type, from 1 on."""

_TYPES: Final = {number: element_type for element_type, number in NUMBERS.items()}


def dtype_of(number: int) -> np.dtype[Any]:
    """Return the dtype of arrays with the element type of a number; raises PluginError."""
    found = DTYPES.get(_TYPES.get(number, ElementType.OPAQUE))
    if found is None:
        raise PluginError(UNIMPLEMENTED, f"lowtide has no arrays of PJRT's element type {number}")
    return found
