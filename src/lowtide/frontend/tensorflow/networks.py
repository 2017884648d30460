"""Ops of TensorFlow for networks: products, convolutions, pooling, normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integers, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, windows
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.contraction import WindowShape, same_padding
from lowtide.frontend.tensorflow.graph_def import DOMAIN

_LAYOUTS: Final = {
    True: {"NHWC": "NHWC", "NCHW": "NCHW"},
    False: {"NDHWC": "NDHWC", "NCDHW": "NCDHW"},
}
"""Layouts of images, flat ones or not."""


@op("MatMul", domain=DOMAIN, inputs=2)
def matmul(context: OpKernelContext) -> None:
    """Give the product of two matrices, each of them transposed or not."""
    sides = [
        contraction.swapped(context.builder, x) if context.attribute(name, flag, False) else x
        for x, name in zip(context.inputs(), ("transpose_a", "transpose_b"), strict=True)
    ]
    context.set_output(0, context.builder.matmul(*sides))


@op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", domain=DOMAIN, inputs=2)
def batch_matmul(context: OpKernelContext) -> None:
    """Give products of matrices; an adjoint one is transposed and conjugate."""
    b = context.builder
    sides = [
        contraction.conjugate(b, contraction.swapped(b, x))
        if context.attribute(name, flag, False)
        else x
        for x, name in zip(context.inputs(), ("adj_x", "adj_y"), strict=True)
    ]
    context.set_output(0, contraction.matmul(b, *sides))


@op("Einsum", domain=DOMAIN, inputs=(1, 1 << 30))
def einsum(context: OpKernelContext) -> None:
    """Give the sum of products that the equation names."""
    equation = context.attribute("equation", text)
    context.set_output(0, contraction.einsum(context.builder, equation, context.inputs()))


# -- windows -------------------------------------------------------------------------------------


def layout_of(context: OpKernelContext) -> str:
    """Return the layout of images: letters of their dimensions."""
    flat = "3D" not in context.node.op
    return context.choice("data_format", _LAYOUTS[flat], "NHWC" if flat else "NDHWC")


def letters(layout: str) -> str:
    """Return the letters of the spatial dimensions."""
    return "".join([x for x in layout if x not in "NC"])


def _image(context: OpKernelContext) -> tuple[str, Op]:
    """Return the layout and the image, the first input."""
    layout, x = layout_of(context), context.input(0)
    if x.rank != len(layout):
        raise context.error(f"expected an input of rank {len(layout)}, found {x.shape}")
    return layout, x


def _spatial(context: OpKernelContext, name: str, layout: str) -> list[int]:
    """Return the spatial entries of an attribute with one for each dimension."""
    values = context.attribute(name, integers, [1] * len(layout))
    if len(values) != len(layout):
        raise context.error(f"attribute {name!r} has to have {len(layout)} entries, found {values}")
    return [values[layout.index(x)] for x in letters(layout)]


def window_of(
    context: OpKernelContext, layout: str, sizes: Sequence[int], image: tuple[int, ...]
) -> WindowShape:
    """Return how a window of some sizes moves over an image."""
    strides = _spatial(context, "strides", layout)
    dilations = _spatial(context, "dilations", layout)
    kind = context.attribute("padding", text)
    names = letters(layout)
    if kind == "VALID":
        padding = [(0, 0)] * len(names)
    elif kind == "SAME":
        parts = zip([image[layout.index(x)] for x in names], sizes, strides, dilations, strict=True)
        padding = [same_padding(*part) for part in parts]
    elif kind == "EXPLICIT":
        given = context.attribute("explicit_paddings", integers)
        if len(given) != 2 * len(layout):
            wanted = 2 * len(layout)
            raise context.error(f"explicit_paddings has to have {wanted} entries, found {given}")
        starts = [2 * layout.index(x) for x in names]
        padding = [(given[i], given[i + 1]) for i in starts]
    else:
        raise context.error(f"attribute 'padding' is SAME, VALID or EXPLICIT, not {kind!r}")
    return WindowShape(tuple(sizes), tuple(strides), tuple(dilations), tuple(padding))


@op("Conv2D", "Conv3D", domain=DOMAIN, inputs=2)
def conv(context: OpKernelContext) -> None:
    """Give the convolution with a kernel of HWIO or DHWIO; fewer channels mean groups."""
    (layout, x), kernel = _image(context), context.input(1)
    shape = window_of(context, layout, kernel.dimensions[:-2], x.dimensions)
    channels, inner = x.dimensions[layout.index("C")], kernel.dimensions[-2]
    if not inner or channels % inner:
        raise context.error(f"{channels} channels are no multiple of the {inner} of the kernel")
    result = contraction.convolve(
        context.builder, x, kernel, layout, f"{letters(layout)}IO", shape, channels // inner
    )
    context.set_output(0, result)


@op("DepthwiseConv2dNative", domain=DOMAIN, inputs=2)
def depthwise_conv(context: OpKernelContext) -> None:
    """Give convolutions of single channels, with a kernel [h, w, channels, multiplier]."""
    b, (layout, x), kernel = context.builder, _image(context), context.input(1)
    h, w, channels, multiplier = kernel.dimensions
    shape = window_of(context, layout, [h, w], x.dimensions)
    flat = b.reshape(kernel, [h, w, 1, channels * multiplier])
    context.set_output(0, contraction.convolve(b, x, flat, layout, "HWIO", shape, channels))


@op("Conv2DBackpropInput", "Conv3DBackpropInputV2", domain=DOMAIN, inputs=3)
def conv_backprop_input(context: OpKernelContext) -> None:
    """Give the gradient of a convolution for its input, whose sizes are the first input."""
    layout, sizes = layout_of(context), tuple(context.ints(0))
    kernel, gradient = context.input(1), context.input(2)
    forward = window_of(context, layout, kernel.dimensions[:-2], sizes)
    names = letters(layout)
    found = [gradient.dimensions[layout.index(x)] for x in names]
    wanted = [sizes[layout.index(x)] for x in names]
    padding = [
        (low, (n - 1) * stride + (size - 1) * dilation + 1 - low - want)
        for n, want, size, stride, dilation, (low, _) in zip(
            found,
            wanted,
            forward.sizes,
            forward.strides,
            forward.dilations,
            forward.padding,
            strict=True,
        )
    ]
    shape = WindowShape(forward.sizes, forward.strides, forward.dilations, tuple(padding))
    result = contraction.convolve_transposed(
        context.builder, gradient, kernel, layout, f"{names}OI", shape
    )
    context.set_output(0, result)


@op("MaxPool", "MaxPool3D", domain=DOMAIN, inputs=1)
def max_pool(context: OpKernelContext) -> None:
    """Give the greatest element of each window."""
    x, spatial, shape = _pool(context)
    context.set_output(0, windows.max_pool(context.builder, x, spatial, shape))


@op("AvgPool", "AvgPool3D", domain=DOMAIN, inputs=1)
def avg_pool(context: OpKernelContext) -> None:
    """Give the mean of each window, of which padding is no part."""
    x, spatial, shape = _pool(context)
    context.set_output(0, windows.average_pool(context.builder, x, spatial, shape))


def _pool(context: OpKernelContext) -> tuple[Op, list[int], WindowShape]:
    layout, x = _image(context)
    sizes = context.attribute("ksize", integers)
    if len(sizes) != x.rank or sizes[layout.index("N")] != 1 or sizes[layout.index("C")] != 1:
        raise context.error(f"ksize has to be 1 for batch and channels, found {sizes}")
    spatial = [layout.index(x) for x in letters(layout)]
    shape = window_of(context, layout, [sizes[i] for i in spatial], x.dimensions)
    return x, spatial, shape


# -- normalization -------------------------------------------------------------------------------


@op("BiasAdd", "BiasAddV1", domain=DOMAIN, inputs=2)
def bias_add(context: OpKernelContext) -> None:
    """Give the input plus a number for each channel."""
    x, bias = context.inputs()
    layout = context.attribute("data_format", text, "NHWC")
    axis = 1 if layout.startswith("NC") else x.rank - 1
    context.set_output(0, x + along(context.builder, bias, axis, x.dimensions))


@op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", domain=DOMAIN, inputs=5)
def fused_batch_norm(context: OpKernelContext) -> None:
    """Give the input normalized by channel, and mean and variance, batch or given ones."""
    b, layout = context.builder, layout_of(context)
    x, scale, offset, mean, variance = context.inputs()
    axis = layout.index("C")
    epsilon = context.attribute("epsilon", real, 1e-4)
    wide = b.convert(x, scale.element_type)
    reported = variance
    if context.attribute("is_training", flag, True):
        axes = [i for i in range(x.rank) if i != axis]
        centers, spreads = windows.moments(b, wide, axes)
        mean, variance = [b.reshape(y, scale.dimensions) for y in (centers, spreads)]
        count = math.prod([x.dimensions[i] for i in axes])
        reported = variance * (count / max(count - 1, 1))
    y = windows.batch_norm(b, wide, scale, offset, mean, variance, epsilon, axis)
    context.set_outputs([b.convert(y, x.element_type), mean, reported, mean, variance])
    if context.node.op == "FusedBatchNormV3":
        context.set_output(5, b.constant(0.0, scale.element_type))
