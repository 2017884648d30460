"""Distances that two correct implementations may have, by element type: one table for all tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lowtide.evaluator.values import Token, Value
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape

E = ElementType

RELATIVE: Final[dict[ElementType, float]] = {
    E.F64: 1e-10,
    E.F32: 1e-5,
    E.BF16: 2e-2,
    E.F16: 2e-2,
    E.C128: 1e-10,
    E.C64: 1e-5,
    E.F8E5M2: 2.0**-2,
    E.F8E4M3: 2.0**-3,
    E.F8E4M3FN: 2.0**-3,
    E.F8E4M3B11FNUZ: 2.0**-3,
    E.F8E3M4: 2.0**-4,
    E.F8E5M2FNUZ: 2.0**-2,
    E.F8E4M3FNUZ: 2.0**-3,
    E.F8E8M0FNU: 1.0,
    E.F4E2M1FN: 2.0**-1,
    E.F6E3M2FN: 2.0**-2,
    E.F6E2M3FN: 2.0**-3,
}
"""The error allowed relative to the greatest finite magnitude of the array.

Wide types leave room for sums in another order; narrow ones for one unit in the last place.
"""

ABSOLUTE: Final[dict[ElementType, float]] = {
    E.F64: 2.0**-1022,
    E.C128: 2.0**-1022,
    E.F32: 2.0**-126,
    E.C64: 2.0**-126,
    E.BF16: 2.0**-126,
}
"""The error that is always allowed: the least normal number, since subnormals may become zero."""


def tolerance(element_type: ElementType) -> float:
    """Return the relative error that two implementations may differ by; 0 for integers and pred."""
    return RELATIVE.get(element_type, 0.0)


@dataclass(frozen=True, slots=True)
class Difference:
    """The element of an array that is worst: `error` is infinite for NaN against a number."""

    index: tuple[int, ...]
    got: str
    expected: str
    error: float
    allowed: float
    count: int

    def __str__(self) -> str:
        return (
            f"{self.count} elements differ; worst at {list(self.index)}: got {self.got}, expected "
            f"{self.expected}, {self.error:.3g} apart where {self.allowed:.3g} is allowed"
        )


def worst_difference(
    got: Array, expected: Array, element_type: ElementType, *, factor: float = 1.0
) -> Difference | None:
    """Return the element that is furthest apart, or None where all are close.

    NaN is close to NaN, and an infinity to the same infinity. `factor` multiplies the tolerance.
    Raises ValueError where shapes or types differ.
    """
    dtype = DTYPES[element_type]
    if got.shape != expected.shape or got.dtype != dtype or expected.dtype != dtype:
        raise ValueError(
            f"got {got.dtype}{list(got.shape)}, expected {expected.dtype}{list(expected.shape)} "
            f"of {element_type.value}"
        )
    if not got.size:
        return None
    error, scale = _errors(got, expected, element_type)
    allowed = max(factor * tolerance(element_type) * scale, ABSOLUTE.get(element_type, 0.0))
    wrong = error > allowed
    if not wrong.any():
        return None
    index = tuple([int(i) for i in np.unravel_index(int(np.argmax(error)), got.shape)])
    worst = float(error[index])
    return Difference(
        index, str(got[index]), str(expected[index]), worst, allowed, int(wrong.sum())
    )


def _errors(got: Array, expected: Array, element_type: ElementType) -> tuple[Array, float]:
    """Return the distance of each pair, and the greatest finite expected magnitude."""
    if element_type not in RELATIVE:
        if element_type.bits < 8:
            got, expected = got.astype(np.int8), expected.astype(np.int8)
        # 64-bit integers are exact only when compared; how far they are apart may be rounded.
        far = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        return np.where(got == expected, 0.0, np.maximum(far, 1.0)), 0.0
    wide = np.complex128 if element_type.is_complex else np.float64
    a, b = got.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf))
        magnitude = np.abs(b)
    return error, float(np.max(magnitude[np.isfinite(magnitude)], initial=0.0))


def assert_close(
    got: Any, expected: Any, element_type: ElementType, *, factor: float = 1.0, what: str = "result"
) -> None:
    """Assert that two arrays agree within the tolerance of their element type."""
    found = worst_difference(np.asarray(got), np.asarray(expected), element_type, factor=factor)
    if found is not None:
        raise AssertionError(f"{what}: {found}")


def assert_values_close(got: Value, expected: Value, shape: Shape, *, factor: float = 1.0) -> None:
    """Assert that two values of the evaluator, perhaps nested tuples, agree; tokens always do."""
    stack: list[tuple[Value, Value, Shape, str]] = [(got, expected, shape, "result")]
    while stack:
        a, b, part, what = stack.pop()
        if isinstance(a, tuple) and isinstance(b, tuple):
            elements = enumerate(zip(a, b, part.tuple_shapes, strict=True))
            stack += [(x, y, s, f"{what}[{i}]") for i, (x, y, s) in elements]
        elif not isinstance(a, Token) and not isinstance(b, Token):
            assert_close(a, b, part.element_type, factor=factor, what=what)
