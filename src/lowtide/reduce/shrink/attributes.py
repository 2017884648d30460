"""Attributes that state sizes, for other sizes of operands and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lowtide.ir import Opcode
from lowtide.ir.attributes import (
    Attributes,
    Convolution,
    DynamicSlice,
    Gather,
    Pad,
    PaddingDimension,
    ReduceWindow,
    Slice,
    TopK,
    Window,
    WindowDimension,
)
from lowtide.ops.windows import dilated
from lowtide.records import dataclass
from lowtide.reduce.shrink.choice import small_size

Dimensions = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Resized:
    """The dimensions of an array before and after."""

    old: Dimensions
    new: Dimensions


def resized_attributes(
    opcode: Opcode, attributes: Attributes, operands: Sequence[Resized], result: Resized
) -> Attributes:
    """Return attributes that fit the new sizes and are alike; `result` is the first of a tuple."""
    rule = _RULES.get(opcode)
    return attributes if rule is None else rule(attributes, operands, result)


# -- slices and pads ---------------------------------------------------------------------------


def _slice(attributes: Slice, operands: Sequence[Resized], result: Resized) -> Slice:
    whole = operands[0]
    ranges = [
        _range(bounds, sizes)
        for bounds, sizes in zip(
            zip(attributes.starts, attributes.limits, attributes.strides, strict=True),
            zip(whole.old, whole.new, result.new, strict=True),
            strict=True,
        )
    ]
    starts, limits, strides = zip(*ranges, strict=True) if ranges else ((), (), ())
    return Slice(starts, limits, strides)


def _range(bounds: tuple[int, int, int], sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    (start, limit, stride), (old, new, part) = bounds, sizes
    if part == 0:
        return min(start, new), min(start, new), stride
    if part > 1:
        stride = max(1, min(stride, (new - 1) // (part - 1)))
    room = new - ((part - 1) * stride + 1)
    if limit == old and start:
        start = room
    elif start:
        start = min(room, max(1, round(start * new / old)))
    end = start + (part - 1) * stride + 1
    return start, new if limit == old and new - end < stride else end, stride


def _dynamic_slice(
    attributes: DynamicSlice, operands: Sequence[Resized], result: Resized
) -> DynamicSlice:
    return DynamicSlice(result.new)


def _pad(attributes: Pad, operands: Sequence[Resized], result: Resized) -> Pad:
    paddings = zip(attributes.dimensions, operands[0].new, result.new, strict=True)
    return Pad(tuple([_padding(*each) for each in paddings]))


def _padding(padding: PaddingDimension, inner: int, outer: int) -> PaddingDimension:
    total = outer - dilated(inner, padding.interior + 1)
    low, high = _split(total, padding.low, padding.high)
    return PaddingDimension(low, high, padding.interior)


def _split(total: int, low: int, high: int) -> tuple[int, int]:
    """Divide a padding as another one is divided; a side without any stays so where it can."""
    if not high:
        return (total, 0) if low else (0, total)
    if not low or low + high == 0:
        return 0, total
    if low > 0 and high > 0 and total > 1:
        part = min(total - 1, max(1, total * low // (low + high)))
        return part, total - part
    return total // 2, total - total // 2


# -- windows -----------------------------------------------------------------------------------


def _resized_window(window: WindowDimension, size: int, inner: int, outer: int) -> WindowDimension:
    """Return a window of `size` elements that takes `outer` positions over `inner` elements."""
    stride = size if window.stride == window.size else small_size(window.stride)
    made = replace(
        window,
        size=size,
        stride=stride,
        window_dilation=small_size(window.window_dilation),
        base_dilation=small_size(window.base_dilation),
    )
    least = (outer - 1) * made.stride + dilated(size, made.window_dilation)
    least -= dilated(inner, made.base_dilation)
    if least <= window.padding_low + window.padding_high < least + made.stride:
        return made
    low, high = _split(least, window.padding_low, window.padding_high)
    return replace(made, padding_low=low, padding_high=high)


def _reduce_window(
    attributes: ReduceWindow, operands: Sequence[Resized], result: Resized
) -> ReduceWindow:
    sizes = zip(operands[0].old, operands[0].new, result.new, strict=True)
    return ReduceWindow(_pooling(attributes.window, list(sizes)))


def _pooling(window: Window, sizes: Sequence[tuple[int, int, int]]) -> Window:
    made = []
    for dimension, (old, new, outer) in zip(window.dimensions, sizes, strict=True):
        size = new if dimension.size == old else small_size(dimension.size)
        made.append(_resized_window(dimension, size, new, outer))
    return Window(tuple(made))


def _select_and_scatter(
    attributes: ReduceWindow, operands: Sequence[Resized], result: Resized
) -> ReduceWindow:
    sizes = zip(operands[0].old, operands[0].new, operands[1].new, strict=True)
    return ReduceWindow(_pooling(attributes.window, list(sizes)))


def _convolution(
    attributes: Convolution, operands: Sequence[Resized], result: Resized
) -> Convolution:
    image, kernel = operands
    dims = attributes.dimensions
    made = [
        _resized_window(window, kernel.new[k], image.new[i], result.new[o])
        for window, k, i, o in zip(
            attributes.window.dimensions,
            dims.kernel_spatial,
            dims.input_spatial,
            dims.output_spatial,
            strict=True,
        )
    ]
    return replace(
        attributes,
        window=Window(tuple(made)),
        feature_group_count=image.new[dims.input_feature] // kernel.new[dims.kernel_input_feature],
        batch_group_count=image.new[dims.input_batch] // result.new[dims.output_batch],
    )


# -- the rest ----------------------------------------------------------------------------------


def _gather(attributes: Gather, operands: Sequence[Resized], result: Resized) -> Gather:
    sizes = list(attributes.slice_sizes)
    absent = {*attributes.collapsed_slice_dims, *attributes.operand_batching_dims}
    window = [i for i in range(len(sizes)) if i not in absent]
    for i, offset in zip(window, attributes.offset_dims, strict=True):
        sizes[i] = result.new[offset]
    return replace(attributes, slice_sizes=tuple(sizes))


def _topk(attributes: TopK, operands: Sequence[Resized], result: Resized) -> TopK:
    return replace(attributes, k=result.new[-1])


_RULES: Final[Mapping[Opcode, Callable[[Any, Sequence[Resized], Resized], Attributes]]] = {
    Opcode.CONVOLUTION: _convolution,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.GATHER: _gather,
    Opcode.PAD: _pad,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SLICE: _slice,
    Opcode.TOPK: _topk,
}
