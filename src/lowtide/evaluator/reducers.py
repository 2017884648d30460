"""Recognition of called computations that are one plain binary operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from lowtide.evaluator.comparison import DIRECTIONS
from lowtide.evaluator.numeric import COMPUTE_DTYPES
from lowtide.ir.attributes import Compare
from lowtide.ir.computation import Computation
from lowtide.ir.element_type import ElementType
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode

NUMBERS: Final[Mapping[Opcode, np.ufunc]] = {
    Opcode.ADD: np.add,
    Opcode.AND: np.bitwise_and,
    Opcode.MAXIMUM: np.maximum,
    Opcode.MINIMUM: np.minimum,
    Opcode.MULTIPLY: np.multiply,
    Opcode.OR: np.bitwise_or,
    Opcode.XOR: np.bitwise_xor,
}
"""Associative and commutative operations of numbers."""

TRUTH_VALUES: Final[Mapping[Opcode, np.ufunc]] = {
    Opcode.ADD: np.logical_or,
    Opcode.AND: np.logical_and,
    Opcode.MAXIMUM: np.logical_or,
    Opcode.MINIMUM: np.logical_and,
    Opcode.MULTIPLY: np.logical_and,
    Opcode.OR: np.logical_or,
    Opcode.XOR: np.logical_xor,
}
"""The same operations of `pred`."""

SWAPPED: Final[Mapping[str, str]] = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}


def as_ufunc(computation: Computation) -> np.ufunc | None:
    """Return the NumPy ufunc that does the same on two arrays of the parameters' dtype, or None.

    Found are computations of two scalar parameters whose root is one of `NUMBERS`, or a
    comparison by value, of both. None for types that NumPy does not compute with.
    """
    element_type = _parameter_type(computation)
    if element_type is None or COMPUTE_DTYPES[element_type] != DTYPES[element_type]:
        return None
    if computation.root.opcode is Opcode.COMPARE:
        return _comparison(computation)
    return wide_ufunc(computation)


def wide_ufunc(computation: Computation) -> np.ufunc | None:
    """Return the ufunc, of the dtype in which values are computed, of a reducer, or None.

    Found are computations of two scalar parameters whose root is one of `NUMBERS` of both.
    """
    element_type = _parameter_type(computation)
    if element_type is None:
        return None
    table = TRUTH_VALUES if element_type is ElementType.PRED else NUMBERS
    return table.get(computation.root.opcode)


def accumulation_dtype(ufunc: np.ufunc, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype for long sums and products of values of `dtype`: f64 or c128 if inexact.

    NumPy adds along outer dimensions one by one, in f32 with an error that grows with the count.
    """
    if ufunc not in (np.add, np.multiply) or dtype.kind not in "fc":
        return dtype
    return np.result_type(dtype, np.float64)


def _parameter_type(computation: Computation) -> ElementType | None:
    """Return the type of both parameters if the root reads just these two, else None."""
    parameters = computation.parameters
    if len(parameters) != 2 or set(computation.root.operands) != set(parameters):
        return None
    if any(not _is_scalar(x) for x in (*parameters, computation.root)):
        return None
    first, second = (parameter.shape.element_type for parameter in parameters)
    return first if first is second else None


def _is_scalar(instruction: Instruction) -> bool:
    return instruction.shape.is_array and instruction.shape.rank == 0


def _comparison(computation: Computation) -> np.ufunc | None:
    root = computation.root
    attributes = root.attributes_as(Compare)
    if attributes.type == "TOTALORDER":
        return None
    direction = attributes.direction
    if root.operands[0] is not computation.parameters[0]:
        direction = SWAPPED.get(direction, direction)
    function = DIRECTIONS[direction]
    return function if isinstance(function, np.ufunc) else None
