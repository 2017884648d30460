"""Ops of ONNX for networks: products, convolutions, pooling, normalization."""

from __future__ import annotations

import math
from typing import Final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, integers, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, few_places, windows
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.contraction import WindowShape, same_padding
from lowtide.frontend.graphs.shared.elementwise import divide_no_nan
from lowtide.frontend.graphs.shared.reductions import mean, reduce
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.panels import (
    COLUMNS,
    KERNEL,
    OF_PANELS,
    kernel_of_panels,
    product_of_panels,
)
from lowtide.frontend.onnx.reductions import axis_of

_SPATIAL: Final = "XYZ"
"""Letters for spatial dimensions: layouts are NCX, NCXY, NCXYZ."""


@op("MatMul", domain=DOMAIN, inputs=2)
def matmul(context: OpKernelContext) -> None:
    """Give the product as NumPy's matmul."""
    context.set_output(0, contraction.matmul(context.builder, *context.inputs()))


@op(OF_PANELS["MatMul"], domain=DOMAIN, inputs=2)
def matmul_of_panels(context: OpKernelContext) -> None:
    """Give the product with a matrix in panels."""
    columns = context.attribute(COLUMNS, integer)
    x, panels = context.inputs()
    context.set_output(0, product_of_panels(context.builder, x, panels, columns))


@op("Gemm", OF_PANELS["Gemm"], domain=DOMAIN, inputs=(2, 3))
def gemm(context: OpKernelContext) -> None:
    """Give alpha A B + beta C, A and B transposed or not; one in panels has its columns already."""
    b = context.builder
    x, y = context.input(0), context.input(1)
    if context.attribute("transA", flag, False):
        x = contraction.swapped(b, x)
    is_turned = context.attribute("transB", flag, False)
    if context.node.op == OF_PANELS["Gemm"]:
        product = product_of_panels(b, x, y, context.attribute(COLUMNS, integer))
    else:
        product = b.matmul(x, contraction.swapped(b, y) if is_turned else y)
    alpha, beta = [context.attribute(name, real, 1.0) for name in ("alpha", "beta")]
    product = product if alpha == 1 else product * alpha
    bias = context.optional(2)
    if bias is not None and beta:
        wide = expand(b, bias, product.dimensions)
        product = product + (wide if beta == 1 else wide * beta)
    context.set_output(0, product)


@op("Einsum", domain=DOMAIN, inputs=(1, 1 << 30))
def einsum(context: OpKernelContext) -> None:
    """Give the sum of products that the equation names."""
    equation = context.attribute("equation", text)
    context.set_output(0, contraction.einsum(context.builder, equation, context.inputs()))


# -- windows -------------------------------------------------------------------------------------


def _letters(context: OpKernelContext, rank: int) -> str:
    if not 3 <= rank <= 2 + len(_SPATIAL):
        raise context.error(f"there can be 1 to 3 spatial dimensions, not {rank - 2}")
    return _SPATIAL[: rank - 2]


def _moves(context: OpKernelContext, count: int) -> tuple[list[int], list[int]]:
    found = [context.attribute(x, integers, [1] * count) for x in ("strides", "dilations")]
    if any(len(x) != count for x in found):
        raise context.error(f"strides and dilations need {count} entries, found {found}")
    return found[0], found[1]


def window_of(context: OpKernelContext, image: tuple[int, ...], sizes: list[int]) -> WindowShape:
    """Return how a window of some sizes moves over an image, as the attributes of the node say."""
    count = len(sizes)
    strides, dilations = _moves(context, count)
    automatic = context.attribute("auto_pad", text, "NOTSET")
    pads = context.attribute("pads", integers, [0] * 2 * count)
    if len(pads) != 2 * count:
        raise context.error(f"attribute 'pads' needs {2 * count} entries, found {pads}")
    padding = [(pads[i], pads[i + count]) for i in range(count)]
    if automatic == "VALID":
        padding = [(0, 0)] * count
    elif automatic in ("SAME_UPPER", "SAME_LOWER"):
        before = automatic == "SAME_LOWER"
        parts = zip(image, sizes, strides, dilations, strict=True)
        padding = [same_padding(*part, more_before=before) for part in parts]
    elif automatic != "NOTSET":
        raise context.error(f"auto_pad {automatic!r} is not known")
    return WindowShape(tuple(sizes), tuple(strides), tuple(dilations), tuple(padding))


@op(KERNEL, domain=DOMAIN, inputs=1)
def kernel(context: OpKernelContext) -> None:
    """Give the kernel of a convolution that lies in panels."""
    context.set_output(0, kernel_of_panels(context.builder, context.input(0)))


@op("Conv", domain=DOMAIN, inputs=(2, 3))
def conv(context: OpKernelContext) -> None:
    """Give the convolution, in groups, plus a number for each channel."""
    result = convolved(context, context.input(0), context.input(1))
    context.set_output(0, _with_bias(context, result))


def convolved(context: OpKernelContext, x: Op, kernel: Op) -> Op:
    """Return the convolution of an image with a kernel, as the attributes of the node say."""
    letters = _letters(context, x.rank)
    shape = window_of(context, x.dimensions[2:], list(kernel.dimensions[2:]))
    groups = context.attribute("group", integer, 1)
    if groups == 1 and few_places.is_product_of_rows(x, kernel, shape):
        return few_places.product_of_rows(context.builder, x, kernel, shape)
    return contraction.convolve(
        context.builder, x, kernel, f"NC{letters}", f"OI{letters}", shape, groups
    )


def _with_bias(context: OpKernelContext, x: Op) -> Op:
    bias = context.optional(2)
    return x if bias is None else x + along(context.builder, bias, 1, x.dimensions)


@op("ConvTranspose", domain=DOMAIN, inputs=(2, 3))
def conv_transpose(context: OpKernelContext) -> None:
    """Give the transposed convolution, plus a number for each channel."""
    b, x, kernel = context.builder, context.input(0), context.input(1)
    letters = _letters(context, x.rank)
    groups = context.attribute("group", integer, 1)
    sizes = list(kernel.dimensions[2:])
    if groups > 1:  # [C, M/g, ...] => [C/g, M, ...]: the groups of outputs side by side.
        c, m = kernel.dimensions[:2]
        parts = b.reshape(kernel, [groups, c // groups, m, *sizes])
        order = [1, 0, *range(2, parts.rank)]
        kernel = b.reshape(b.transpose(parts, order), [c // groups, groups * m, *sizes])
    result = contraction.convolve_transposed(
        b, x, kernel, f"NC{letters}", f"IO{letters}", _transposed_window(context, x, sizes), groups
    )
    context.set_output(0, _with_bias(context, result))


def _transposed_window(context: OpKernelContext, x: Op, sizes: list[int]) -> WindowShape:
    count = len(sizes)
    strides, dilations = _moves(context, count)
    extra = context.attribute("output_padding", integers, [0] * count)
    wanted = context.attribute("output_shape", integers, [])
    automatic = context.attribute("auto_pad", text, "NOTSET")
    pads = context.attribute("pads", integers, [0] * 2 * count)
    padding = []
    for i, n in enumerate(x.dimensions[2:]):
        reach = (n - 1) * strides[i] + (sizes[i] - 1) * dilations[i] + 1
        low, high = pads[i], pads[i + count] - extra[i]
        if automatic in ("SAME_UPPER", "SAME_LOWER") or wanted:
            total = reach + extra[i] - (wanted[-count:][i] if wanted else n * strides[i])
            cut = max(total, 0)  # What lacks is added behind, or not at all, by ONNX Runtime.
            less = cut // 2
            low = less if automatic == "SAME_UPPER" else cut - less
            high = (total if wanted else cut) - low - extra[i]
        padding.append((low, high))
    return WindowShape(tuple(sizes), tuple(strides), tuple(dilations), tuple(padding))


@op("GlobalAveragePool", domain=DOMAIN, inputs=1)
def global_average_pool(context: OpKernelContext) -> None:
    """Give the mean of each channel."""
    x = context.input(0)
    context.set_output(0, mean(context.builder, x, range(2, x.rank), keep=True))


@op("GlobalMaxPool", domain=DOMAIN, inputs=1)
def global_max_pool(context: OpKernelContext) -> None:
    """Give the greatest element of each channel."""
    x = context.input(0)
    context.set_output(0, reduce(context.builder, "max", x, range(2, x.rank), keep=True))


# -- normalization -------------------------------------------------------------------------------


@op("BatchNormalization", domain=DOMAIN, inputs=5)
def batch_normalization(context: OpKernelContext) -> None:
    """Give the input normalized by channel; in training by its own moments, which come along."""
    b = context.builder
    x, scale, offset, center, spread = context.inputs()
    epsilon = context.attribute("epsilon", real, 1e-5)
    if not context.attribute("training_mode", flag, False):
        y = windows.batch_norm(b, x, scale, offset, center, spread, epsilon, 1)
        context.set_output(0, y)
        return
    axes = [i for i in range(x.rank) if i != 1]
    own = [b.reshape(y, scale.dimensions) for y in windows.moments(b, x, axes)]
    context.set_output(0, windows.batch_norm(b, x, scale, offset, own[0], own[1], epsilon, 1))
    momentum = context.attribute("momentum", real, 0.9)
    for number, (old, new) in enumerate(zip((center, spread), own, strict=True), 1):
        context.set_output(number, old * momentum + new * (1 - momentum))


@op("LayerNormalization", domain=DOMAIN, inputs=(2, 3))
def layer_normalization(context: OpKernelContext) -> None:
    """Give the input normalized from `axis` on, and its mean and inverse deviation."""
    b, x = context.builder, context.input(0)
    axes = range(axis_of(context, -1, x.rank), x.rank)
    epsilon = context.attribute("epsilon", real, 1e-5)
    result, center, inverse = windows.normalized(b, x, axes, epsilon)
    result = windows.scaled(b, result, context.input(1), context.optional(2))
    context.set_outputs([result, center, inverse])


@op("InstanceNormalization", domain=DOMAIN, inputs=3)
def instance_normalization(context: OpKernelContext) -> None:
    """Give each channel of each image normalized."""
    b, (x, scale, offset) = context.builder, context.inputs()
    epsilon = context.attribute("epsilon", real, 1e-5)
    result, _, _ = windows.normalized(b, x, range(2, x.rank), epsilon)
    sizes = x.dimensions
    context.set_output(0, result * along(b, scale, 1, sizes) + along(b, offset, 1, sizes))


@op("GroupNormalization", domain=DOMAIN, inputs=3)
def group_normalization(context: OpKernelContext) -> None:
    """Give groups of channels normalized; scale and bias are for each channel (opset 21)."""
    b, (x, scale, offset) = context.builder, context.inputs()
    groups = context.attribute("num_groups", integer)
    n, c = x.dimensions[:2]
    if c % groups:
        raise context.error(f"{c} channels are no multiple of {groups} groups")
    parts = b.reshape(x, [n, groups, math.prod(x.dimensions[1:]) // groups])
    result, _, _ = windows.normalized(b, parts, [2], context.attribute("epsilon", real, 1e-5))
    sizes = x.dimensions
    result = b.reshape(result, sizes)
    context.set_output(0, result * along(b, scale, 1, sizes) + along(b, offset, 1, sizes))


@op("LpNormalization", domain=DOMAIN, inputs=1)
def lp_normalization(context: OpKernelContext) -> None:
    """Give vectors along a dimension divided by their norm, 1 or 2."""
    b, x = context.builder, context.input(0)
    axes = [axis_of(context, -1, x.rank)]
    order = context.attribute("p", integer, 2)
    if order not in (1, 2):
        raise context.error(f"p is 1 or 2, not {order}")
    powers = b.abs(x) if order == 1 else x * x
    total = reduce(b, "sum", powers, axes, keep=True)
    norm = expand(b, total if order == 1 else b.sqrt(total), x.dimensions)
    context.set_output(0, divide_no_nan(b, x, norm))
