"""Bounds, signs and wholeness of the values of an array, from how it is computed."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Iota
from lowtide.passes.matching import scalar_value
from lowtide.transforms.simplify.support import FLOATS, WHOLE

Bounds = tuple[int, int]
"""The least and the greatest value that there may be, both included."""

_DEPTH: Final = 5
"""How many operations we look back."""

REARRANGING: Final = frozenset(
    {
        Opcode.BROADCAST,
        Opcode.COPY,
        Opcode.DYNAMIC_SLICE,
        Opcode.GATHER,
        Opcode.RESHAPE,
        Opcode.REVERSE,
        Opcode.SLICE,
        Opcode.TRANSPOSE,
    }
)
"""Operations whose results are elements of operand 0."""


def bounds_of(x: Instruction, depth: int = _DEPTH) -> Bounds:
    """Return bounds of the elements of an array of integers or truth values."""
    element_type = x.shape.element_type
    widest = element_type.bounds
    value = scalar_value(x)
    if value is not None:
        return int(value), int(value)
    if x.opcode is Opcode.IOTA:
        last = x.shape.dimensions[x.attributes_as(Iota).dimension] - 1
        return (0, max(last, 0)) if last <= widest[1] else widest
    if not depth or not x.operands or x.operands[0].shape.element_type not in WHOLE:
        return widest
    if x.opcode in REARRANGING:
        return bounds_of(x.operands[0], depth - 1)
    found = _computed(x, depth - 1)
    if found is None or found[0] < widest[0] or found[1] > widest[1]:
        return widest
    return found


def _computed(x: Instruction, depth: int) -> Bounds | None:
    if x.opcode is Opcode.CONVERT:
        return bounds_of(x.operands[0], depth)
    if x.opcode is Opcode.CLAMP:
        low, high = bounds_of(x.operands[0], depth), bounds_of(x.operands[2], depth)
        return min(low[0], high[0]), high[1]
    if len(x.operands) != 2 or x.opcode not in _BINARY:
        return None
    return _BINARY[x.opcode](*[bounds_of(y, depth) for y in x.operands])


def _remainder(a: Bounds, b: Bounds) -> Bounds | None:
    if b[0] <= 0:
        return None
    most = b[1] - 1
    return (0 if a[0] >= 0 else max(-most, a[0])), (0 if a[1] < 0 else min(most, a[1]))


def _and(a: Bounds, b: Bounds) -> Bounds | None:
    tops = [top for least, top in (a, b) if least >= 0]
    return (0, min(tops)) if tops else None


def _multiply(a: Bounds, b: Bounds) -> Bounds:
    corners = [i * j for i in a for j in b]
    return min(corners), max(corners)


_BINARY: Final = {
    Opcode.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Opcode.SUBTRACT: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    Opcode.MULTIPLY: _multiply,
    Opcode.MAXIMUM: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    Opcode.MINIMUM: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    Opcode.AND: _and,
    Opcode.REMAINDER: _remainder,
}
"""Bounds of results from bounds of both operands, before anything wraps around."""


def never_negative(x: Instruction) -> bool:
    """Whether no element has a minus sign; zeros are +0, and NaNs may be."""
    element_type = x.shape.element_type
    if element_type in WHOLE:
        return bounds_of(x)[0] >= 0
    if element_type not in FLOATS:
        return False
    value = scalar_value(x)
    if value is not None:
        return not np.signbit(value)
    if x.opcode is Opcode.MULTIPLY:
        return x.operands[0] is x.operands[1]
    if x.opcode is Opcode.CONVERT:
        source = x.operands[0]
        return source.shape.element_type in WHOLE and bounds_of(source)[0] >= 0
    return x.opcode in _POSITIVE


_POSITIVE: Final = frozenset({Opcode.ABS, Opcode.EXPONENTIAL, Opcode.LOGISTIC, Opcode.IOTA})


def is_whole(x: Instruction) -> bool:
    """Whether all elements of a floating point array are whole numbers, infinite or NaN."""
    if x.opcode is Opcode.CONVERT:
        return x.operands[0].shape.element_type in WHOLE
    return x.opcode in ROUNDING or x.opcode is Opcode.IOTA


ROUNDING: Final = frozenset(
    {Opcode.CEIL, Opcode.FLOOR, Opcode.ROUND_NEAREST_AFZ, Opcode.ROUND_NEAREST_EVEN, Opcode.SIGN}
)

_FINITE_INTEGERS: Final = {ElementType.F32: 128, ElementType.BF16: 128, ElementType.F64: 1024}


def never_infinite(x: Instruction) -> bool:
    """Whether all elements of a floating point array are finite numbers."""
    value = scalar_value(x)
    if value is not None:
        return bool(np.isfinite(value))
    if x.opcode is not Opcode.CONVERT:
        return False
    source = x.operands[0].shape.element_type
    return source in WHOLE and source.bits < _FINITE_INTEGERS.get(x.shape.element_type, 0)
