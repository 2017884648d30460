"""rsqrt and cbrt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.elementwise.exponential import by_double, exp
from lowtide.codegen.elementwise.logarithm import log
from lowtide.codegen.elementwise.number import Number, fma
from lowtide.codegen.elementwise.processor import has_wide, reciprocal_root_estimate
from lowtide.ir.opcode import Opcode


def rsqrt(x: Number) -> Number:
    """Return 1 / sqrt(x): an estimate and a Newton step where the processor has estimates.

    The step fails where the estimate is infinite or 0, which then is the result; denormals, which
    estimates take for 0, are scaled.
    """
    if not has_wide(x) or x.is_double:
        return 1.0 / x.sqrt()
    tiny = x < 2.0**-126
    normal = x.where(tiny, x * 2.0**24)
    y = reciprocal_root_estimate(normal)
    error = fma(normal * y, -y, 1.0)
    better = fma(y * 0.5, error, y).where(error.is_nan(), y)
    return better.where(tiny, better * 2.0**12)


def cbrt(x: Number) -> Number:
    """Return the magnitude of the cube root of a double.

    By logarithm and exponential, then a Newton step.
    """
    size = x.abs()
    tiny = size < 2.0**-900
    normal = size.where(tiny, size * 2.0**300)
    y = exp(log(normal) * (1.0 / 3.0))
    square = y * y
    better = y - fma(square, y, -normal) / (3.0 * square)
    scaled = better.where(tiny, better * 2.0**-100)
    finite = (size > 0.0) & (size < math.inf)
    return finite.select(scaled, size)


FUNCTIONS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.CBRT: by_double(cbrt, odd=True),
    Opcode.RSQRT: rsqrt,
}
