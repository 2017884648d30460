"""Convolution with all options of its window, grouping and dimension numbers.

The sum over the window is a sum of matrix products, one per position in the window or one per
place of the window, whichever are fewer. Where the input is spread apart (base dilation), elements
alone are multiplied, as XLA does; else padding is zeros, and so NaN where it meets an infinity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.evaluator.contraction import accumulation_dtype, from_accumulator, to_accumulator
from lowtide.evaluator.data_movement import padded
from lowtide.evaluator.values import Values, as_array
from lowtide.ir.attributes import Convolution, WindowDimension
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler


def convolution(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the convolution of operand 0 (the input) with operand 1 (the kernel)."""
    attributes = instruction.attributes_as(Convolution)
    inputs, kernel = as_array(operands[0]), as_array(operands[1])
    terms = kernel.size // max(kernel.shape[attributes.dimensions.kernel_output_feature], 1)
    element_type = instruction.shape.element_type
    dtype = accumulation_dtype(inputs, kernel, element_type, max(terms, 1))
    groups = max(attributes.feature_group_count, attributes.batch_group_count)
    window = attributes.window.dimensions
    x = _grouped_input(to_accumulator(inputs, dtype), attributes)
    holes = _holes(x.shape[2:-1], window)
    x = _spread(x, window)
    k = _grouped_kernel(to_accumulator(kernel, dtype), attributes, groups)
    reversed_axes = [1 + d for d, dimension in enumerate(window) if dimension.reversal]
    k = np.flip(k, tuple(reversed_axes))
    if holes is not None and np.isfinite(k).all():
        holes = None  # a product with zero is zero
    return from_accumulator(_ungrouped(_slide(x, k, window, holes), attributes), element_type)


# -- canonical order of dimensions -------------------------------------------------------------


def _grouped_input(inputs: Array, attributes: Convolution) -> Array:
    """Return the input as [group, batch, spatial dimensions, feature].

    Groups of the batch and of the features both end up as groups of features of the result.
    """
    numbers = attributes.dimensions
    order = (numbers.input_batch, *numbers.input_spatial, numbers.input_feature)
    x = inputs.transpose(order)
    batch, *spatial, features = x.shape
    if attributes.batch_group_count > 1:
        count = attributes.batch_group_count
        return x.reshape(count, batch // count, *spatial, features)
    count = attributes.feature_group_count
    return np.moveaxis(x.reshape(batch, *spatial, count, features // count), -2, 0)


def _grouped_kernel(kernel: Array, attributes: Convolution, groups: int) -> Array:
    """Return the kernel as [group, spatial dimensions, input feature, output feature]."""
    numbers = attributes.dimensions
    order = (*numbers.kernel_spatial, numbers.kernel_input_feature, numbers.kernel_output_feature)
    k = kernel.transpose(order)
    features = k.shape[-1]
    return np.moveaxis(k.reshape(*k.shape[:-1], groups, features // groups), -2, 0)


def _ungrouped(result: Array, attributes: Convolution) -> Array:
    """Return [group, batch, spatial dimensions, feature] in the order of the result."""
    numbers = attributes.dimensions
    merged = np.moveaxis(result, 0, -2)
    *sizes, groups, features = merged.shape
    merged = merged.reshape(*sizes, groups * features)
    order = (numbers.output_batch, *numbers.output_spatial, numbers.output_feature)
    return merged.transpose(np.argsort(order))


# -- the sum -----------------------------------------------------------------------------------


def _spread(x: Array, window: Sequence[WindowDimension]) -> Array:
    """Return the canonical input with zeros between and around its elements."""
    spatial = [(d.padding_low, d.padding_high, d.base_dilation - 1) for d in window]
    if not any(any(padding) for padding in spatial):
        return x
    unchanged = (0, 0, 0)
    return padded(x, [unchanged, unchanged, *spatial, unchanged], np.zeros((), x.dtype))


def _holes(sizes: Sequence[int], window: Sequence[WindowDimension]) -> Array | None:
    """Return where a spread input has no element; None where it is not spread."""
    if all(d.base_dilation == 1 for d in window):
        return None
    spatial = [(d.padding_low, d.padding_high, d.base_dilation - 1) for d in window]
    return padded(np.zeros(sizes, np.bool_), spatial, np.ones((), np.bool_))


def _slide(x: Array, k: Array, window: Sequence[WindowDimension], holes: Array | None) -> Array:
    """Return [group, batch, places of the window, feature]; in `holes` nothing is multiplied."""
    places = [_places(n, d) for n, d in zip(x.shape[2:-1], window, strict=True)]
    if 0 in places or not k.size:
        return np.zeros((*x.shape[:2], *places, k.shape[-1]), x.dtype)
    if holes is not None or math.prod(k.shape[1:-2]) <= math.prod(places):
        return _sum_over_positions(x, k, window, places, holes)
    return _each_place(x, k, window, places)


def _places(size: int, dimension: WindowDimension) -> int:
    reach = (dimension.size - 1) * dimension.window_dilation + 1
    return (size - reach) // dimension.stride + 1 if size >= reach else 0


def _sum_over_positions(
    x: Array,
    k: Array,
    window: Sequence[WindowDimension],
    places: Sequence[int],
    holes: Array | None,
) -> Array:
    """Add up, over positions in the window, the products for all of its places at once."""
    groups, batch = x.shape[:2]
    total = np.zeros((groups, batch * math.prod(places), k.shape[-1]), x.dtype)
    matrices = k.reshape(groups, -1, *k.shape[-2:])
    positions = itertools.product(*[range(d.size) for d in window])
    for number, position in enumerate(positions):
        met = [
            _progression(i * d.window_dilation, n, d.stride)
            for i, n, d in zip(position, places, window, strict=True)
        ]
        rows = x[(slice(None), slice(None), *met)].reshape(groups, -1, x.shape[-1])
        products = _product(rows, matrices[:, number])
        if holes is not None:
            products[:, np.tile(holes[tuple(met)].reshape(-1), batch)] = 0
        total += products
    return total.reshape(groups, batch, *places, k.shape[-1])


def _product(rows: Array, matrices: Array) -> Array:
    """Return a product for each group; where one number is contracted no sum is to be made."""
    if rows.shape[-1] == 1:
        return np.asarray(np.multiply(rows, matrices))
    return np.asarray(np.matmul(rows, matrices))


def _each_place(
    x: Array, k: Array, window: Sequence[WindowDimension], places: Sequence[int]
) -> Array:
    """Compute each place of the window as one product over all positions in it."""
    groups, batch = x.shape[:2]
    result = np.empty((groups, batch, math.prod(places), k.shape[-1]), x.dtype)
    matrix = k.reshape(groups, -1, k.shape[-1])
    for number, place in enumerate(itertools.product(*[range(n) for n in places])):
        covered = [
            _progression(i * d.stride, d.size, d.window_dilation)
            for i, d in zip(place, window, strict=True)
        ]
        rows = x[(slice(None), slice(None), *covered)].reshape(groups, batch, -1)
        result[:, :, number] = np.matmul(rows, matrix)
    return result.reshape(groups, batch, *places, k.shape[-1])


def _progression(start: int, count: int, step: int) -> slice:
    return slice(start, start + (count - 1) * step + 1, step)


HANDLERS: Final[dict[Opcode, Handler]] = {Opcode.CONVOLUTION: convolution}
