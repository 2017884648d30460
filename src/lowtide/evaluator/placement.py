"""Arrays in one place and order, so that equal values give equal bits wherever they came from.

NumPy and its BLAS round as the memory of an operand makes them: they add up in the order of its
strides, have one loop for arrays without gaps and another one for the rest, and may take the
elements in front of the first multiple of a vector's size by themselves. A matrix times itself is
computed by another routine than the same matrix times its copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.evaluator.values import Value, Values, as_array
from lowtide.ir.literal import Array

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction

ALIGNMENT: Final = 16
"""New arrays begin at multiples of this, and no kernel was found that looks at more."""


def placed(value: Value) -> Value:
    """Return arrays that are row major, without gaps and aligned: the same ones, or copies."""
    if isinstance(value, tuple):
        return tuple([placed(x) for x in value])
    return _placed_array(value) if isinstance(value, np.ndarray) else value


def _placed_array(array: Array) -> Array:
    """Return an array with the strides that a new one has, also along dimensions of size 1."""
    if not array.flags.c_contiguous or array.__array_interface__["data"][0] % ALIGNMENT:
        return array.copy(order="C")
    stride = array.itemsize
    for size, found in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if found != stride:
            return array.copy(order="C")
        stride *= max(size, 1)
    return array


def placing(handler: Handler) -> Handler:
    """Return a handler that gets its operands in their place."""

    def run(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
        return handler(interpreter, instruction, [placed(x) for x in operands])

    return run


def placing_apart(handler: Handler) -> Handler:
    """Return a handler that gets its operands in their place, each in memory of its own."""

    def run(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
        arrays: list[Array] = []
        for operand in operands:
            array = _placed_array(as_array(operand))
            is_shared = any(np.may_share_memory(array, x) for x in arrays)
            arrays.append(array.copy() if is_shared else array)
        return handler(interpreter, instruction, arrays)

    return run


def placing_complex(handler: Handler) -> Handler:
    """Return a handler that gets complex operands in their place: these are never exact."""

    def run(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
        if any(isinstance(x, np.ndarray) and x.dtype.kind == "c" for x in operands):
            operands = [placed(x) for x in operands]
        return handler(interpreter, instruction, operands)

    return run
