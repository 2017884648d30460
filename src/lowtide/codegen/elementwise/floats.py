"""Functions of real floating point numbers in their register type, float or double.

Each sum and each product is rounded. If they were contracted to one rounding, a value that two
kernels compute could differ between them, and with it a sign that decides a branch of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.processor import extremum
from lowtide.ir.opcode import Opcode


def sign(x: Number) -> Number:
    """Return -1, 1, or zeros and NaN as they are."""
    return x.where(x.abs() > 0.0, x.constant(1.0).copysign(x))


def maximum(a: Number, b: Number) -> Number:
    """Return the greater one; 0 is greater than -0, and NaN wins."""
    return extremum("maximum", a, b)


def minimum(a: Number, b: Number) -> Number:
    """Return the lesser one; -0 is less than 0, and NaN wins."""
    return extremum("minimum", a, b)


def is_finite(x: Number) -> Number:
    """Return whether x is neither infinite nor NaN, an i1."""
    return x.abs() < math.inf


FUNCTIONS: Final[Mapping[Opcode, Callable[..., Number]]] = {
    Opcode.ABS: lambda x: x.abs(),
    Opcode.ADD: lambda a, b: a + b,
    Opcode.CEIL: lambda x: x.intrinsic("ceil"),
    Opcode.DIVIDE: lambda a, b: a / b,
    Opcode.FLOOR: lambda x: x.intrinsic("floor"),
    Opcode.IMAG: lambda x: x.constant(0.0),
    Opcode.MAXIMUM: maximum,
    Opcode.MINIMUM: minimum,
    Opcode.MULTIPLY: lambda a, b: a * b,
    Opcode.NEGATE: lambda x: -x,
    Opcode.REAL: lambda x: x,
    Opcode.ROUND_NEAREST_AFZ: lambda x: x.intrinsic("round"),
    Opcode.ROUND_NEAREST_EVEN: lambda x: x.rint(),
    Opcode.SIGN: sign,
    Opcode.SQRT: lambda x: x.sqrt(),
    Opcode.SUBTRACT: lambda a, b: a - b,
}
"""Functions that are exact, or correctly rounded."""

EXACT: Final = frozenset(
    {
        Opcode.ABS,
        Opcode.CEIL,
        Opcode.FLOOR,
        Opcode.IMAG,
        Opcode.MAXIMUM,
        Opcode.MINIMUM,
        Opcode.NEGATE,
        Opcode.REAL,
        Opcode.ROUND_NEAREST_AFZ,
        Opcode.ROUND_NEAREST_EVEN,
        Opcode.SIGN,
    }
)
"""Those whose results a type with negative zeros and infinities has if it has the operands."""

ARITHMETIC: Final = frozenset(
    {Opcode.ADD, Opcode.DIVIDE, Opcode.MULTIPLY, Opcode.SQRT, Opcode.SUBTRACT}
)
"""Those that are one instruction of arithmetic, whose NaNs are those of IEEE 754."""
