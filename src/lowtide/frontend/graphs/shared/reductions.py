"""Reductions, positions of extremes, the greatest k, running sums, and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op, SubComputation
from lowtide.frontend.graphs.shared.broadcasting import scalar
from lowtide.ir import Opcode, array_shape
from lowtide.ir.attributes import Window, WindowDimension
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES

_WIDE: Final = {ElementType.F16: ElementType.F32, ElementType.BF16: ElementType.F32}
"""The type in which sums and products of a narrow type are taken."""

_OPCODES: Final = {
    "sum": Opcode.ADD,
    "prod": Opcode.MULTIPLY,
    "max": Opcode.MAXIMUM,
    "min": Opcode.MINIMUM,
    "all": Opcode.AND,
    "any": Opcode.OR,
}


def start_of(kind: str, element_type: ElementType) -> complex:
    """Return what a reduction of nothing gives."""
    if kind in ("sum", "any"):
        return 0
    if kind in ("prod", "all"):
        return 1
    if element_type.is_floating:
        return -math.inf if kind == "max" else math.inf
    if element_type is ElementType.PRED:
        return int(kind == "min")
    limits = np.iinfo(DTYPES[element_type])
    return int(limits.min if kind == "max" else limits.max)


def reduce(b: Builder, kind: str, x: Op, axes: Sequence[int], *, keep: bool = False) -> Op:
    """Return a sum, prod, max, min, all or any over some dimensions, which stay as 1 with `keep`.

    Sums and products of 16-bit floats are taken in f32.
    """
    narrow = x.element_type
    if kind in ("sum", "prod") and narrow in _WIDE:
        x = b.convert(x, _WIDE[narrow])
    start = scalar(b, start_of(kind, x.element_type), x)
    step = b.scalar_computation(_OPCODES[kind], x.element_type)
    result = b.reduce(x, start, step, axes) if axes else x
    if result.element_type is not narrow:
        result = b.convert(result, narrow)
    if not keep:
        return result
    return b.reshape(result, [1 if i in axes else n for i, n in enumerate(x.dimensions)])


def mean(b: Builder, x: Op, axes: Sequence[int], *, keep: bool = False) -> Op:
    """Return the mean over some dimensions; of integers it is truncated."""
    count = math.prod([x.dimensions[i] for i in axes])
    narrow = x.element_type
    wide = b.convert(x, _WIDE[narrow]) if narrow in _WIDE else x
    total = reduce(b, "sum", wide, axes, keep=keep)
    result = total / scalar(b, count, total)
    return b.convert(result, narrow) if narrow in _WIDE else result


def log_sum_exp(b: Builder, x: Op, axes: Sequence[int], *, keep: bool = False) -> Op:
    """Return log(sum(e^x)), without overflow."""
    top = reduce(b, "max", x, axes, keep=True)
    safe = b.select(b.is_finite(top), top, b.broadcast(scalar(b, 0.0, x), top.dimensions, []))
    result = b.log(reduce(b, "sum", b.exponential(x - safe), axes, keep=True)) + safe
    if keep:
        return result
    return b.reshape(result, [n for i, n in enumerate(x.dimensions) if i not in axes])


def softmax(b: Builder, x: Op, axes: Sequence[int]) -> Op:
    """Return e^x divided by its sum over some dimensions."""
    powers = b.exponential(x - reduce(b, "max", x, axes, keep=True))
    return powers / reduce(b, "sum", powers, axes, keep=True)


def log_softmax(b: Builder, x: Op, axes: Sequence[int]) -> Op:
    """Return the logarithm of softmax."""
    shifted = x - reduce(b, "max", x, axes, keep=True)
    return shifted - b.log(reduce(b, "sum", b.exponential(shifted), axes, keep=True))


# -- positions -------------------------------------------------------------------------------------


def arg_extreme(
    b: Builder,
    kind: str,
    x: Op,
    axis: int,
    result: ElementType,
    *,
    keep: bool = False,
    last: bool = False,
) -> Op:
    """Return the position of the max or min along a dimension: the first one, or the last.

    NaN counts as the extreme.
    """
    positions = b.iota(array_shape(result, x.dimensions), axis)
    start = [scalar(b, start_of(kind, x.element_type), x), b.constant(0 if last else _MOST, result)]
    step = _better(b, kind, x.element_type, result, last=last)
    found = b.get_tuple_element(b.reduce([x, positions], start, step, [axis]), 1)
    if not keep:
        return found
    return b.reshape(found, [1 if i == axis else n for i, n in enumerate(x.dimensions)])


_MOST: Final = (1 << 31) - 1


def _better(
    b: Builder, kind: str, values: ElementType, positions: ElementType, *, last: bool
) -> SubComputation:
    direction = "GT" if kind == "max" else "LT"
    child = b.sub_builder(f"arg_{kind}")
    shapes = [array_shape(x) for x in (values, positions, values, positions)]
    x, i, y, j = [child.parameter(n, shape) for n, shape in enumerate(shapes)]
    wins = child.compare(x, y, direction)
    ties = x.eq(y)
    if values.is_floating:
        wins = wins | (x.ne(x) & y.eq(y))
        ties = ties | (x.ne(x) & y.ne(y))
    take = wins | (ties & (i.gt(j) if last else i.lt(j)))
    pair = [child.select(take, x, y), child.select(take, i, j)]
    return child.build_computation(child.tuple(pair))


def top_k(
    b: Builder, x: Op, k: int, axis: int, positions: ElementType, *, largest: bool = True
) -> tuple[Op, Op]:
    """Return the k greatest or smallest elements along a dimension in order, and their positions.

    Of equal elements the first one comes first.
    """
    order = [i for i in range(x.rank) if i != axis] + [axis]
    moved = x if order == list(range(x.rank)) else b.transpose(x, order)
    pair = b.topk(moved, k, largest=largest)
    values, places = b.get_tuple_element(pair, 0), b.get_tuple_element(pair, 1)
    if places.element_type is not positions:
        places = b.convert(places, positions)
    if moved is x:
        return values, places
    back = [order.index(i) for i in range(x.rank)]
    return b.transpose(values, back), b.transpose(places, back)


def hardmax(b: Builder, x: Op, axis: int) -> Op:
    """Return 1 at the first of the greatest elements along a dimension, else 0."""
    found = arg_extreme(b, "max", x, axis, ElementType.S32)
    kept = [i for i in range(x.rank) if i != axis]
    positions = b.iota(array_shape(ElementType.S32, x.dimensions), axis)
    return b.convert(positions.eq(b.broadcast(found, x.dimensions, kept)), x.element_type)


def cumulative(b: Builder, kind: str, x: Op, axis: int, *, exclusive: bool, reverse: bool) -> Op:
    """Return running sums or products (`kind` "sum" or "prod") along a dimension.

    With `exclusive` they are without the element itself.
    """
    n = x.dimensions[axis]
    window = [WindowDimension(1)] * x.rank
    low, high = (0, n - 1) if reverse else (n - 1, 0)
    if exclusive:
        low, high = (-1, n) if reverse else (n, -1)
    if n == 0:
        return x
    window[axis] = WindowDimension(n, padding_low=low, padding_high=high)
    step = b.scalar_computation(_OPCODES[kind], x.element_type)
    start = scalar(b, start_of(kind, x.element_type), x)
    return b.reduce_window(x, start, step, Window(tuple(window)))


def cumulative_sum(b: Builder, x: Op, axis: int, *, exclusive: bool, reverse: bool) -> Op:
    """Return running sums along a dimension, with `exclusive` without the element itself."""
    return cumulative(b, "sum", x, axis, exclusive=exclusive, reverse=reverse)
