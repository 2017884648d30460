"""Attributes of an operation whose operands and result have other sizes, such as those of parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lowtide.ir.attributes import Attributes, Convolution, DynamicSlice, Gather, Slice, Window
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode

Sizes = tuple[int, ...]


def attributes_at(x: Instruction, operands: Sequence[Sizes], result: Sizes) -> Attributes:
    """Return the attributes of an operation on operands of other sizes along its factors.

    `result` has the sizes of its first array. Windows stay as they are but for that of a kernel.
    """
    rule = _RULES.get(x.opcode)
    return x.attributes if rule is None else rule(x, operands, result)


def _slice(x: Instruction, operands: Sequence[Sizes], result: Sizes) -> Attributes:
    """What is taken whole is so at any size."""
    old = x.attributes_as(Slice)
    rows = zip(old.limits, x.operands[0].shape.dimensions, operands[0], strict=True)
    return replace(old, limits=tuple([limit if a == b else b for limit, a, b in rows]))


def _dynamic_slice(x: Instruction, operands: Sequence[Sizes], result: Sizes) -> Attributes:
    return DynamicSlice(result)


def _gather(x: Instruction, operands: Sequence[Sizes], result: Sizes) -> Attributes:
    """Slices that have all of a dimension have all of it at any size."""
    old = x.attributes_as(Gather)
    sizes = list(old.slice_sizes)
    pairs = zip(x.operands[0].shape.dimensions, operands[0], strict=True)
    for d, (before, after) in enumerate(pairs):
        if sizes[d] == before and d not in old.collapsed_slice_dims:
            sizes[d] = after
    return replace(old, slice_sizes=tuple(sizes))


def _convolution(x: Instruction, operands: Sequence[Sizes], result: Sizes) -> Attributes:
    """The window has the sizes of the kernel, and groups grow with its output features."""
    old = x.attributes_as(Convolution)
    numbers, kernel = old.dimensions, operands[1]
    rows = zip(old.window.dimensions, numbers.kernel_spatial, strict=True)
    window = Window(tuple([replace(row, size=kernel[d]) for row, d in rows]))
    features = numbers.kernel_output_feature
    before, after = x.operands[1].shape.dimensions[features], kernel[features]
    groups = {
        name: count * after // before
        for name in ("feature_group_count", "batch_group_count")
        if (count := getattr(old, name)) > 1 and before
    }
    return replace(old, window=window, **groups)


_RULES: Final[Mapping[Opcode, Callable[[Instruction, Sequence[Sizes], Sizes], Attributes]]] = {
    Opcode.CONVOLUTION: _convolution,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.GATHER: _gather,
    Opcode.SLICE: _slice,
}
