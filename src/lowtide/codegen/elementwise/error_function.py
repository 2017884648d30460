"""erf: near 0 an odd polynomial, further out 1 - exp(-p(x)) with a polynomial p."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.elementwise.coefficients import ERF_FAR, ERF_NEAR
from lowtide.codegen.elementwise.exponential import small_exp
from lowtide.codegen.elementwise.number import Number, fma, horner

_NEAR: Final = {"float": 0.927734375, "double": 1.0}
_ONE: Final = {"float": 4.0, "double": 6.0}
"""From where on erf is 1."""


def erf(x: Number) -> Number:
    """Return the error function."""
    size = x.abs().at_most(_ONE[x.element])
    near = fma(horner(x * x, ERF_NEAR[x.element]), x, x)
    far = 1.0 - small_exp(-horner(size, ERF_FAR[x.element]))
    return (size > _NEAR[x.element]).select(far.copysign(x), near)
