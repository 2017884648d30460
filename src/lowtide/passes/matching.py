"""Questions that rules ask of an instruction."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from lowtide.ir import ElementType, Instruction, Opcode, Shape, array_shape
from lowtide.ir.attributes import Constant, Dimensions
from lowtide.ir.literal import DTYPES


def scalar_value(instruction: Instruction) -> Any | None:
    """Return the NumPy scalar that all elements are: of a scalar constant, or a broadcast of one.

    None for all else, also for constants with several equal elements: a rule of its own makes them
    broadcasts. The value of an elided constant is not known.
    """
    if instruction.opcode is Opcode.BROADCAST:
        instruction = instruction.operands[0]
    if instruction.opcode is not Opcode.CONSTANT or not instruction.shape.is_array:
        return None
    literal = instruction.attributes_as(Constant).literal
    if instruction.shape.rank or literal.elided:
        return None
    return literal.array[()]


def is_all(instruction: Instruction, number: complex) -> bool:
    """Whether all elements are known to be a number; 0 stands for -0 too."""
    value = scalar_value(instruction)
    return value is not None and bool(value == _as_element(number, value.dtype))


@lru_cache(maxsize=1024)
def _as_element(number: complex, dtype: np.dtype[Any]) -> Any:
    return np.asarray(number).astype(dtype)[()]


def is_positive_zero(instruction: Instruction) -> bool:
    """Whether all elements are known to be 0, and none -0."""
    value = scalar_value(instruction)
    return value is not None and value == 0 and not np.signbit(np.real(value))


def is_negative_zero(instruction: Instruction) -> bool:
    """Whether all elements are known to be the floating point number -0."""
    value = scalar_value(instruction)
    if value is None or not instruction.shape.element_type.is_floating:
        return False
    return bool(value == 0 and np.signbit(value))


def dimensions(instruction: Instruction) -> tuple[int, ...]:
    """Return the `dimensions` of a broadcast, transpose, reduce, concatenate or the like."""
    return instruction.attributes_as(Dimensions).dimensions


def has_one_user(instruction: Instruction) -> bool:
    """Whether one instruction reads it, once or more, and it is not the result."""
    return len(instruction.users) == 1 and not instruction.is_root


def same_instructions(a: tuple[Instruction, ...], b: tuple[Instruction, ...]) -> bool:
    """Whether both lists have the same instructions, or equal scalar constants, at each place."""
    return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(a: Instruction, b: Instruction) -> bool:
    if a is b:
        return True
    if a.opcode is not Opcode.CONSTANT or b.opcode is not Opcode.CONSTANT:
        return False
    return not a.shape.rank and scalar_value(a) is not None and a.attributes == b.attributes


# -- shapes ------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def is_plain(shape: Shape) -> bool:
    """Whether a shape is that of an array of known sizes, row major, with nothing else said."""
    if not shape.element_type.is_array or shape.dynamic or any(n < 0 for n in shape.dimensions):
        return False
    return shape is array_shape(shape.element_type, shape.dimensions)


def are_plain(*instructions: Instruction) -> bool:
    """Whether the shapes of all of them are plain."""
    return all(is_plain(x.shape) for x in instructions)


_OF_ONE_TYPE: Final[Mapping[Opcode, slice]] = {
    Opcode.DYNAMIC_SLICE: slice(1),
    Opcode.DYNAMIC_UPDATE_SLICE: slice(2),
    Opcode.GATHER: slice(1),
    Opcode.SELECT: slice(1, 3),
}
"""The operands that have to agree in element type, where that is not all of them."""

_CHANGES_TYPE: Final = frozenset(
    {
        Opcode.ABS,
        Opcode.BITCAST,
        Opcode.BITCAST_CONVERT,
        Opcode.COMPARE,
        Opcode.COMPLEX,
        Opcode.CONVERT,
        Opcode.CONVOLUTION,
        Opcode.DOT,
        Opcode.IMAG,
        Opcode.IS_FINITE,
        Opcode.REAL,
        Opcode.STOCHASTIC_CONVERT,
    }
)


def is_uniform(x: Instruction) -> bool:
    """Whether operands are plain, and agree in type with each other and the result.

    Floating point operands may differ from one another in HLO. Where an operation makes another
    type of its operands or takes indices, only what has to agree otherwise does.
    """
    return _is_uniform(x.opcode, x.shape, *[y.shape for y in x.operands])


@lru_cache(maxsize=4096)
def _is_uniform(opcode: Opcode, result: Shape, *operands: Shape) -> bool:
    if not all(is_plain(y) for y in operands):
        return False
    alike = operands[_OF_ONE_TYPE.get(opcode, _ALL)]
    types = {y.element_type for y in alike}
    if opcode in _CHANGES_TYPE:
        return len(types) <= 1 or opcode not in (Opcode.COMPARE, Opcode.COMPLEX)
    return types <= {result.element_type}


_ALL: Final = slice(None)


# -- reductions --------------------------------------------------------------------------------


def identity_of(opcode: Opcode, element_type: ElementType) -> Any:
    """Return the NumPy scalar e with op(e, x) = x; for sums it is 0, which turns -0 into 0.

    `opcode` is one of `REDUCERS`, and one that elements of the type have.
    """
    dtype = DTYPES[element_type]
    if opcode in (Opcode.ADD, Opcode.OR, Opcode.XOR):
        return dtype.type(0)
    if opcode is Opcode.MULTIPLY:
        return dtype.type(1)
    if opcode is Opcode.AND:
        low, high = element_type.bounds
        return _integer(-1 if low else high, dtype)
    return _extreme(element_type, least=opcode is Opcode.MAXIMUM)


def _extreme(element_type: ElementType, *, least: bool) -> Any:
    dtype = DTYPES[element_type]
    if element_type.is_floating or element_type.is_complex:
        infinite = dtype.type(-np.inf if least else np.inf)
        if not np.isnan(infinite):
            return infinite
        import ml_dtypes  # Of types without infinities, which few programs have.

        types: Any = ml_dtypes
        limits = types.finfo(dtype)
        return dtype.type(limits.min if least else limits.max)
    low, high = element_type.bounds
    return _integer(low if least else high, dtype)


def _integer(value: int, dtype: np.dtype[Any]) -> Any:
    return np.asarray(value, np.int64 if value < 0 else np.uint64).astype(dtype)[()]


def decides(x: Instruction) -> bool:
    """Return whether something is chosen by a test of x, or x plus a constant is among what is."""
    return any(_leads_to_choice(user) for user in x.users)


def _leads_to_choice(user: Instruction) -> bool:
    if user.opcode in (Opcode.COMPARE, Opcode.AND):
        return any(x.opcode is Opcode.SELECT or _leads_to_choice(x) for x in user.users)
    if user.opcode not in (Opcode.ADD, Opcode.SUBTRACT):
        return False
    is_shifted = scalar_value(user.operands[1]) is not None
    return is_shifted and any(x.opcode is Opcode.SELECT for x in user.users)
