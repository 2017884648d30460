"""Reductions along dimensions, and `map`, with any computation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.evaluator.numeric import element_type_of, narrow, widen
from lowtide.evaluator.reducers import accumulation_dtype, wide_ufunc
from lowtide.evaluator.values import Value, Values, as_array
from lowtide.evaluator.vectorized import evaluate_elementwise
from lowtide.ir.attributes import Dimensions
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler

SEQUENTIAL_LIMIT: Final = 2048
"""Up to this many elements are folded one after the other, more in pairs."""


def reduce(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the inputs folded along dimensions into the initial values, an array or a tuple.

    Elements are taken in row-major order; of many, neighbours are combined first, which is the
    same for an associative computation.
    """
    arrays = [as_array(x) for x in operands]
    count = len(arrays) // 2
    axes = instruction.attributes_as(Dimensions).dimensions
    computation = instruction.called_computations[0]
    ufunc = wide_ufunc(computation)
    if ufunc is not None and count == 1:
        return _reduce_plainly(ufunc, arrays[0], arrays[1], axes)
    rows = [_reduced_first(x, axes) for x in arrays[:count]]
    state = [np.broadcast_to(x, row.shape[1:]) for x, row in zip(arrays[count:], rows, strict=True)]
    if len(rows[0]) > SEQUENTIAL_LIMIT:
        rows = _combine_neighbours(interpreter, computation, rows)
    for i in range(len(rows[0])):
        state = apply(interpreter, computation, [*state, *[row[i, ...] for row in rows]])
    return tuple(state) if instruction.shape.is_tuple else state[0]


def _reduce_plainly(ufunc: np.ufunc, array: Array, init: Array, axes: tuple[int, ...]) -> Array:
    """Return the reduction in the accumulating type, rounded once."""
    wide = widen(array)
    if wide.size == 0:
        sizes = [n for d, n in enumerate(wide.shape) if d not in axes]
        return np.broadcast_to(init, sizes)
    dtype = accumulation_dtype(ufunc, wide.dtype)
    folded = ufunc.reduce(wide, axis=axes, dtype=dtype) if axes else wide
    return narrow(ufunc(widen(init), folded), element_type_of(array))


def _reduced_first(array: Array, axes: tuple[int, ...]) -> Array:
    """Return the array with the reduced dimensions as one, in front."""
    kept = [d for d in range(array.ndim) if d not in axes]
    length = math.prod([array.shape[d] for d in axes])
    moved = array.transpose([*sorted(axes), *kept])
    return moved.reshape(length, *[array.shape[d] for d in kept])


def _combine_neighbours(
    interpreter: Interpreter, computation: Computation, rows: list[Array]
) -> list[Array]:
    """Return rows of length 1: neighbours are combined until one is left."""
    while len(rows[0]) > 1:
        even = len(rows[0]) // 2 * 2
        pairs = [row[:even:2] for row in rows] + [row[1:even:2] for row in rows]
        combined = apply(interpreter, computation, pairs)
        rows = [np.concatenate([x, row[even:]]) for x, row in zip(combined, rows, strict=True)]
    return rows


def apply(
    interpreter: Interpreter, computation: Computation, arguments: Sequence[Array]
) -> list[Array]:
    """Return the results of a scalar computation at all positions, as a list of arrays."""
    result = evaluate_elementwise(interpreter, computation, arguments)
    parts = result if isinstance(result, tuple) else (result,)
    return [as_array(part) for part in parts]


def map_elements(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return what the computation makes of the operands' elements at each position."""
    arrays = [as_array(x) for x in operands]
    return evaluate_elementwise(interpreter, instruction.called_computations[0], arrays)


HANDLERS: Final[dict[Opcode, Handler]] = {Opcode.MAP: map_elements, Opcode.REDUCE: reduce}
