"""Ops of TensorFlow on colors, the last dimension of images, and on crops of images."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.arrays import split
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.indexing import take_vectors
from lowtide.frontend.graphs.shared.reductions import mean
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType


def _hsv(b: Builder, x: Op) -> list[Op]:
    """Hue within [0, 1), saturation and value of red, green and blue, each [..., 1]."""
    red, green, blue = split(b, x, [1, 1, 1], x.rank - 1)
    value = b.maximum(b.maximum(red, green), blue)
    gap = value - b.minimum(b.minimum(red, green), blue)
    zero, one = [b.broadcast(scalar(b, v, gap), gap.dimensions, []) for v in (0, 1)]
    safe = b.select(gap.gt(0), gap, one)
    sixths = b.select(
        red.eq(value),
        (green - blue) / safe,
        b.select(green.eq(value), (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    hue = b.select(gap.gt(0), sixths / 6, zero)
    hue = b.select(hue.lt(0), hue + 1, hue)
    saturation = b.select(value.gt(0), gap / b.select(value.gt(0), value, one), zero)
    return [hue, saturation, value]


def _rgb(b: Builder, hue: Op, saturation: Op, value: Op) -> Op:
    six = hue * 6
    parts = [b.abs(six - 3) - 1, 2 - b.abs(six - 2), 2 - b.abs(six - 4)]
    limits = [scalar(b, v, hue) for v in (0, 1)]
    colors = [(b.clamp(limits[0], x, limits[1]) - 1) * saturation + 1 for x in parts]
    return b.concatenate([x * value for x in colors], hue.rank - 1)


@op("RGBToHSV", domain=DOMAIN, inputs=1)
def rgb_to_hsv(context: OpKernelContext) -> None:
    """Give hue, saturation and value of colors."""
    b, x = context.builder, context.input(0)
    context.set_output(0, b.concatenate(_hsv(b, x), x.rank - 1))


@op("HSVToRGB", domain=DOMAIN, inputs=1)
def hsv_to_rgb(context: OpKernelContext) -> None:
    """Give red, green and blue of hue, saturation and value."""
    b, x = context.builder, context.input(0)
    context.set_output(0, _rgb(b, *split(b, x, [1, 1, 1], x.rank - 1)))


@op("AdjustHue", domain=DOMAIN, inputs=2)
def adjust_hue(context: OpKernelContext) -> None:
    """Give colors whose hue is turned by a number of turns."""
    b, x = context.builder, context.input(0)
    hue, saturation, value = _hsv(b, x)
    hue = hue + b.broadcast(context.input(1), hue.dimensions, [])
    context.set_output(0, _rgb(b, hue - b.floor(hue), saturation, value))


@op("AdjustSaturation", domain=DOMAIN, inputs=2)
def adjust_saturation(context: OpKernelContext) -> None:
    """Give colors whose saturation is multiplied by a number, and kept within [0, 1]."""
    b, x = context.builder, context.input(0)
    hue, saturation, value = _hsv(b, x)
    limits = [scalar(b, v, hue) for v in (0, 1)]
    scaled = saturation * b.broadcast(context.input(1), hue.dimensions, [])
    context.set_output(0, _rgb(b, hue, b.clamp(limits[0], scaled, limits[1]), value))


@op("AdjustContrastv2", domain=DOMAIN, inputs=2)
def adjust_contrast(context: OpKernelContext) -> None:
    """Give images whose distance from the mean of each channel is multiplied by a number."""
    b, x = context.builder, context.input(0)
    center = expand(b, mean(b, x, [x.rank - 3, x.rank - 2], keep=True), x.dimensions)
    factor = b.convert(context.input(1), x.element_type)
    context.set_output(0, (x - center) * b.broadcast(factor, x.dimensions, []) + center)


@op("CropAndResize", domain=DOMAIN, inputs=4)
def crop_and_resize(context: OpKernelContext) -> None:
    """Give parts of images [n, h, w, c] in one size; boxes are [count, (y, x, y, x)] within [0, 1].

    Places outside of the image have the attribute `extrapolation_value`.
    """
    b, x, boxes = context.builder, context.input(0), context.input(1)
    is_nearest = context.attribute("method", text, "bilinear") == "nearest"
    count, sizes = boxes.dimensions[0], context.ints(3)
    at = [_places(b, boxes, i, m, x.dimensions[i + 1]) for i, m in enumerate(sizes)]
    inside = [y.ge(0) & y.le(x.dimensions[i + 1] - 1) for i, y in enumerate(at)]
    wide = [count, *sizes]
    lows = [b.round_nearest_afz(y) if is_nearest else b.floor(y) for y in at]
    shares = [y - low for y, low in zip(at, lows, strict=True)]
    found: Op | None = None
    for step in np.ndindex(1 if is_nearest else 2, 1 if is_nearest else 2):
        part = _picked(context, [low + i for low, i in zip(lows, step, strict=True)], wide)
        if not is_nearest:
            for axis, (share, upper) in enumerate(zip(shares, step, strict=True)):
                weight = share if upper else 1 - share
                part = part * b.broadcast(weight, part.dimensions, [0, axis + 1])
        found = part if found is None else found + part
    assert found is not None
    kept = [b.broadcast(y, found.dimensions, [0, i + 1]) for i, y in enumerate(inside)]
    rest = scalar(b, context.attribute("extrapolation_value", real, 0.0), found)
    context.set_output(
        0, b.select(kept[0] & kept[1], found, b.broadcast(rest, found.dimensions, []))
    )


def _places(b: Builder, boxes: Op, axis: int, m: int, n: int) -> Op:
    """The places [count, m] in n elements along a dimension of images."""
    count = boxes.dimensions[0]
    first, last = [
        b.reshape(b.slice(boxes, [0, i], [count, i + 1], [1, 1]), [count]) for i in (axis, axis + 2)
    ]
    if m == 1:
        return b.reshape((first + last) * (0.5 * (n - 1)), [count, 1])
    step = (last - first) * ((n - 1) / (m - 1))
    number = b.iota(array_shape(boxes.element_type, (count, m)), 1)
    return along(b, first * (n - 1.0), 0, (count, m)) + along(b, step, 0, (count, m)) * number


def _picked(context: OpKernelContext, places: list[Op], wide: list[int]) -> Op:
    """The elements [count, h, w, c] at places along both dimensions, clamped to the image."""
    b, x = context.builder, context.input(0)
    vectors = [b.broadcast(b.convert(context.input(2), ElementType.S32), wide, [0])]
    for axis, place in enumerate(places):
        limits = [scalar(b, v, place) for v in (0, x.dimensions[axis + 1] - 1)]
        clamped = b.convert(b.clamp(limits[0], place, limits[1]), ElementType.S32)
        vectors.append(b.broadcast(clamped, wide, [0, axis + 1]))
    indices = b.concatenate([b.reshape(v, [*wide, 1]) for v in vectors], 3)
    return b.convert(take_vectors(b, x, indices), ElementType.F32)
