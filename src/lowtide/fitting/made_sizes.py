"""Sizes and attributes of operations on operands of other sizes, where no factor tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lowtide.fitting.dimensions import SpecializedError
from lowtide.ir import Instruction, array_shape
from lowtide.ir.attributes import Attributes, ReduceWindow, Slice
from lowtide.ir.attributes.windows import WindowDimension
from lowtide.ir.errors import ShapeError
from lowtide.ops.factors.record import factors_of, has_factors
from lowtide.ops.resizing import attributes_at
from lowtide.ops.table import TABLE

Sizes = tuple[int, ...]

_MARGIN: Final = 8
"""A slice that leaves out fewer elements does so at any size; one of more is a part of it."""


def makes_sizes(x: Instruction) -> bool:
    """Whether an operation says of what size a dimension is that has no factor."""
    is_inferred = TABLE[x.opcode].infer is not None and has_factors(x.opcode)
    return is_inferred and x.shape.is_array and not all(factors_of(x).results[0])


def made_sizes(x: Instruction, operands: Sequence[Sizes]) -> dict[int, int]:
    """Return, by dimension of the result, its sizes that are other than those of now.

    {} where the operation takes no operands of these sizes, or of sizes that are not all known yet.
    """
    before = x.shape.dimensions
    attributes = grown_attributes(x, operands, before)
    types = [leaf.element_type for y in x.operands for _, leaf in y.shape.leaves()]
    shapes = [array_shape(t, sizes) for t, sizes in zip(types, operands, strict=True)]
    called = [y.program_shape for y in x.called_computations]
    infer = TABLE[x.opcode].infer
    assert infer is not None
    try:
        made = infer(shapes, attributes, called).dimensions
    except ShapeError:
        return {}
    return {d: n for d, n in enumerate(made) if n != before[d]}


def grown_attributes(x: Instruction, operands: Sequence[Sizes], result: Sizes) -> Attributes:
    """Return the attributes of an operation whose operands and result have other sizes.

    Slices end where they did, or at their part of the operand; windows over all of it still are.
    """
    old = x.attributes
    if isinstance(old, Slice):
        bounds = _slice_bounds(x, x.operands[0].shape.dimensions, operands[0])
        limits = [
            size if (*b, stride) == (0, known, 1) else b[1]
            for b, stride, known, size in zip(
                bounds, old.strides, x.shape.dimensions, result, strict=True
            )
        ]
        return replace(old, starts=tuple([b[0] for b in bounds]), limits=tuple(limits))
    if isinstance(old, ReduceWindow):
        rows = zip(old.window.dimensions, x.operands[0].shape.dimensions, operands[0], strict=True)
        moved = tuple([_window_at(window, a, b) for window, a, b in rows])
        return replace(old, window=replace(old.window, dimensions=moved))
    return attributes_at(x, operands, result)


def _slice_bounds(x: Instruction, before: Sizes, after: Sizes) -> list[tuple[int, int]]:
    """Return start and limit (not included) of a slice of an operand of other sizes.

    Ends near those of the operand stay as far from them; others stay at their part of it.
    """
    old = x.attributes_as(Slice)
    rows = zip(before, after, old.starts, old.limits, strict=True)
    return [(_cut(x, start, a, b), _cut(x, limit, a, b)) for a, b, start, limit in rows]


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


def _window_at(window: WindowDimension, before: int, after: int) -> WindowDimension:
    """Return a window along a dimension of another size: one that spans it still does."""
    if before in (1, after) or window.size != before:
        return window
    low = after - 1 if window.padding_low == before - 1 else window.padding_low
    high = after - 1 if window.padding_high == before - 1 else window.padding_high
    return replace(window, size=after, padding_low=low, padding_high=high)
