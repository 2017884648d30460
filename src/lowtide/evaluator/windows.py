"""Sliding windows: reduce-window and select-and-scatter.

Only elements of the operand enter a reduction; positions in the padding or between dilated
elements are passed over, as if they held the neutral element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.evaluator.numeric import element_type_of, narrow, widen
from lowtide.evaluator.reducers import accumulation_dtype, wide_ufunc
from lowtide.evaluator.reduction import apply
from lowtide.evaluator.values import Value, Values, as_array
from lowtide.ir.attributes import ReduceWindow, Window, WindowDimension
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler

IntArray: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]
Mesh: TypeAlias = tuple[IntArray, ...]
"""Indices that broadcast against one another, one array per dimension."""

Blocks: TypeAlias = tuple[Array, Mask]
"""Values, and where there are any."""

DIRECT_LIMIT: Final = 64
"""Windows of more positions are reduced by doubling, where the reducer allows it."""


def output_size(size: int, dimension: WindowDimension) -> int:
    """Return how many places a window has along a dimension of `size` elements."""
    spread = (size - 1) * dimension.base_dilation + 1 if size else 0
    padded = spread + dimension.padding_low + dimension.padding_high
    reach = (dimension.size - 1) * dimension.window_dilation + 1 if dimension.size else 0
    return (padded - reach) // dimension.stride + 1 if padded >= reach else 0


def window_positions(sizes: Sequence[int], window: Window) -> Iterator[tuple[Mesh, Mesh]]:
    """Yield per position in the window, row major, the (output, input) indices that meet there.

    Both are open meshes, for windows at whose position there is an element of the input.
    """
    meetings = [
        [_meeting(size, dimension, k) for k in range(dimension.size)]
        for size, dimension in zip(sizes, window.dimensions, strict=True)
    ]
    for combination in itertools.product(*meetings):
        if all(len(outputs) for outputs, _ in combination):
            outputs = np.ix_(*[pair[0] for pair in combination])
            inputs = np.ix_(*[pair[1] for pair in combination])
            yield outputs, inputs


def _meeting(size: int, dimension: WindowDimension, k: int) -> tuple[IntArray, IntArray]:
    """Return the windows that find an element at their position `k`, and that element."""
    if dimension.reversal:
        k = dimension.size - 1 - k
    outputs = np.arange(output_size(size, dimension), dtype=np.intp)
    places = outputs * dimension.stride + k * dimension.window_dilation - dimension.padding_low
    inputs = places // dimension.base_dilation
    meets = (places % dimension.base_dilation == 0) & (inputs >= 0) & (inputs < size)
    return outputs[meets], inputs[meets]


# -- reduce-window -----------------------------------------------------------------------------


def reduce_window(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the inputs folded over each window into the initial values, an array or a tuple."""
    arrays = [as_array(x) for x in operands]
    count = len(arrays) // 2
    window = instruction.attributes_as(ReduceWindow).window
    sizes = arrays[0].shape
    places = [output_size(n, d) for n, d in zip(sizes, window.dimensions, strict=True)]
    computation = instruction.called_computations[0]
    ufunc = wide_ufunc(computation)
    if ufunc is not None and count == 1:
        return _reduce_window_plainly(ufunc, arrays[0], arrays[1], window, places)
    state = [np.broadcast_to(x, places).copy() for x in arrays[count:]]
    for outputs, inputs in window_positions(sizes, window):
        current = [x[outputs] for x in state] + [x[inputs] for x in arrays[:count]]
        for x, new in zip(state, apply(interpreter, computation, current), strict=True):
            x[outputs] = new
    return tuple(state) if instruction.shape.is_tuple else state[0]


def _reduce_window_plainly(
    ufunc: np.ufunc, array: Array, init: Array, window: Window, places: list[int]
) -> Array:
    """Return the reduction in the accumulating type, rounded once."""
    wide = widen(array)
    wide = wide.astype(accumulation_dtype(ufunc, wide.dtype), copy=False)
    if math.prod([d.size for d in window.dimensions]) > DIRECT_LIMIT and wide.size:
        folded, present = _fold_by_dimension(ufunc, wide, window)
        start = np.broadcast_to(widen(init).astype(wide.dtype), places)
        result = np.where(present, ufunc(start, folded), start)
        return narrow(result, element_type_of(array))
    result = np.full(places, widen(init), wide.dtype)
    for outputs, inputs in window_positions(array.shape, window):
        result[outputs] = ufunc(result[outputs], wide[inputs])
    return narrow(result, element_type_of(array))


def _fold_by_dimension(ufunc: np.ufunc, array: Array, window: Window) -> Blocks:
    """Return the fold over each window, one dimension after the other, and where there is any."""
    present = np.ones(array.shape, np.bool_)
    for axis, dimension in enumerate(window.dimensions):
        array, present = _fold_along(ufunc, array, present, axis, dimension)
    return array, present


def _fold_along(
    ufunc: np.ufunc, array: Array, present: Mask, axis: int, dimension: WindowDimension
) -> Blocks:
    """Fold windows along one axis in a number of steps logarithmic in the window's size.

    Blocks of doubling length are kept at each place; the binary digits of the window's size say
    which of them make up a window.
    """
    count = output_size(array.shape[axis], dimension)
    starts = np.arange(count) * dimension.stride
    blocks = _spread(array, present, axis, dimension)
    result: Blocks | None = None
    offset, length = 0, 1
    while length <= dimension.size:
        if dimension.size & length:
            part = _at(blocks, starts + offset, axis)
            result = part if result is None else _merge(ufunc, result, part)
            offset += length * dimension.window_dilation
        reach = length * dimension.window_dilation
        length *= 2
        if length <= dimension.size:
            usable = np.arange(blocks[0].shape[axis] - reach)
            ahead = _at(blocks, usable + reach, axis)
            blocks = _merge(ufunc, _at(blocks, usable, axis), ahead)
    assert result is not None, "a window has at least one position"
    return result


def _spread(array: Array, present: Mask, axis: int, dimension: WindowDimension) -> Blocks:
    """Return the axis with its padding and dilation, and where there are elements."""
    size = array.shape[axis]
    spread = (size - 1) * dimension.base_dilation + 1
    length = spread + dimension.padding_low + dimension.padding_high
    places = np.arange(length) - dimension.padding_low
    inside = (places >= 0) & (places < spread) & (places % dimension.base_dilation == 0)
    source = np.where(inside, places // dimension.base_dilation, 0)
    aligned = inside.reshape([-1 if d == axis else 1 for d in range(array.ndim)])
    return array.take(source, axis), present.take(source, axis) & aligned


def _at(blocks: Blocks, places: IntArray, axis: int) -> Blocks:
    return blocks[0].take(places, axis), blocks[1].take(places, axis)


def _merge(ufunc: np.ufunc, first: Blocks, second: Blocks) -> Blocks:
    """Return the combination where both are present, else the one that is."""
    (a, has_a), (b, has_b) = first, second
    return np.where(has_a & has_b, ufunc(a, b), np.where(has_a, a, b)), has_a | has_b


# -- select-and-scatter ------------------------------------------------------------------------


def select_and_scatter(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Array:
    """Return, over the initial value, each source element added where its window selects.

    Within a window, the selected element is kept as long as `select` holds of it and the next.
    """
    operand, source, init = [as_array(x) for x in operands]
    window = instruction.attributes_as(ReduceWindow).window
    if operand.ndim == 0:
        operand, source, window = operand.reshape(1), source.reshape(1), SCALAR_WINDOW
    select, scatter = instruction.called_computations
    positions = list(window_positions(operand.shape, window))
    chosen = _selected(interpreter, select, (operand, source.shape), positions)
    result = np.broadcast_to(init, operand.shape).copy()
    for number, (outputs, inputs) in enumerate(positions):
        taken = chosen[outputs] == number
        places = tuple([np.broadcast_to(i, taken.shape)[taken] for i in inputs])
        combined = apply(interpreter, scatter, [result[places], source[outputs][taken]])
        result[places] = combined[0]
    return result.reshape(as_array(operands[0]).shape)


SCALAR_WINDOW: Final = Window((WindowDimension(size=1),))


def _selected(
    interpreter: Interpreter,
    select: Computation,
    target: tuple[Array, tuple[int, ...]],
    positions: Sequence[tuple[Mesh, Mesh]],
) -> IntArray:
    """Return, for each place of the window, the number of the position that it selects."""
    operand, places = target
    best = np.zeros(places, operand.dtype)
    chosen = np.full(places, -1, np.intp)
    for number, (outputs, inputs) in enumerate(positions):
        candidates = operand[inputs]
        keeps = apply(interpreter, select, [best[outputs], candidates])[0]
        keeps = keeps & (chosen[outputs] >= 0)
        best[outputs] = np.where(keeps, best[outputs], candidates)
        chosen[outputs] = np.where(keeps, chosen[outputs], number)
    return chosen


HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.REDUCE_WINDOW: reduce_window,
    Opcode.SELECT_AND_SCATTER: select_and_scatter,
}
