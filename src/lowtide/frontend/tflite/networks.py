"""Operators of networks: convolutions, fully connected layers, pooling, products."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, windows
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.contraction import WindowShape, same_padding
from lowtide.frontend.graphs.shared.elementwise import ones_like
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.frontend.tflite.rounding import Factor, factor_of, scaled, scaled_sums
from lowtide.ir import Opcode
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType

_SAME, _VALID = 0, 1


def _window(
    node: LiteNode, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> WindowShape:
    """How a window moves over height and width, padded as option 0 says."""
    image = node.tensor(0).shape[1:3]
    padding = node.code(0)
    if padding not in (_SAME, _VALID):
        raise node.error(f"padding {padding}; known are 0 and 1")
    if min(*strides, *dilations, *sizes) < 1:
        raise node.error(f"strides {list(strides)}, dilations {list(dilations)}")
    found = [(0, 0)] * 2
    if padding == _SAME:
        pairs = zip(image, sizes, strides, dilations, strict=True)
        found = [same_padding(*pair) for pair in pairs]
    return WindowShape(tuple(sizes), tuple(strides), tuple(dilations), tuple(found))


def _require_rank(node: LiteNode, number: int, rank: int) -> tuple[int, ...]:
    shape = node.tensor(number).shape
    if len(shape) != rank:
        raise node.error(f"input {number} has sizes {list(shape)}; {rank} are expected")
    return shape


@op("CONV_2D", domain=DOMAIN, inputs=(2, 3))
def conv_2d(context: OpKernelContext) -> None:
    """Give a convolution of [n, h, w, c] with filters [o, h, w, i], plus a number per channel."""
    node = LiteNode(context)
    channels = _require_rank(node, 0, 4)[3]
    sizes = _require_rank(node, 1, 4)
    if not sizes[3] or channels % sizes[3]:
        raise node.error(f"{channels} channels for filters of {sizes[3]}")
    strides, dilations = (node.number(2), node.number(1)), (node.number(5, 1), node.number(4, 1))
    shape = _window(node, sizes[1:3], strides, dilations)
    _convolution(node, "OXYI", shape, channels // sizes[3], node.activation(3))


@op("DEPTHWISE_CONV_2D", domain=DOMAIN, inputs=(2, 3))
def depthwise_conv_2d(context: OpKernelContext) -> None:
    """Give a convolution of each channel with filters [1, h, w, o] of its own."""
    node = LiteNode(context)
    channels = _require_rank(node, 0, 4)[3]
    sizes = _require_rank(node, 1, 4)
    strides, dilations = (node.number(2), node.number(1)), (node.number(6, 1), node.number(5, 1))
    shape = _window(node, sizes[1:3], strides, dilations)
    _convolution(node, "IXYO", shape, channels, node.activation(4))


def _convolution(
    node: LiteNode, filters: str, shape: WindowShape, groups: int, activation: str
) -> None:
    context, b = node.context, node.b
    if not node.is_quantized:
        kernel = _floats(node, 1)
        found = contraction.convolve(b, context.input(0), kernel, "NXYC", filters, shape, groups)
        node.give(_with_bias(node, found), activation)
        return
    wide = _sum_type(node)
    x = b.convert(quantized.without_zero(node, 0), wide)
    kernel = b.convert(quantized.without_zero(node, 1), wide)
    found = contraction.convolve(b, x, kernel, "NXYC", filters, shape, groups)
    factors = quantized.channel_factors(node, node.tensor(1))
    _give_sums(node, _with_bias(node, found), factors, activation)


def _floats(node: LiteNode, number: int) -> Op:
    """Weights as floats: those of 8 bits are numbers times their scales."""
    tensor, value = node.tensor(number), node.context.input(number)
    if tensor.type == "FLOAT32":
        return value
    if tensor.type == "FLOAT16":
        return node.b.convert(value, ElementType.F32)
    raise node.refusal(f"weights of type {tensor.type} for floats")


def _sum_type(node: LiteNode) -> ElementType:
    return ElementType.S64 if node.tensor(0).type == "INT16" else ElementType.S32


def _with_bias(node: LiteNode, sums: Op) -> Op:
    bias = node.context.optional(2)
    if bias is None:
        return sums
    return sums + along(node.b, node.cast(bias, sums.element_type), sums.rank - 1, sums.dimensions)


def _give_sums(node: LiteNode, sums: Op, factors: list[Factor], activation: str) -> None:
    """Set the output to sums of products times factors, as kernels for their width round."""
    if sums.element_type is ElementType.S64:
        found = scaled_sums(node.b, sums, factors)
    else:
        found = scaled(node.b, sums, factors)
    quantized.give(node, found, activation)


@op("FULLY_CONNECTED", domain=DOMAIN, inputs=(2, 3))
def fully_connected(context: OpKernelContext) -> None:
    """Give x times the transposed weights, plus a number per row of them."""
    node, b = LiteNode(context), context.builder
    if node.code(1):
        raise node.refusal("weights in a shuffled format")
    rows, inner = _require_rank(node, 1, 2)
    count = context.input(0).shape.element_count
    if not inner or count % inner:
        raise node.error(f"{count} numbers for weights {[rows, inner]}")
    dimensions = DotDimensions((1,), (1,))
    activation = node.activation(0)
    if not node.is_quantized:
        x = b.reshape(context.input(0), [count // inner, inner])
        node.give(_with_bias(node, b.dot(x, _floats(node, 1), dimensions)), activation)
        return
    wide = _sum_type(node)
    x = b.reshape(quantized.without_zero(node, 0), [count // inner, inner])
    weights = b.convert(quantized.without_zero(node, 1), wide)
    sums = b.dot(b.convert(x, wide), weights, dimensions)
    scales = node.tensor(1).quantization.scales
    if len(scales) == 1:
        product = quantized.scale_of(node, node.tensor(0)) * quantized.scale_of(
            node, node.tensor(1)
        )
        factors = [factor_of(float(product) / float(quantized.scale_of(node, node.made)))]
    else:
        factors = quantized.channel_factors(node, node.tensor(1))
    _give_sums(node, _with_bias(node, sums), factors, activation)


def _pool(node: LiteNode) -> WindowShape:
    _require_rank(node, 0, 4)
    return _window(node, (node.number(4), node.number(3)), (node.number(2), node.number(1)), (1, 1))


@op("MAX_POOL_2D", domain=DOMAIN, inputs=1)
def max_pool_2d(context: OpKernelContext) -> None:
    """Give the greatest number of each window; quantized ones keep their scale."""
    node = LiteNode(context)
    shape, activation = _pool(node), node.activation(5)
    found = windows.max_pool(node.b, context.input(0), (1, 2), shape)
    if not node.is_quantized:
        node.give(found, activation)
        return
    low, high = quantized.bounds(node, activation)
    found = node.b.convert(found, ElementType.S32)
    found = node.b.maximum(node.b.minimum(found, high), low)
    node.give(node.b.convert(found, context.input(0).element_type))


@op("AVERAGE_POOL_2D", domain=DOMAIN, inputs=1)
def average_pool_2d(context: OpKernelContext) -> None:
    """Give the mean of each window, without padding; quantized halves go away from zero."""
    node, b = LiteNode(context), context.builder
    shape, activation = _pool(node), node.activation(5)
    if not node.is_quantized:
        node.give(windows.average_pool(b, context.input(0), (1, 2), shape), activation)
        return
    x = b.convert(context.input(0), ElementType.S32)
    step = b.scalar_computation(Opcode.ADD, ElementType.S32)
    zero = b.constant(0, ElementType.S32)
    window = shape.window((1, 2), 4)
    total = b.reduce_window(x, zero, step, window)
    count = b.reduce_window(ones_like(b, x), zero, step, window)
    half = count / 2
    found = b.select(total.gt(0), total + half, total - half) / count
    low, high = quantized.bounds(node, activation)
    found = b.maximum(b.minimum(found, high), low)
    node.give(b.convert(found, context.input(0).element_type))


@op("BATCH_MATMUL", domain=DOMAIN, inputs=2)
def batch_matmul(context: OpKernelContext) -> None:
    """Give products of matrices, each transposed or not; of floats only."""
    node, b = LiteNode(context), context.builder
    node.require_floats()
    x, y = [
        contraction.swapped(b, context.input(i)) if node.code(i) else context.input(i)
        for i in range(2)
    ]
    node.give(contraction.matmul(b, x, y))
