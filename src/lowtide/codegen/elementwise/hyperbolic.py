"""The inverse hyperbolic functions, in double, by log1p of what keeps their accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.elementwise.exponential import by_double
from lowtide.codegen.elementwise.logarithm import log1p
from lowtide.codegen.elementwise.number import Number
from lowtide.ir.opcode import Opcode

_LARGE: Final = 2.0**28
"""From where on sqrt(x**2 + 1) is x to the last bit."""


def asinh(x: Number) -> Number:
    """Return the magnitude of the inverse hyperbolic sine."""
    size = x.abs()
    large = size > _LARGE
    square = size.where(large, 1.0) * size.where(large, 1.0)
    added = size + square / ((square + 1.0).sqrt() + 1.0)
    return _of_large(size, large, added)


def acosh(x: Number) -> Number:
    """Return the inverse hyperbolic cosine; NaN below 1."""
    large = x > _LARGE
    over = x.where(large, 1.0) - 1.0
    added = over + (over * over + (over + over)).sqrt()
    return _of_large(x, large, added).where(x < 1.0, math.nan)


def _of_large(x: Number, large: Number, added: Number) -> Number:
    """log1p(added), or log(2 x) where x is large."""
    found = log1p(large.select(x - 1.0, added))
    return found.where(large, found + math.log(2.0))


def atanh(x: Number) -> Number:
    """Return the magnitude of the inverse hyperbolic tangent; NaN beyond 1."""
    size = x.abs()
    twice = size + size
    added = twice + twice * size / (1.0 - size)
    near_one = twice / (1.0 - size)
    found = log1p(near_one.where(size < 0.5, added)) * 0.5
    return found.where(size > 1.0, math.nan)


FUNCTIONS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.ACOSH: by_double(acosh),
    Opcode.ASINH: by_double(asinh, odd=True),
    Opcode.ATANH: by_double(atanh, odd=True),
}
