"""Images whose elements are taken along a projection, as layers that rotate and shear use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.elementwise import zeros_like
from lowtide.frontend.graphs.shared.indexing import take_vectors
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType

_Fill = Callable[[Builder, Op, int], Op]


def _whole(b: Builder, x: Op) -> Op:
    """Numbers without what is behind the point."""
    return b.select(x.lt(0), b.ceil(x), b.floor(x))


def _within(b: Builder, x: Op, n: int) -> Op:
    return b.maximum(b.minimum(x, float(n - 1)), 0.0)


def _reflected(b: Builder, x: Op, n: int) -> Op:
    """Places of an image that goes on mirrored, its edge included."""
    if n <= 1:
        return zeros_like(b, x)
    both = 2.0 * n
    low = b.select(x.lt(-both), x + _whole(b, -x / both) * both, x)
    low = b.select(low.lt(-float(n)), low + both, -low - 1.0)
    high = x - _whole(b, x / both) * both
    high = b.select(high.ge(float(n)), b.subtract(both, high) - 1.0, high)
    return _within(b, b.select(x.lt(0), low, b.select(x.gt(float(n - 1)), high, x)), n)


def _wrapped(b: Builder, x: Op, n: int) -> Op:
    """Places of an image that begins anew behind its end."""
    if n <= 1:
        return zeros_like(b, x)
    low = x + (_whole(b, -x / float(n - 1)) + 1.0) * float(n)
    high = x - _whole(b, x / float(n - 1)) * float(n)
    return _within(b, b.select(x.lt(0), low, b.select(x.gt(float(n - 1)), high, x)), n)


_FILLS: Final[dict[str, _Fill]] = {
    "CONSTANT": lambda b, x, n: x,
    "NEAREST": _within,
    "REFLECT": _reflected,
    "WRAP": _wrapped,
}


@op("ImageProjectiveTransformV2", "ImageProjectiveTransformV3", domain=DOMAIN, inputs=(3, 4))
def project(context: OpKernelContext) -> None:
    """Give images of a size whose elements lie where eight numbers for each image project them."""
    b, images = context.builder, context.input(0)
    sizes, fill = context.ints(2), context.choice("fill_mode", _FILLS, "CONSTANT")
    bilinear = {"BILINEAR": True, "NEAREST": False}
    is_linear = context.choice("interpolation", bilinear, "NEAREST")
    if images.rank != 4 or len(sizes) != 2:
        raise context.error(f"sizes {sizes} for images {images.shape}")
    n, height, width, channels = images.dimensions
    y, x, is_outside = _source(context, (n, *sizes))
    value = context.optional(3)
    value = b.constant(0.0, ElementType.F32) if value is None else value
    value = b.broadcast(b.convert(value, images.element_type), [n, *sizes, channels], [])
    y, x = fill(b, y, height), fill(b, x, width)

    def at(row: Op, column: Op) -> Op:
        return _read(b, images, (row, column), value)

    if not is_linear:
        found = at(b.round_nearest_afz(y), b.round_nearest_afz(x))
    else:
        found = _between(b, (y, x), at, images.element_type)
    shown = b.broadcast(is_outside, value.dimensions, [0, 1, 2])
    context.set_output(0, b.select(shown, value, found))


def _source(context: OpKernelContext, sizes: tuple[int, ...]) -> tuple[Op, Op, Op]:
    """Row and column in the image given for each element, and whether it lies at infinity."""
    b, given = context.builder, context.input(1)
    parts = []
    for i in range(8):
        part = b.reshape(b.slice(given, [0, i], [given.dimensions[0], i + 1]), given.dimensions[:1])
        one = given.dimensions[0] == 1
        part = b.reshape(part, []) if one else part
        parts.append(b.broadcast(part, sizes, [] if one else [0]))
    places = array_shape(ElementType.F32, sizes)
    y, x = b.iota(places, 1), b.iota(places, 2)
    below = parts[6] * x + parts[7] * y + 1.0
    is_outside = below.eq(0)
    below = b.select(is_outside, below + 1.0, below)
    column = (parts[0] * x + parts[1] * y + parts[2]) / below
    row = (parts[3] * x + parts[4] * y + parts[5]) / below
    return row, column, is_outside


def _read(b: Builder, images: Op, place: tuple[Op, Op], value: Op) -> Op:
    """The elements at whole places, and a value beyond the images."""
    _, height, width, _ = images.dimensions
    row, column = place
    inside = b.and_(
        b.and_(row.ge(0.0), row.lt(float(height))), b.and_(column.ge(0.0), column.lt(float(width)))
    )
    numbers = array_shape(ElementType.S32, row.dimensions)
    parts = [
        b.iota(numbers, 0),
        *[
            b.convert(_within(b, x, size), ElementType.S32)
            for x, size in ((row, height), (column, width))
        ],
    ]
    vectors = b.concatenate([b.reshape(p, [*p.dimensions, 1]) for p in parts], 3)
    found = take_vectors(b, images, vectors)
    return b.select(b.broadcast(inside, found.dimensions, [0, 1, 2]), found, value)


def _between(
    b: Builder, place: tuple[Op, Op], at: Callable[[Op, Op], Op], element_type: ElementType
) -> Op:
    """Elements between four neighbours, each by its distance."""
    row, column = place
    top, left = b.floor(row), b.floor(column)

    def wide(share: Op, like: Op) -> Op:
        return b.broadcast(share, like.dimensions, [0, 1, 2])

    rows = []
    for first in (top, top + 1.0):
        parts = [b.convert(at(first, x), ElementType.F32) for x in (left, left + 1.0)]
        right = wide(column - left, parts[0])
        rows.append(wide(left + 1.0 - column, parts[0]) * parts[0] + right * parts[1])
    down = wide(row - top, rows[0])
    found = wide(top + 1.0 - row, rows[0]) * rows[0] + down * rows[1]
    return b.convert(found, element_type)
