"""Functions of real floating point numbers; NaN propagates through all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

Function: TypeAlias = Callable[..., Any]


def sign(x: Array) -> Array:
    """Return -1, 1, or zeros and NaN as they are."""
    return np.where((x == 0) | np.isnan(x), x, np.copysign(x.dtype.type(1), x))


def round_away(x: Array) -> Array:
    """Return the nearest integer, ties away from zero."""
    whole = np.trunc(x)
    tie = np.abs(x - whole) >= 0.5
    rounded = np.where(tie, whole + np.copysign(x.dtype.type(1), x), whole)
    return np.copysign(rounded, x)


def maximum(a: Array, b: Array) -> Array:
    """Return the greater one; 0 is greater than -0, and NaN wins."""
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def minimum(a: Array, b: Array) -> Array:
    """Return the lesser one; -0 is less than 0, and NaN wins."""
    return np.where((a == 0) & (b == 0), -(-a - b), np.minimum(a, b))


def logistic(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    one = x.dtype.type(1)
    return np.asarray(one / (one + np.exp(-x)))


def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt(x)."""
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def erf(x: Array) -> Array:
    """Return the error function, exact to the last bits of f64."""
    flat = x.ravel()
    result = np.empty_like(flat)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        result[start : start + CHUNK] = [math.erf(value) for value in part.tolist()]
    return result.reshape(x.shape)


CHUNK: Final = 1 << 16
"""Elements that are Python objects at the same time."""


def make_complex(real: Array, imaginary: Array) -> Array:
    """Return the complex numbers of the given parts."""
    shape = np.broadcast_shapes(real.shape, imaginary.shape)
    result = np.empty(shape, np.result_type(real.dtype, np.complex64))
    result.real = real
    result.imag = imaginary
    return result


FUNCTIONS: Final[Mapping[Opcode, Function]] = {
    Opcode.ABS: np.abs,
    Opcode.ACOS: np.arccos,
    Opcode.ACOSH: np.arccosh,
    Opcode.ADD: np.add,
    Opcode.ASIN: np.arcsin,
    Opcode.ASINH: np.arcsinh,
    Opcode.ATAN2: np.arctan2,
    Opcode.ATANH: np.arctanh,
    Opcode.CBRT: np.cbrt,
    Opcode.CEIL: np.ceil,
    Opcode.COMPLEX: make_complex,
    Opcode.COSH: np.cosh,
    Opcode.COSINE: np.cos,
    Opcode.DIVIDE: np.divide,
    Opcode.ERF: erf,
    Opcode.EXPONENTIAL: np.exp,
    Opcode.EXPONENTIAL_MINUS_ONE: np.expm1,
    Opcode.FLOOR: np.floor,
    Opcode.IMAG: np.zeros_like,
    Opcode.IS_FINITE: np.isfinite,
    Opcode.LOG: np.log,
    Opcode.LOG_PLUS_ONE: np.log1p,
    Opcode.LOGISTIC: logistic,
    Opcode.MAXIMUM: maximum,
    Opcode.MINIMUM: minimum,
    Opcode.MULTIPLY: np.multiply,
    Opcode.NEGATE: np.negative,
    Opcode.POWER: np.power,
    Opcode.REAL: np.positive,
    Opcode.REMAINDER: np.fmod,
    Opcode.ROUND_NEAREST_AFZ: round_away,
    Opcode.ROUND_NEAREST_EVEN: np.rint,
    Opcode.RSQRT: rsqrt,
    Opcode.SIGN: sign,
    Opcode.SINE: np.sin,
    Opcode.SINH: np.sinh,
    Opcode.SQRT: np.sqrt,
    Opcode.SUBTRACT: np.subtract,
    Opcode.TAN: np.tan,
    Opcode.TANH: np.tanh,
}
