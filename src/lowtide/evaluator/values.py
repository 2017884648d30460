"""Run-time values: NumPy arrays, tuples of values, and the token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, final

import numpy as np

from lowtide.ir.literal import DTYPES, Array, Literal
from lowtide.ir.shape import Shape


@final
class Token:
    """The value of a token: it carries nothing. There is one, `TOKEN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TOKEN"


TOKEN: Final = Token()

Value: TypeAlias = Array | tuple["Value", ...] | Token
"""What an instruction produces.

An array has the dtype of `ir.literal.DTYPES` and the dimensions of the shape; along a bounded
dynamic dimension it has its actual size. Handlers never write to an operand.
"""

Values: TypeAlias = Sequence[Value]
"""Those of several instructions, as of the operands of one."""


def as_array(value: Value) -> Array:
    """Return `value`, which must be an array or a NumPy scalar; raises TypeError otherwise."""
    if isinstance(value, np.generic):  # NumPy makes these of arrays without dimensions
        return np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected an array, found {type(value).__name__}")
    return value


def as_tuple(value: Value) -> tuple[Value, ...]:
    """Return `value`, which must be a tuple; raises TypeError otherwise."""
    if not isinstance(value, tuple):
        raise TypeError(f"expected a tuple, found {type(value).__name__}")
    return value


def from_literal(literal: Literal) -> Value:
    """Return the value of a literal."""
    if literal.value is None:
        return TOKEN
    if isinstance(literal.value, tuple):
        return tuple([from_literal(element) for element in literal.value])
    return literal.value


def zeros(shape: Shape) -> Value:
    """Return the value of `shape` whose elements are all 0."""
    if shape.is_tuple:
        return tuple([zeros(element) for element in shape.tuple_shapes])
    if not shape.is_array:
        return TOKEN
    return np.zeros(shape.dimensions, DTYPES[shape.element_type])


def value_leaves(value: Value) -> list[Array | Token]:
    """Return the arrays and tokens in `value`, depth first."""
    found: list[Array | Token] = []
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack.extend(reversed(part))
        else:
            found.append(part)
    return found


def array_leaves(value: Value) -> list[Array]:
    """Return the arrays in `value`, depth first: no tokens, and no results that were not made."""
    return [x for x in value_leaves(value) if x is not None and not isinstance(x, Token)]


def from_leaves(shape: Shape, leaves: Iterable[Array | Token]) -> Value:
    """Return the value of `shape` with the given leaves, the inverse of `value_leaves`."""
    return _assemble(shape, iter(leaves))


def _assemble(shape: Shape, leaves: Iterator[Array | Token]) -> Value:
    if shape.is_tuple:
        return tuple([_assemble(element, leaves) for element in shape.tuple_shapes])
    return next(leaves)
