"""Error bounds of elementwise results, in units of the last place of the exact result.

Below the least normal number the unit is that of the least normal number. Functions that are not
named are correctly rounded. Types narrower than float round the result of float once more. Of
complex numbers nothing is promised. On graphics processors EXPONENTIAL is within 2.5 in float.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir.opcode import Opcode

SINGLE: Final[Mapping[Opcode, float]] = {
    Opcode.ACOS: 0.51,
    Opcode.ACOSH: 0.51,
    Opcode.ASIN: 0.51,
    Opcode.ASINH: 0.51,
    Opcode.ATAN2: 0.51,
    Opcode.ATANH: 0.51,
    Opcode.CBRT: 0.51,
    Opcode.COSH: 0.51,
    Opcode.COSINE: 1.6,
    Opcode.ERF: 1.3,
    Opcode.EXPONENTIAL: 1.0,
    Opcode.EXPONENTIAL_MINUS_ONE: 1.8,
    Opcode.LOG: 0.9,
    Opcode.LOG_PLUS_ONE: 1.6,
    Opcode.LOGISTIC: 2.0,
    Opcode.POWER: 0.52,
    Opcode.RSQRT: 1.6,
    Opcode.SINE: 1.6,
    Opcode.SINH: 0.51,
    Opcode.TAN: 0.51,
    Opcode.TANH: 2.0,
}
"""Bounds in float."""

DOUBLE: Final[Mapping[Opcode, float]] = {
    Opcode.ACOS: 1.5,
    Opcode.ACOSH: 2.5,
    Opcode.ASIN: 1.5,
    Opcode.ASINH: 2.0,
    Opcode.ATAN2: 2.0,
    Opcode.ATANH: 2.0,
    Opcode.CBRT: 1.0,
    Opcode.COSH: 1.6,
    Opcode.COSINE: 1.0,
    Opcode.ERF: 1.6,
    Opcode.EXPONENTIAL: 1.0,
    Opcode.EXPONENTIAL_MINUS_ONE: 2.0,
    Opcode.LOG: 1.0,
    Opcode.LOG_PLUS_ONE: 1.2,
    Opcode.LOGISTIC: 2.2,
    Opcode.POWER: 3.0,
    Opcode.RSQRT: 1.6,
    Opcode.SINE: 1.0,
    Opcode.SINH: 2.6,
    Opcode.TAN: 2.2,
    Opcode.TANH: 2.4,
}
"""Bounds in double."""
