"""Conversions of numbers to types of few bits."""

from __future__ import annotations

from typing import Any, Final

from lowtide.builder import Builder, BuildError, Op
from lowtide.frontend.graphs.shared.broadcasting import scalar
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES


def saturated(b: Builder, x: Op, target: ElementType) -> Op:
    """Return numbers in a narrow type: those outside of its range become the nearest one."""
    info = _limits(target)
    if info is not None:
        x = b.clamp(scalar(b, info[0], x), x, scalar(b, info[1], x))
    return b.convert(x, target)


def _limits(target: ElementType) -> tuple[float, float] | None:
    import ml_dtypes  # Most models have no such conversion.

    types: Any = ml_dtypes  # Its limits of types have no annotations.
    dtype = DTYPES[target]
    if target.is_integer:
        whole = types.iinfo(dtype)
        return int(whole.min), int(whole.max)
    if target.is_floating and target.bits <= 8:
        found = types.finfo(dtype)
        return float(found.min), float(found.max)
    return None


_HALF: Final = 0x400000
"""The highest bit of the mantissa of f32."""


def power_of_two(b: Builder, x: Op, mode: str) -> Op:
    """Return numbers as f8e8m0fnu, which has powers of 2 only; the mode is up, down or nearest.

    Numbers below the least power become it, those above the greatest that. Raises BuildError for
    another mode.
    """
    bits = b.bitcast_convert(b.abs(b.convert(x, ElementType.F32)), ElementType.U32)
    exponent = b.shift_right_logical(bits, b.constant(23, ElementType.U32))
    rest = bits & 0x7FFFFF
    least = exponent.eq(0)
    tests = {
        "up": b.select(least, rest.gt(_HALF), rest.gt(0)),
        "down": rest.lt(0),
        "nearest": b.select(least, rest.gt(_HALF | _HALF >> 1), rest.ge(_HALF)),
    }
    if mode not in tests:
        raise BuildError(f"round_mode is one of {', '.join(tests)}, not {mode!r}")
    rounded = exponent + b.convert(tests[mode], ElementType.U32)
    found = b.select(x.ne(x), exponent, b.minimum(rounded, 254))
    return b.bitcast_convert(b.convert(found, ElementType.U8), ElementType.F8E8M0FNU)
