"""Ops of ONNX that take one number of each window, and put such numbers back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, integers, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import indexing, reductions, windows
from lowtide.frontend.graphs.shared.arrays import padded
from lowtide.frontend.graphs.shared.broadcasting import scalar
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.frontend.onnx.networks import window_of
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir import Opcode, array_shape
from lowtide.ir.attributes import Window, WindowDimension
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array


def _windows(context: OpKernelContext, x: Op) -> tuple[WindowShape, WindowShape]:
    """The windows with the padding that counts, and with all that is added at the end.

    `ceil_mode` adds what the last window lacks; what the only window lacks, where that is less than
    a stride, is always added, as ONNX Runtime does.
    """
    sizes = context.attribute("kernel_shape", integers)
    if len(sizes) != x.rank - 2:
        raise context.error(f"kernel_shape needs {x.rank - 2} entries, found {sizes}")
    shape = window_of(context, x.dimensions[2:], sizes)
    is_ceiling = context.attribute("ceil_mode", flag, False)
    padding = [
        (entry.padding_low, _end_padding(n, entry, is_ceiling=is_ceiling))
        for n, entry in zip(x.dimensions[2:], shape.entries(), strict=True)
    ]
    whole = replace(shape, padding=tuple(padding))
    return (shape if is_ceiling else whole), whole


def _end_padding(n: int, entry: WindowDimension, *, is_ceiling: bool) -> int:
    """The elements behind the last one of n that windows along one dimension take in."""
    reach = (entry.size - 1) * entry.window_dilation + 1
    low, high, stride = entry.padding_low, entry.padding_high, entry.stride
    spare = n + low + high - reach
    if not is_ceiling:
        return high - spare if -stride < spare < 0 else high
    count = -(-spare // stride) + 1
    if (count - 1) * stride >= n + low:
        count -= 1
    return max(high, (count - 1) * stride + reach - n - low)


def _spatial(x: Op) -> range:
    return range(2, x.rank)


@op("MaxPool", domain=DOMAIN, inputs=1)
def max_pool(context: OpKernelContext) -> None:
    """Give the greatest element of each window, and its place in the input."""
    b, x = context.builder, context.input(0)
    if len(context.node.outputs) < 2:
        context.set_output(0, greatest(context, x))
        return
    _, shape = _windows(context, x)
    by_column = context.attribute("storage_order", integer, 0)
    sizes = x.dimensions
    if by_column:
        order = [0, 1, *reversed(range(2, x.rank))]
        swapped = np.arange(math.prod(sizes)).reshape([sizes[i] for i in order])
        places = swapped.transpose([order.index(i) for i in range(x.rank)])
    else:
        places = np.arange(math.prod(sizes)).reshape(sizes)
    context.set_outputs(list(_greatest(b, x, places, shape)))


def _greatest(b: Builder, x: Op, places: Array, shape: WindowShape) -> tuple[Op, Op]:
    """The greatest element of each window and its place: the windows' elements one by one."""
    padding = [(0, 0), (0, 0), *shape.padding]
    least = scalar(b, reductions.start_of("max", x.element_type), x)
    values = padded(b, x, least, padding)
    wide = np.pad(places, [(max(low, 0), max(high, 0)) for low, high in padding])
    best = at = None
    for offsets in itertools.product(*[range(n) for n in shape.sizes]):
        part = _strided(values.dimensions, offsets, shape)
        value = b.slice(values, *part)
        where = tuple([slice(i, j, k) for i, j, k in zip(*part, strict=True)])
        place = b.constant(np.ascontiguousarray(wide[where]).astype(np.int64))
        if best is None or at is None:
            best, at = value, place
        else:
            wins = value.gt(best)
            best, at = b.select(wins, value, best), b.select(wins, place, at)
    assert best is not None and at is not None
    return best, at


def _strided(
    sizes: Sequence[int], offsets: Sequence[int], shape: WindowShape
) -> tuple[list[int], list[int], list[int]]:
    """Starts, limits and strides of the elements at one offset in all windows."""
    starts, limits, strides = [0, 0], [*sizes[:2]], [1, 1]
    for i, entry in enumerate(shape.entries()):
        reach = (entry.size - 1) * entry.window_dilation + 1
        count = (sizes[i + 2] - reach) // entry.stride + 1
        start = offsets[i] * entry.window_dilation
        starts.append(start)
        limits.append(start + (count - 1) * entry.stride + 1)
        strides.append(entry.stride)
    return starts, limits, strides


@op("AveragePool", domain=DOMAIN, inputs=1)
def average_pool(context: OpKernelContext) -> None:
    """Give the mean of each window; padding counts with `count_include_pad`."""
    context.set_output(0, averaged(context, context.input(0)))


def averaged(context: OpKernelContext, x: Op) -> Op:
    """Return the mean of each window of x, as the attributes of the node say."""
    b = context.builder
    asked, shape = _windows(context, x)
    total = _sums(b, x, shape)
    ones = np.ones(x.dimensions[2:], np.float32)
    if context.attribute("count_include_pad", flag, False):
        ones = np.pad(ones, asked.padding, constant_values=1)
        rest = [(0, h - k) for (_, h), (_, k) in zip(shape.padding, asked.padding, strict=True)]
    else:
        rest = list(shape.padding)
    counts = windows.window_sums(np.pad(ones, rest), shape)
    divisor = b.constant(counts, x.element_type)
    return total / b.broadcast(divisor, total.dimensions, _spatial(x))


def greatest(context: OpKernelContext, x: Op) -> Op:
    """Return the greatest element of each window of x, as the attributes of the node say."""
    _, shape = _windows(context, x)
    return windows.max_pool(context.builder, x, _spatial(x), shape)


def _sums(b: Builder, x: Op, shape: WindowShape) -> Op:
    step = b.scalar_computation(Opcode.ADD, x.element_type)
    return b.reduce_window(x, scalar(b, 0, x), step, shape.window(_spatial(x), x.rank))


@op("MaxRoiPool", domain=DOMAIN, inputs=2)
def max_roi_pool(context: OpKernelContext) -> None:
    """Give the greatest elements of bins of regions [count, (image, x, y, x, y)]; 0 of empty ones.

    Corners are rounded to whole elements, which belong to the regions.
    """
    b, x, rois = context.builder, context.input(0), context.input(1)
    count, scale = rois.dimensions[0], context.attribute("spatial_scale", real, 1.0)
    columns = [b.reshape(b.slice(rois, [0, i], [count, i + 1], [1, 1]), [count]) for i in range(5)]
    numbers = b.convert(columns[0], ElementType.S32)
    corners = [b.round_nearest_afz(y * scale) for y in columns[1:]]
    found = indexing.take(b, x, numbers, 0)
    least = scalar(b, reductions.start_of("max", x.element_type), x)
    for axis, bins in zip(
        (3, 2), reversed(context.attribute("pooled_shape", integers)), strict=True
    ):
        inside = _bins(b, corners[3 - axis], corners[5 - axis], bins, x.dimensions[axis])
        sizes = [*found.dimensions[:axis], bins, *found.dimensions[axis:]]
        wide = b.broadcast(found, sizes, [i for i in range(5) if i != axis])
        mask = b.broadcast(inside, sizes, [0, axis, axis + 1])
        kept = b.select(mask, wide, b.broadcast(least, sizes, []))
        found = reductions.reduce(b, "max", kept, [axis + 1])
    zero = b.broadcast(scalar(b, 0, x), found.dimensions, [])
    is_empty = found.eq(b.broadcast(least, found.dimensions, []))
    context.set_output(0, b.select(is_empty, zero, found))


def _bins(b: Builder, first: Op, last: Op, bins: int, n: int) -> Op:
    """Whether each of n elements is in each bin of each region [count, bins, n]."""
    count = first.dimensions[0]
    size = b.maximum(last - first + 1, b.broadcast(scalar(b, 1, first), [count], [])) / bins
    sizes = [count, bins]
    number = b.iota(array_shape(first.element_type, tuple(sizes)), 1)
    start, step = [b.broadcast(y, sizes, [0]) for y in (first, size)]
    ends = [b.floor(number * step) + start, b.ceil((number + 1) * step) + start]
    wide = array_shape(first.element_type, (count, bins, n))
    place = b.iota(wide, 2)
    low, high = [b.broadcast(y, [count, bins, n], [0, 1]) for y in ends]
    return place.ge(low) & place.lt(high)


@op("LpPool", domain=DOMAIN, inputs=1)
def lp_pool(context: OpKernelContext) -> None:
    """Give the norm of each window."""
    b, x = context.builder, context.input(0)
    p = context.attribute("p", real, 2.0)
    _, shape = _windows(context, x)
    power = b.power(b.abs(x), scalar(b, p, x))
    context.set_output(0, b.power(_sums(b, power, shape), scalar(b, 1 / p, x)))


@op("GlobalLpPool", domain=DOMAIN, inputs=1)
def global_lp_pool(context: OpKernelContext) -> None:
    """Give the norm of each channel."""
    b, x = context.builder, context.input(0)
    p = context.attribute("p", real, 2.0)
    total = reductions.reduce(b, "sum", b.power(b.abs(x), scalar(b, p, x)), _spatial(x), keep=True)
    context.set_output(0, b.power(total, scalar(b, 1 / p, x)))


@op("MaxUnpool", domain=DOMAIN, inputs=(2, 3))
def max_unpool(context: OpKernelContext) -> None:
    """Give the elements at their places, and zeros between them."""
    b, x, places = context.builder, context.input(0), context.input(1)
    shape = window_of(context, x.dimensions[2:], context.attribute("kernel_shape", integers))
    own = [
        (n - 1) * entry.stride + entry.size - entry.padding_low - entry.padding_high
        for n, entry in zip(x.dimensions[2:], shape.entries(), strict=True)
    ]
    sizes = [*x.dimensions[:2], *own]
    wanted = context.ints(2) if context.has_input(2) else sizes
    count = math.prod(wanted)
    flat = b.reshape(x, [math.prod(x.dimensions)])
    # Places count in the array as it was before pooling, which has the size that is not asked for.
    found = b.broadcast(
        scalar(b, 0, x), [math.prod(sizes) if count != math.prod(sizes) else count], []
    )
    at = b.reshape(places, [math.prod(x.dimensions), 1])
    filled = b.reshape(indexing.put_vectors(b, found, at, flat), sizes)
    if list(wanted) == sizes:
        context.set_output(0, filled)
        return
    padding = [(0, m - n) for m, n in zip(wanted, sizes, strict=True)]
    context.set_output(0, b.pad(filled, scalar(b, 0, x), padding))


@op("LRN", domain=DOMAIN, inputs=1)
def lrn(context: OpKernelContext) -> None:
    """Give each element divided by a power of the squares in channels near to its own."""
    b, x = context.builder, context.input(0)
    size = context.attribute("size", integer)
    alpha, beta, bias = [
        context.attribute(name, real, default)
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    ]
    window = [WindowDimension(1)] * x.rank
    low = (size - 1) // 2
    window[1] = WindowDimension(size, padding_low=low, padding_high=size - 1 - low)
    step = b.scalar_computation(Opcode.ADD, x.element_type)
    squares = b.reduce_window(x * x, scalar(b, 0, x), step, Window(tuple(window)))
    base = squares * (alpha / size) + bias
    context.set_output(0, x / b.power(base, scalar(b, beta, x)))


@op("Col2Im", domain=DOMAIN, inputs=3)
def col2im(context: OpKernelContext) -> None:
    """Give the image whose blocks are the columns; where blocks overlap they are added."""
    b, x = context.builder, context.input(0)
    image, block = context.ints(1), context.ints(2)
    shape = window_of(context, tuple(image), block)
    n, rows, _ = x.dimensions
    channels = rows // math.prod(block)
    entries = shape.entries()
    wide = [m + e.padding_low + e.padding_high for m, e in zip(image, entries, strict=True)]
    counts = [
        (m - (e.size - 1) * e.window_dilation - 1) // e.stride + 1
        for m, e in zip(wide, entries, strict=True)
    ]
    parts = b.reshape(x, [n, channels, *block, *counts])
    total = b.broadcast(scalar(b, 0, x), [n, channels, *wide], [])
    for offsets in itertools.product(*[range(k) for k in block]):
        lows = [0, 0, *offsets, *[0] * len(counts)]
        highs = [n, channels, *[o + 1 for o in offsets], *counts]
        part = b.reshape(b.slice(parts, lows, highs, [1] * len(lows)), [n, channels, *counts])
        padding = [(0, 0, 0), (0, 0, 0)]
        for o, e, m, count in zip(offsets, entries, wide, counts, strict=True):
            low = o * e.window_dilation
            padding.append((low, m - low - (count - 1) * e.stride - 1, e.stride - 1))
        total = total + b.pad(part, scalar(b, 0, x), padding)
    starts = [0, 0, *[e.padding_low for e in entries]]
    ends = [n, channels, *[e.padding_low + m for e, m in zip(entries, image, strict=True)]]
    context.set_output(0, b.slice(total, starts, ends, [1] * len(starts)))
