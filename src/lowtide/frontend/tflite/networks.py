"""Convolutions, fully connected layers and products of matrices: of floats and of integers.

Sums of 8-bit products leave zero points out of the products: what they come to is a number for each
channel, which is added with the bias. Operands stay of 8 bits so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.graphs.shared.arrays import padded
from lowtide.frontend.graphs.shared.broadcasting import along, expand, joined
from lowtide.frontend.graphs.shared.contraction import WindowShape, same_padding
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tflite import channels, hybrid, quantized
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.frontend.tflite.rounding import Factor, factor_of, scaled_sums
from lowtide.ir.attributes import DotDimensions, Window
from lowtide.ir.element_type import ElementType

_SAME, _VALID = 0, 1


def window_of(
    node: LiteNode,
    image: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> WindowShape:
    """Return how a window moves over an image, padded as option 0 says."""
    padding = node.code(0)
    if padding not in (_SAME, _VALID):
        raise node.error(f"padding {padding}; known are 0 and 1")
    if min(*strides, *dilations, *sizes) < 1:
        raise node.error(f"strides {list(strides)}, dilations {list(dilations)}")
    found = [(0, 0)] * len(sizes)
    if padding == _SAME:
        pairs = zip(image, sizes, strides, dilations, strict=True)
        found = [same_padding(*pair) for pair in pairs]
    return WindowShape(tuple(sizes), tuple(strides), tuple(dilations), tuple(found))


def sizes_of(node: LiteNode, number: int, rank: int) -> tuple[int, ...]:
    """Return the sizes of an input; raises GraphError for another rank."""
    sizes = node.context.input(number).dimensions
    if len(sizes) != rank:
        raise node.error(f"input {number} has sizes {list(sizes)}; {rank} are expected")
    return sizes


@op("CONV_2D", domain=DOMAIN, inputs=(2, 3))
def conv_2d(context: OpKernelContext) -> None:
    """Give a convolution of [n, h, w, c] with filters [o, h, w, i], plus a number per channel."""
    node = LiteNode(context)
    image, sizes = sizes_of(node, 0, 4), sizes_of(node, 1, 4)
    if not sizes[3] or image[3] % sizes[3]:
        raise node.error(f"{image[3]} channels for filters of {sizes[3]}")
    strides, dilations = (node.number(2), node.number(1)), (node.number(5, 1), node.number(4, 1))
    shape = window_of(node, image[1:3], sizes[1:3], strides, dilations)
    _convolution(node, "OXYI", shape, image[3] // sizes[3], node.activation(3))


@op("DEPTHWISE_CONV_2D", domain=DOMAIN, inputs=(2, 3))
def depthwise_conv_2d(context: OpKernelContext) -> None:
    """Give a convolution of each channel with filters [1, h, w, o] of its own."""
    node = LiteNode(context)
    image, sizes = sizes_of(node, 0, 4), sizes_of(node, 1, 4)
    strides, dilations = (node.number(2), node.number(1)), (node.number(6, 1), node.number(5, 1))
    shape = window_of(node, image[1:3], sizes[1:3], strides, dilations)
    _convolution(node, "IXYO", shape, image[3], node.activation(4))


@op("CONV_3D", domain=DOMAIN, inputs=(2, 3))
def conv_3d(context: OpKernelContext) -> None:
    """Give a convolution of [n, d, h, w, c] with filters [d, h, w, i, o]; of floats."""
    node = LiteNode(context)
    node.require_floats()
    image, sizes = sizes_of(node, 0, 5), sizes_of(node, 1, 5)
    strides = (node.number(1), node.number(3), node.number(2))
    dilations = (node.number(5, 1), node.number(7, 1), node.number(6, 1))
    shape = window_of(node, image[1:4], sizes[:3], strides, dilations)
    groups = image[4] // max(sizes[3], 1)
    found = contraction.convolve(
        node.b, context.input(0), context.input(1), "NXYZC", "XYZIO", shape, groups
    )
    node.give(with_bias(node, found), node.activation(4))


def _convolution(
    node: LiteNode, filters: str, shape: WindowShape, groups: int, activation: str
) -> None:
    context, b = node.context, node.b
    if hybrid.is_hybrid(node):
        node.give(with_bias(node, _hybrid(node, filters, shape, groups)), activation)
    elif not node.is_quantized:
        kernel, filters = _by_columns(node, floats(node, 1), filters)
        found = contraction.convolve(b, context.input(0), kernel, "NXYC", filters, shape, groups)
        node.give(with_bias(node, found), activation)
    else:
        sums = _integer_sums(node, filters, shape, groups)
        factors = quantized.channel_factors(node, node.tensor(1))
        give_sums(node, sums, factors, activation)


_FEW_COLUMNS = 48
"""Channels of a result of which kernels hold all at once: none of the weights is packed then, where
the channels are neighbours."""


def _by_columns(node: LiteNode, kernel: Op, filters: str) -> tuple[Op, str]:
    """Constant weights of few channels with these as neighbours, and the names of dimensions."""
    known = node.context.known(1)
    is_few = filters == "OXYI" and kernel.dimensions[0] <= _FEW_COLUMNS
    if known is None or not is_few or known.dtype != np.float32 or known[0, ..., 0].size == 1:
        return kernel, filters
    return node.b.constant(np.ascontiguousarray(known.transpose(1, 2, 3, 0))), "XYIO"


def _integer_sums(node: LiteNode, filters: str, shape: WindowShape, groups: int) -> Op:
    """Sums of products without zero points, and a bias, of numbers as narrow as they come."""
    b, given = node.b, node.tensor(0)
    zero, of_filters = quantized.zero_of(given), node.tensor(1).quantization.zero_points
    x, kernel = node.context.input(0), node.context.input(1)
    wide = sum_type(node)
    if of_filters.any():
        x = _without(node, x, zero)
        kernel = _without(node, kernel, quantized.zero_of(node.tensor(1)))
        zero = 0
    elif given.type == "INT16":
        kernel = b.convert(kernel, x.element_type)
    if any(map(any, shape.padding)):
        x = padded(b, x, b.constant(zero, x.element_type), [(0, 0), *shape.padding, (0, 0)])
        shape = replace(shape, padding=((0, 0),) * len(shape.padding))
    dimensions = contraction.convolution_dimensions("NXYC", filters)
    window = Window(tuple(shape.entries()))
    sums = b.convolution(x, kernel, dimensions, window, groups, element_type=wide)
    axes = [i for i in range(4) if i != filters.index("O")]
    return _with_channels(node, sums, axes, zero)


def _with_channels(node: LiteNode, sums: Op, axes: Sequence[int], zero: int) -> Op:
    """Sums of products of weights plus the bias, less the products of the zero point.

    The weights are input 1, of which `axes` were summed up.
    """
    b, bias = node.b, node.context.optional(2)
    added = None if bias is None else channels.widened(b, bias, sums.element_type)
    if zero:
        total = channels.totals(b, node.context.input(1), axes, sums.element_type)
        taken = channels.product(b, total, -zero if added is None else zero)
        added = taken if added is None else channels.difference(b, added, taken)
    return sums if added is None else sums + along(b, added, sums.rank - 1, sums.dimensions)


def _without(node: LiteNode, x: Op, zero: int) -> Op:
    """8-bit numbers without their zero point, of 16 bits."""
    return node.b.convert(x, ElementType.S16) - zero


def _hybrid(node: LiteNode, filters: str, shape: WindowShape, groups: int) -> Op:
    """A convolution of floats with 8-bit filters: each entry of the batch has a scale."""
    b, tensor = node.b, node.tensor(1)
    kernel = hybrid.weights(node, 1)
    out = kernel.dimensions[filters.index("O")]
    is_per_channel = len(tensor.quantization.scales) == out
    quantize = hybrid.asymmetric if is_per_channel else hybrid.symmetric
    rows = quantize(b, node.context.input(0), [1, 2, 3])
    numbers = b.convert(rows.numbers, ElementType.S16)
    if rows.zeros is not None:
        numbers = numbers - expand(b, b.convert(rows.zeros, ElementType.S16), numbers.dimensions)
    dimensions = contraction.convolution_dimensions("NXYC", filters)
    window = Window(tuple(shape.entries()))
    wide = b.convert(kernel, ElementType.S16)
    sums = b.convolution(numbers, wide, dimensions, window, groups, element_type=ElementType.S32)
    scales = b.constant(np.array(hybrid.weight_scales(node, tensor, out), np.float32))
    factors = expand(b, rows.scales, sums.dimensions) * along(b, scales, 3, sums.dimensions)
    return b.convert(sums, ElementType.F32) * factors


def floats(node: LiteNode, number: int) -> Op:
    """Return weights as floats; raises GraphError for those that stand for others."""
    tensor, value = node.tensor(number), node.context.input(number)
    if tensor.type == "FLOAT32":
        return value
    if tensor.type in ("FLOAT16", "BFLOAT16"):
        return node.b.convert(value, ElementType.F32)
    raise node.refusal(f"weights of type {tensor.type} for floats")


def sum_type(node: LiteNode) -> ElementType:
    """Return the type that sums of products of quantized numbers take."""
    return ElementType.S64 if node.tensor(0).type == "INT16" else ElementType.S32


def with_bias(node: LiteNode, sums: Op, number: int = 2) -> Op:
    """Return sums plus a number for each element of the last dimension, where it is given."""
    bias = node.context.optional(number)
    if bias is None:
        return sums
    return sums + along(node.b, node.cast(bias, sums.element_type), sums.rank - 1, sums.dimensions)


def give_sums(node: LiteNode, sums: Op, factors: list[Factor], activation: str) -> None:
    """Set the output to sums of products times factors, as kernels for their width round."""
    if sums.element_type is ElementType.S64:
        quantized.give(node, scaled_sums(node.b, sums, factors), activation)
    else:
        quantized.give_times(node, sums, factors, activation)


@op("FULLY_CONNECTED", domain=DOMAIN, inputs=(2, 3))
def fully_connected(context: OpKernelContext) -> None:
    """Give x times the transposed weights, plus a number per row of them."""
    node, b = LiteNode(context), context.builder
    if node.code(1):
        raise node.refusal("weights in a shuffled format")
    rows, inner = sizes_of(node, 1, 2)
    given = context.input(0)
    count = given.shape.element_count
    if not inner or count % inner:
        raise node.error(f"{count} numbers for weights {[rows, inner]}")
    sizes = [*given.dimensions[:-1], rows] if node.code(2) else [count // inner, rows]
    x = b.reshape(given, [count // inner, inner])
    activation = node.activation(0)
    if node.is_quantized:
        _quantized_layer(node, x, sizes, activation)
        return
    if hybrid.is_hybrid(node):
        with_zero = bool(node.code(3))
        scales = hybrid.weight_scales(node, node.tensor(1), rows)
        found = hybrid.rows_times(b, x, hybrid.weights(node, 1), scales, with_zero=with_zero)
    else:
        found = b.dot(x, floats(node, 1), DotDimensions((1,), (1,)))
    node.give(b.reshape(with_bias(node, found), sizes), activation)


def _quantized_layer(node: LiteNode, x: Op, sizes: Sequence[int], activation: str) -> None:
    b, tensor = node.b, node.tensor(1)
    weights = node.context.input(1)
    zero = quantized.zero_of(node.tensor(0))
    if x.element_type is weights.element_type and not quantized.zero_of(tensor):
        sums = b.dot(x, weights, DotDimensions((1,), (1,)), element_type=sum_type(node))
        sums = _with_channels(node, sums, [1], zero)
    else:
        sums = with_bias(node, _products(node, x, weights, DotDimensions((1,), (1,))))
    if len(tensor.quantization.scales) == 1:
        product = quantized.scale_of(node, node.tensor(0)) * quantized.scale_of(node, tensor)
        factors = [factor_of(float(product) / float(quantized.scale_of(node, node.made)))]
    else:
        factors = quantized.channel_factors(node, tensor)
    give_sums(node, b.reshape(sums, sizes), factors, activation)


def _products(node: LiteNode, x: Op, y: Op, dimensions: DotDimensions) -> Op:
    """Sums of products of quantized numbers without their zero points.

    The contracted dimensions are taken out of the sums of the other operand.
    """
    b, wide = node.b, sum_type(node)
    zeros = [quantized.zero_of(node.tensor(i)) for i in range(2)]
    if x.element_type is not y.element_type:
        common = ElementType.S16
        x, y, zeros = _without(node, x, zeros[0]), _without(node, y, zeros[1]), [0, 0]
        x, y = [v if v.element_type is common else b.convert(v, common) for v in (x, y)]
    sums = b.dot(x, y, dimensions, element_type=wide)
    batch = len(dimensions.lhs_batch)
    inner = x.dimensions[dimensions.lhs_contracting[0]]
    if zeros[0]:
        totals = reduce(b, "sum", b.convert(y, wide), list(dimensions.rhs_contracting))
        kept = [*range(batch), sums.rank - 1]
        sums = sums - b.broadcast(totals * zeros[0], sums.dimensions, kept)
    if zeros[1]:
        totals = reduce(b, "sum", b.convert(x, wide), list(dimensions.lhs_contracting))
        kept = [*range(batch), *range(batch, sums.rank - 1)]
        sums = sums - b.broadcast(totals * zeros[1], sums.dimensions, kept)
    return sums + inner * zeros[0] * zeros[1] if zeros[0] and zeros[1] else sums


@op("BATCH_MATMUL", domain=DOMAIN, inputs=2)
def batch_matmul(context: OpKernelContext) -> None:
    """Give products of matrices, each transposed or not."""
    node, b = LiteNode(context), context.builder
    x, y = [
        contraction.swapped(b, context.input(i)) if node.code(i) else context.input(i)
        for i in range(2)
    ]
    is_hybrid = hybrid.is_hybrid(node)
    if not is_hybrid and not node.is_quantized:
        node.give(contraction.matmul(b, x, y))
        return
    batch = joined([x.dimensions[:-2], y.dimensions[:-2]])
    x, y = [expand(b, v, (*batch, *v.dimensions[-2:])) for v in (x, y)]
    if is_hybrid:
        (scale,) = hybrid.weight_scales(node, node.tensor(1), 1)
        node.give(hybrid.matrices_times(b, x, y, scale, with_zero=bool(node.code(2))))
        return
    both = tuple(range(len(batch)))
    dimensions = DotDimensions((x.rank - 1,), (y.rank - 2,), both, both)
    scales = [quantized.scale_of(node, node.tensor(i)) for i in range(2)]
    real = float(scales[0]) * float(scales[1]) / float(quantized.scale_of(node, node.made))
    give_sums(node, _products(node, x, y, dimensions), [factor_of(real)], "NONE")
