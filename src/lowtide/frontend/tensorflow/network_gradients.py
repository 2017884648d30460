"""Gradients of convolutions, pooling, normalization and losses, as training steps have them."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, integers, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, indexing, reductions
from lowtide.frontend.graphs.shared.arrays import padded, reshaped
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.frontend.graphs.shared.elementwise import ones_like, zeros_like
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.frontend.tensorflow.networks import layout_of, letters, window_of
from lowtide.ir import Opcode
from lowtide.ir.attributes import Window


@op("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", domain=DOMAIN, inputs=3)
def conv_backprop_filter(context: OpKernelContext) -> None:
    """Give the gradient of a convolution for its kernel, whose sizes are the second input.

    It is a convolution that sums over the batch: batch and channels of the input change places.
    """
    b, layout = context.builder, layout_of(context)
    x, sizes, gradient = context.input(0), context.ints(1), context.input(2)
    names = letters(layout)
    if x.dimensions[layout.index("C")] != sizes[-2]:
        raise context.error("a kernel of fewer channels than the image has")
    shape = window_of(context, layout, sizes[: len(names)], x.dimensions)
    steps = [gradient.dimensions[layout.index(n)] for n in names]
    found = [x.dimensions[layout.index(n)] for n in names]
    padding = [
        (low, (k - 1) * dilation + (g - 1) * stride + 1 - n - low)
        for k, n, g, stride, dilation, (low, _) in zip(
            shape.sizes, found, steps, shape.strides, shape.dilations, shape.padding, strict=True
        )
    ]
    data = layout.replace("N", "?").replace("C", "N").replace("?", "C")
    kernel = layout.replace("N", "I").replace("C", "O")
    window = WindowShape(tuple(steps), shape.dilations, shape.strides, tuple(padding))
    result = contraction.convolve(b, x, gradient, data, kernel, window)
    order = [data.index(n) for n in (*names, "N", "C")]
    context.set_output(0, b.transpose(result, order))


@op("DepthwiseConv2dNativeBackpropInput", domain=DOMAIN, inputs=3)
def depthwise_backprop_input(context: OpKernelContext) -> None:
    """Give the gradient of a depthwise convolution for its input, whose sizes come first."""
    b, layout, sizes = context.builder, layout_of(context), tuple(context.ints(0))
    kernel, gradient = context.input(1), context.input(2)
    h, w, channels, multiplier = kernel.dimensions
    shape = window_of(context, layout, [h, w], sizes)
    total: Op | None = None
    for number in range(multiplier):
        part = b.reshape(
            b.slice(kernel, [0, 0, 0, number], [h, w, channels, number + 1]), [h, w, 1, channels]
        )
        last = gradient.rank - 1 if layout[-1] == "C" else 1
        starts, ends, steps = [0] * 4, list(gradient.dimensions), [1] * 4
        starts[last], steps[last] = number, multiplier
        own = b.slice(gradient, starts, ends, steps)
        found = contraction.convolve_transposed(
            b, own, part, layout, "HWIO", _fitted(shape, layout, own, sizes), channels
        )
        total = found if total is None else total + found
    assert total is not None
    context.set_output(0, total)


def _fitted(shape: WindowShape, layout: str, gradient: Op, sizes: tuple[int, ...]) -> WindowShape:
    """A window whose padding at the ends gives an image of some sizes."""
    padding = []
    for name, size, stride, dilation, (low, _) in zip(
        letters(layout), shape.sizes, shape.strides, shape.dilations, shape.padding, strict=True
    ):
        n, wanted = gradient.dimensions[layout.index(name)], sizes[layout.index(name)]
        padding.append((low, (n - 1) * stride + (size - 1) * dilation + 1 - low - wanted))
    return WindowShape(shape.sizes, shape.strides, shape.dilations, tuple(padding))


@op("DepthwiseConv2dNativeBackpropFilter", domain=DOMAIN, inputs=3)
def depthwise_backprop_filter(context: OpKernelContext) -> None:
    """Give the gradient of a depthwise convolution for its kernel, whose sizes come second."""
    b, layout = context.builder, layout_of(context)
    x, (h, w, channels, multiplier), gradient = context.input(0), context.ints(1), context.input(2)
    shape = window_of(context, layout, [h, w], x.dimensions)
    if layout != "NHWC":
        x, gradient = [b.transpose(y, [0, 2, 3, 1]) for y in (x, gradient)]
    n, rows, columns = gradient.dimensions[:3]
    wide = padded(b, x, scalar(b, 0, x), [(0, 0), *shape.padding, (0, 0)])
    split = b.reshape(gradient, [n, rows, columns, channels, multiplier])
    taps = []
    for i in range(h):
        for j in range(w):
            first = [i * shape.dilations[0], j * shape.dilations[1]]
            strides = shape.strides
            ends = [
                f + (k - 1) * s + 1 for f, k, s in zip(first, (rows, columns), strides, strict=True)
            ]
            part = b.slice(wide, [0, *first, 0], [n, *ends, channels], [1, *strides, 1])
            spread = b.broadcast(part, split.dimensions, [0, 1, 2, 3])
            taps.append(reductions.reduce(b, "sum", spread * split, [0, 1, 2]))
    stacked = b.concatenate([b.reshape(y, [1, channels, multiplier]) for y in taps], 0)
    context.set_output(0, b.reshape(stacked, [h, w, channels, multiplier]))


def _pool_window(context: OpKernelContext, x: tuple[int, ...]) -> Window:
    layout = layout_of(context)
    sizes = context.attribute("ksize", integers)
    spatial = [layout.index(n) for n in letters(layout)]
    shape = window_of(context, layout, [sizes[i] for i in spatial], x)
    return shape.window(spatial, len(x))


@op("MaxPoolGrad", "MaxPool3DGrad", domain=DOMAIN, inputs=3)
def max_pool_grad(context: OpKernelContext) -> None:
    """Give what comes behind to the first of the greatest elements of each window."""
    b, x, gradient = context.builder, context.input(0), context.input(2)
    child = b.sub_builder("at_least")
    first, second = [child.parameter(i, scalar(b, 0, x).shape) for i in range(2)]
    choose = child.build_computation(first.ge(second))
    add = b.scalar_computation(Opcode.ADD, x.element_type)
    window = _pool_window(context, x.dimensions)
    result = b.select_and_scatter(x, choose, window, gradient, scalar(b, 0, x), add)
    context.set_output(0, result)


@op("AvgPoolGrad", "AvgPool3DGrad", domain=DOMAIN, inputs=2)
def avg_pool_grad(context: OpKernelContext) -> None:
    """Give shares of what comes behind to all elements of each window."""
    b, sizes, gradient = context.builder, tuple(context.ints(0)), context.input(1)
    layout = layout_of(context)
    window = _pool_window(context, sizes)
    zeros = b.broadcast(scalar(b, 0, gradient), sizes, [])
    add = b.scalar_computation(Opcode.ADD, gradient.element_type)
    counts = b.reduce_window(ones_like(b, zeros), scalar(b, 0, gradient), add, window)
    share = gradient / counts
    names = letters(layout)
    spatial = [layout.index(n) for n in names]
    ksize = context.attribute("ksize", integers)
    shape = window_of(context, layout, [ksize[i] for i in spatial], sizes)
    channels = sizes[layout.index("C")]
    ones = b.constant(
        np.ones((*[ksize[i] for i in spatial], 1, channels), np.float32), gradient.element_type
    )
    fitted = _fitted(shape, layout, gradient, sizes)
    result = contraction.convolve_transposed(b, share, ones, layout, f"{names}IO", fitted, channels)
    context.set_output(0, result)


@op(
    "FusedBatchNormGrad",
    "FusedBatchNormGradV2",
    "FusedBatchNormGradV3",
    domain=DOMAIN,
    inputs=(5, 6),
)
def fused_batch_norm_grad(context: OpKernelContext) -> None:
    """Give the gradients for the input, its scale and its offset.

    The fourth and fifth input are mean and variance, of the batch in training.
    """
    b, layout = context.builder, layout_of(context)
    gradient, x, scale, mean, variance = [context.input(i) for i in range(5)]
    axis, epsilon = layout.index("C"), context.attribute("epsilon", real, 1e-4)
    axes = [i for i in range(x.rank) if i != axis]
    wide = [b.convert(y, scale.element_type) for y in (gradient, x)]
    sizes = x.dimensions
    inverse = b.rsqrt(variance + epsilon)
    centered = wide[1] - along(b, mean, axis, sizes)
    normal = centered * along(b, inverse, axis, sizes)
    offset = reductions.reduce(b, "sum", wide[0], axes)
    factor = reductions.reduce(b, "sum", wide[0] * normal, axes)
    if context.attribute("is_training", flag, True):
        count = float(math.prod([sizes[i] for i in axes]))
        inner = (
            wide[0]
            - along(b, offset / count, axis, sizes)
            - normal * along(b, factor / count, axis, sizes)
        )
    else:
        inner = wide[0]
    result = inner * along(b, scale * inverse, axis, sizes)
    context.set_output(0, b.convert(result, x.element_type))
    context.set_output(1, factor)
    context.set_output(2, offset)
    for number in (3, 4):
        context.set_output(number, zeros_like(b, scale))


@op("SparseSoftmaxCrossEntropyWithLogits", domain=DOMAIN, inputs=2)
def sparse_cross_entropy(context: OpKernelContext) -> None:
    """Give the loss of each row for the number of its class, and its gradient for the logits."""
    b, logits, classes = context.builder, context.input(0), context.input(1)
    one, zero = scalar(b, 1, logits), scalar(b, 0, logits)
    labels = indexing.one_hot(b, classes, logits.dimensions[1], one, zero, 1)
    log_p = reductions.log_softmax(b, logits, [1])
    context.set_output(0, -reductions.reduce(b, "sum", labels * log_p, [1]))
    context.set_output(1, b.exponential(log_p) - labels)


@op("StridedSliceGrad", domain=DOMAIN, inputs=5)
def strided_slice_grad(context: OpKernelContext) -> None:
    """Give zeros of the sizes of the first input, with what comes behind where x[...] was read."""
    b, sizes, gradient = context.builder, context.ints(0), context.input(4)
    masks = {
        name: context.attribute(name, integer, 0)
        for name in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    }
    index = _index([context.ints(i) for i in (1, 2, 3)], masks)
    places = np.arange(math.prod(sizes)).reshape(sizes)[index]
    if places.size != math.prod(gradient.dimensions):
        raise context.error(f"{list(places.shape)} elements were read, found {gradient.shape}")
    zeros = b.broadcast(scalar(b, 0, gradient), [math.prod(sizes)], [])
    vectors = b.constant(places.reshape(-1, 1).astype(np.int32))
    flat = reshaped(b, gradient, [-1]) if places.size else gradient
    found = indexing.put_vectors(b, zeros, vectors, flat) if places.size else zeros
    context.set_output(0, b.reshape(found, sizes))


def _index(parts: list[list[int]], masks: dict[str, int]) -> tuple[Any, ...]:
    """What stands in the brackets of x[...], for NumPy."""
    found: list[Any] = []
    for i, (first, last, step) in enumerate(zip(*parts, strict=True)):
        if masks["ellipsis_mask"] >> i & 1:
            found.append(Ellipsis)
        elif masks["new_axis_mask"] >> i & 1:
            found.append(None)
        elif masks["shrink_axis_mask"] >> i & 1:
            found.append(first)
        else:
            low = None if masks["begin_mask"] >> i & 1 else first
            high = None if masks["end_mask"] >> i & 1 else last
            found.append(slice(low, high, step))
    return tuple(found)


@op("LeakyReluGrad", domain=DOMAIN, inputs=2)
def leaky_relu_grad(context: OpKernelContext) -> None:
    """Give what comes behind, times alpha where x is not positive."""
    b, gradient, x = context.builder, context.input(0), context.input(1)
    alpha = context.attribute("alpha", real, 0.2)
    context.set_output(0, b.select(x.gt(0), gradient, gradient * alpha))


@op("SeluGrad", domain=DOMAIN, inputs=2)
def selu_grad(context: OpKernelContext) -> None:
    """Give the gradient of selu, from its result."""
    b, gradient, y = context.builder, context.input(0), context.input(1)
    scale, both = 1.0507009873554805, 1.0507009873554805 * 1.6732632423543772
    context.set_output(0, b.select(y.lt(0), gradient * (y + both), gradient * scale))


_MIRRORS: Final[dict[str, Literal["reflect", "symmetric"]]] = {
    "REFLECT": "reflect",
    "SYMMETRIC": "symmetric",
}


@op("MirrorPadGrad", domain=DOMAIN, inputs=2)
def mirror_pad_grad(context: OpKernelContext) -> None:
    """Give sums over all places to which each element was reflected."""
    b, gradient = context.builder, context.input(0)
    mode = context.choice("mode", _MIRRORS, "REFLECT")
    for axis, (low, high) in enumerate(context.constant(1).tolist()):
        n = gradient.dimensions[axis] - low - high
        source = np.pad(np.arange(n), (low, high), mode=mode)
        hits = (source[:, None] == np.arange(n)).astype(np.float32)
        moved = b.transpose(gradient, [*[i for i in range(gradient.rank) if i != axis], axis])
        summed = contraction.matmul(b, moved, b.constant(hits, gradient.element_type))
        order = list(range(gradient.rank - 1))
        order.insert(axis, gradient.rank - 1)
        gradient = b.transpose(summed, order)
    context.set_output(0, expand(b, gradient, gradient.dimensions))
