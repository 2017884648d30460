"""Sizes of results that windows, padding, slices and joining make of the sizes of operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lowtide.fitting.errors import SpecializedError
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import (
    Convolution,
    Dimensions,
    Pad,
    ReduceWindow,
    Slice,
)
from lowtide.ir.attributes.windows import WindowDimension

Sizes = Sequence[tuple[int, ...]]
"""The sizes of the operands' arrays."""

_MARGIN: Final = 8
"""A slice that leaves out fewer elements does so at any size; one of more is a part of it."""


def made_sizes(x: Instruction, given: Sizes) -> dict[int, int]:
    """Return, by dimension of the result, the sizes that follow from no factor; {} for most."""
    rule = _RULES.get(x.opcode)
    return {} if rule is None else rule(x, given)


def _concatenate(x: Instruction, given: Sizes) -> dict[int, int]:
    (dimension,) = x.attributes_as(Dimensions).dimensions
    return {dimension: sum([sizes[dimension] for sizes in given])}


def _pad(x: Instruction, given: Sizes) -> dict[int, int]:
    found = {}
    for dimension, padding in enumerate(x.attributes_as(Pad).dimensions):
        before, size = x.operands[0].shape.dimensions[dimension], given[0][dimension]
        if before != size:
            inside = max(0, size - 1) * padding.interior
            found[dimension] = size + padding.low + padding.high + inside
    return found


def _slice(x: Instruction, given: Sizes) -> dict[int, int]:
    found = {}
    before = x.operands[0].shape.dimensions
    for dimension, (start, limit, stride) in enumerate(slice_bounds(x, before, given[0])):
        if before[dimension] != given[0][dimension]:
            found[dimension] = -(-(limit - start) // stride)
    return found


def slice_bounds(
    x: Instruction, before: Sequence[int], after: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Return start, limit (not included) and stride of a slice of an operand of other sizes.

    Ends near those of the operand stay as far from them; others stay at their part of it.
    """
    attributes = x.attributes_as(Slice)
    rows = zip(before, after, attributes.starts, attributes.limits, attributes.strides, strict=True)
    return [(_cut(x, start, a, b), _cut(x, limit, a, b), s) for a, b, start, limit, s in rows]


def _cut(x: Instruction, at: int, before: int, after: int) -> int:
    if before == after or at == 0:
        return at
    if before - at < min(_MARGIN, before // 2):
        return after - (before - at)
    if at < min(_MARGIN, before // 3):
        return at
    if at * after % before:
        raise SpecializedError(f"it cuts {before} elements at {at}", x)
    return at * after // before


def _convolution(x: Instruction, given: Sizes) -> dict[int, int]:
    attributes = x.attributes_as(Convolution)
    d = attributes.dimensions
    found = {}
    spatial = zip(d.input_spatial, d.kernel_spatial, d.output_spatial, strict=True)
    for (a, b, c), window in zip(spatial, attributes.window.dimensions, strict=True):
        shapes = x.operands[0].shape.dimensions, x.operands[1].shape.dimensions
        if (given[0][a], given[1][b]) != (shapes[0][a], shapes[1][b]):
            found[c] = windowed(given[0][a], window, given[1][b])
    return found


def _windows(x: Instruction, given: Sizes) -> dict[int, int]:
    found = {}
    before = x.operands[0].shape.dimensions
    for dimension, window in enumerate(x.attributes_as(ReduceWindow).window.dimensions):
        size = given[0][dimension]
        if size != before[dimension]:
            changed = window_at(window, before[dimension], size)
            found[dimension] = windowed(size, changed, changed.size)
    return found


def window_at(window: WindowDimension, before: int, after: int) -> WindowDimension:
    """Return a window along a dimension of another size: one that spans it still does."""
    if before == 1 or window.size != before:
        return window
    low = after - 1 if window.padding_low == before - 1 else window.padding_low
    high = after - 1 if window.padding_high == before - 1 else window.padding_high
    return replace(window, size=after, padding_low=low, padding_high=high)


def windowed(size: int, window: WindowDimension, window_size: int) -> int:
    """Return how many places a window of a size has along `size` elements."""
    spread = max(0, (size - 1) * window.base_dilation + 1) if size else 0
    padded = spread + window.padding_low + window.padding_high
    span = (window_size - 1) * window.window_dilation + 1
    return 0 if padded < span else (padded - span) // window.stride + 1


_RULES: Final[Mapping[Opcode, Callable[[Instruction, Sizes], dict[int, int]]]] = {
    Opcode.CONCATENATE: _concatenate,
    Opcode.CONVOLUTION: _convolution,
    Opcode.PAD: _pad,
    Opcode.REDUCE_WINDOW: _windows,
    Opcode.SLICE: _slice,
}

MAKING: Final = frozenset(_RULES)
"""The operations of which any size follows so."""
