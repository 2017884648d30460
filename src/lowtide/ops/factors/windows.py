"""Factors of what moves a window: convolution, reduce-window, select-and-scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir.attributes import Convolution, ReduceWindow, WindowDimension
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ops.factors.record import FactorDraft, FactorKind, OpFactors
from lowtide.ops.reducers import reducer_opcode

_SINGLE: Final = WindowDimension(1)


def _kind(window: WindowDimension) -> FactorKind:
    """Return the kind of a dimension along which a window moves; one of an element does nothing."""
    return FactorKind.PASSED if window == _SINGLE else FactorKind.WINDOWED


def reach(window: WindowDimension, size: int, result: int) -> tuple[int, int] | None:
    """Return how many rows before and behind its own a part of the result needs.

    None where parts of the array, of `size` rows, and of the result do not lie beside each other,
    or where the window reaches further than half of the array.
    """
    base = window.base_dilation
    if result * window.stride != size * base or min(result, size) < 2:
        return None
    span = (window.size - 1) * window.window_dilation
    left = max(0, window.padding_low // base)
    right = max(0, (span - window.stride - window.padding_low) // base + 1)
    return (left, right) if 2 * max(left, right) <= size else None


def kernel_reach(
    window: WindowDimension, size: int, kernel: int, result: int
) -> tuple[int, int] | None:
    """Return the rows before and behind its own that a part needs where the kernel is split too.

    None where parts of the array and of the kernel do not lie beside each other.
    """
    dilation = window.window_dilation
    is_plain = window.base_dilation == 1 and not window.reversal
    if kernel * dilation != size or kernel < 2 or not is_plain:
        return None
    left = max(0, window.padding_low)
    right = max(0, (result - 1) * window.stride + 1 - dilation - window.padding_low)
    return (left, right) if 2 * max(left, right) <= size else None


def convolution(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of convolution: batch and features, by groups where there are some.

    A spatial dimension goes with the result, or with a kernel that is as long, as that of a
    gradient is; parts need what the window reaches beyond them.
    """
    draft = FactorDraft.of(operands, results)
    attributes = x.attributes_as(Convolution)
    d = attributes.dimensions
    lhs, rhs, out = operands[0].dimensions, operands[1].dimensions, results[0].dimensions
    groups, batches = attributes.feature_group_count, attributes.batch_group_count
    if groups > 1:
        draft.join(
            groups,
            {0: d.input_feature, 1: d.kernel_output_feature},
            {0: d.output_feature},
            FactorKind.PLACED,
        )
    if batches > 1:
        draft.join(
            batches,
            {0: d.input_batch, 1: d.kernel_output_feature},
            {0: d.output_feature},
            FactorKind.PLACED,
        )
    if groups == 1:
        draft.join(
            lhs[d.input_feature],
            {0: d.input_feature, 1: d.kernel_input_feature},
            kind=FactorKind.SUMMED,
        )
    if groups == batches == 1:
        draft.join(
            rhs[d.kernel_output_feature], {1: d.kernel_output_feature}, {0: d.output_feature}
        )
    if batches == 1:
        draft.join(lhs[d.input_batch], {0: d.input_batch}, {0: d.output_batch})
    spatial = zip(d.input_spatial, d.kernel_spatial, d.output_spatial, strict=True)
    for place, (a, b, c) in enumerate(spatial):
        window = attributes.window.dimensions[place]
        along = kernel_reach(window, lhs[a], rhs[b], out[c])
        if along is not None:
            draft.halo((0,), a, along, place)
            draft.join(rhs[b], {0: a, 1: b}, kind=FactorKind.WINDOWED)
            continue
        along = reach(window, lhs[a], out[c])
        if along is not None:
            draft.halo((0,), a, along, place)
            draft.join(min(lhs[a], out[c]), {0: a}, {0: c}, _kind(window))
    return draft.done(((0,), (1,)), Opcode.ADD, "a spatial dimension")


def reduce_window(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of reduce-window: parts need what the window reaches beyond them."""
    draft = FactorDraft.of(operands, results)
    inputs = tuple(range(len(results)))
    # What stands beyond the ends of the array must change no window.
    is_plain = len(inputs) == 1 and reducer_opcode(x.called_computations[0]) is not None
    for dimension, window in enumerate(x.attributes_as(ReduceWindow).window.dimensions):
        size, made = operands[0].dimensions[dimension], results[0].dimensions[dimension]
        along = reach(window, size, made)
        if along is None or (any(along) and not is_plain):
            continue
        draft.halo(inputs, dimension, along, dimension)
        given = dict.fromkeys(inputs, dimension)
        draft.join(min(size, made), given, given, _kind(window))
    return draft.done(why="a dimension along which a window moves")


def select_and_scatter(
    x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]
) -> OpFactors:
    """Return the factors of select-and-scatter: dimensions have one whose windows stand apart."""
    draft = FactorDraft.of(operands, results)
    for dimension, window in enumerate(x.attributes_as(ReduceWindow).window.dimensions):
        size, source = operands[0].dimensions[dimension], operands[1].dimensions[dimension]
        is_apart = window.size == window.stride and window.window_dilation == 1
        if is_apart and reach(window, size, source) == (0, 0) and not window.padding_low:
            draft.join(source, {0: dimension, 1: dimension}, {0: dimension}, _kind(window))
    return draft.done(why="a dimension along which a window moves")
