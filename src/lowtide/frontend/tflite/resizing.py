"""Images in other sizes: between four neighbours, or the nearest one."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.indexing import resized_nearest, take
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir.element_type import ElementType

Places: TypeAlias = npt.NDArray[np.int32]
Reals: TypeAlias = npt.NDArray[np.float32]

Neighbours: TypeAlias = tuple[tuple[Places, Places], tuple[Reals, Reals]]

_BITS: Final = 10
_ONE: Final = 1 << _BITS
"""Places between elements of integers are multiples of 1/1024."""

_INTEGERS: Final = ("INT8", "INT16")


@op("RESIZE_BILINEAR", domain=DOMAIN, inputs=2)
def resize_bilinear(context: OpKernelContext) -> None:
    """Give an image [n, h, w, c] in another height and width, between its elements."""
    node, x = LiteNode(context), context.input(0)
    sizes = context.ints(1)
    if x.rank != 4 or len(sizes) != 2 or min(*sizes, *x.dimensions[1:3]) < 1:
        raise node.error(f"sizes {sizes} for {x.shape}")
    modes = bool(node.code(2)), bool(node.code(3))
    if node.tensor(0).type in _INTEGERS:
        _of_integers(node, x, sizes, modes)
        return
    if not x.element_type.is_floating:
        node.give(_of_bytes(node.b, x, sizes, modes))
        return
    value = x
    for axis, size in zip((1, 2), sizes, strict=True):
        value = _between(node.b, value, axis, *_neighbours(x.dimensions[axis], size, *modes))
    node.give(value)


def _neighbours(before: int, after: int, aligned: bool, centered: bool) -> Neighbours:
    """The places on both sides of each element of a result, and their shares."""
    at = _places(before, after, aligned, centered)
    low = np.maximum(np.floor(at), 0).astype(np.int32)
    high = np.minimum(np.ceil(at), before - 1).astype(np.int32)
    share = (at - low).astype(np.float32)
    return (low, high), (np.float32(1) - share, share)


def _of_bytes(b: Builder, x: Op, sizes: list[int], modes: tuple[bool, bool]) -> Op:
    """Bytes between four bytes, each times both of its shares, in the order of TFLite's sum."""
    rows, columns = [
        _neighbours(x.dimensions[axis], size, *modes)
        for axis, size in zip((1, 2), sizes, strict=True)
    ]
    value, total = b.convert(x, ElementType.F32), None
    for column, right in zip(*columns, strict=True):
        for row, down in zip(*rows, strict=True):
            part = take(b, take(b, value, b.constant(row), 1), b.constant(column), 2)
            part = part * along(b, b.constant(down), 1, part.dimensions)
            part = part * along(b, b.constant(right), 2, part.dimensions)
            total = part if total is None else total + part
    assert total is not None
    return b.convert(total + 0.5, x.element_type)


def _between(
    b: Builder, x: Op, axis: int, places: tuple[Places, Places], shares: tuple[Reals, Reals]
) -> Op:
    """Two elements along a dimension for each place of the result, each times its share."""
    parts = []
    for place, share in zip(places, shares, strict=True):
        part = take(b, x, b.constant(place), axis)
        shown = b.constant(share.astype(np.float32), x.element_type)
        parts.append(part * along(b, shown, axis, part.dimensions))
    return parts[0] + parts[1]


def _places(before: int, after: int, aligned: bool, centered: bool) -> Reals:
    """Where the elements of a result lie between those of an operand, along one dimension."""
    one = np.float32
    scale = one(before) / one(after)
    if aligned and after > 1:
        scale = one(before - 1) / one(after - 1)
    at = np.arange(after, dtype=np.float32)
    return (at + one(0.5)) * scale - one(0.5) if centered else at * scale


def _of_integers(node: LiteNode, x: Op, sizes: list[int], modes: tuple[bool, bool]) -> None:
    """Set the output to integers between integers, in multiples of 1/1024, rounded."""
    b = node.b
    kind = ElementType.S32 if x.element_type is ElementType.S8 else ElementType.S64
    value = b.convert(x, kind)
    for axis, size in zip((1, 2), sizes, strict=True):
        n = x.dimensions[axis]
        at = _fixed_places(n, size, *modes)
        low = np.maximum(np.fix(at / _ONE), 0).astype(np.int32)
        high = np.minimum(np.fix((at + _ONE - 1) / _ONE), n - 1).astype(np.int32)
        share = at - _ONE * low
        parts = []
        for place, weight in ((low, _ONE - share), (high, share)):
            part = take(b, value, b.constant(place), axis)
            parts.append(part * along(b, b.constant(weight, kind), axis, part.dimensions))
        value = parts[0] + parts[1]
    half = 1 << (2 * _BITS - 1)
    value = b.select(value.gt(0), value + half, value - half) / (1 << 2 * _BITS)
    node.give(b.convert(value, x.element_type))


def _fixed_places(before: int, after: int, aligned: bool, centered: bool) -> npt.NDArray[np.int64]:
    scale = (_ONE * before + after // 2) // after
    if aligned and after > 1:
        scale = (_ONE * (before - 1) + (after - 1) // 2) // (after - 1)
    at = np.arange(after, dtype=np.int64) * scale
    return at + scale // 2 - _ONE // 2 if centered else at


@op("RESIZE_NEAREST_NEIGHBOR", domain=DOMAIN, inputs=2)
def resize_nearest(context: OpKernelContext) -> None:
    """Give an image [n, h, w, c] in another height and width, each element the nearest one."""
    node, x = LiteNode(context), context.input(0)
    aligned, centered = bool(node.code(0)), bool(node.code(1))
    places: list[npt.NDArray[np.int32] | None] = [None] * x.rank
    for axis, size in zip((1, 2), context.ints(1), strict=True):
        n = x.dimensions[axis]
        one = np.float32
        scale = one(n - 1) / one(size - 1) if aligned and size > 1 else one(n) / one(size)
        at = (np.arange(size, dtype=np.float32) + one(0.5 if centered else 0)) * scale
        found = np.floor(at + one(0.5)) if aligned else np.floor(at)
        places[axis] = np.clip(found, 0, n - 1).astype(np.int32)
    node.give(resized_nearest(node.b, x, places))
