"""Pooling: the greatest number, the mean, or the root of the mean square of each window."""

from __future__ import annotations

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import windows
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.networks import sizes_of, window_of
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import Opcode
from lowtide.ir.element_type import ElementType


def _pool(node: LiteNode) -> WindowShape:
    image = sizes_of(node, 0, 4)[1:3]
    sizes, strides = (node.number(4), node.number(3)), (node.number(2), node.number(1))
    return window_of(node, image, sizes, strides, (1, 1))


@op("MAX_POOL_2D", domain=DOMAIN, inputs=1)
def max_pool_2d(context: OpKernelContext) -> None:
    """Give the greatest number of each window; quantized ones keep their scale."""
    node = LiteNode(context)
    shape, activation = _pool(node), node.activation(5)
    found = windows.max_pool(node.b, context.input(0), (1, 2), shape)
    if not node.is_quantized:
        node.give(found, activation)
        return
    node.give(_bounded(node, found, activation))


def _bounded(node: LiteNode, value: Op, activation: str) -> Op:
    """Quantized numbers within the bounds of an activation."""
    low, high = quantized.bounds(node, activation)
    return node.b.maximum(node.b.minimum(value, high), low)


@op("AVERAGE_POOL_2D", domain=DOMAIN, inputs=1)
def average_pool_2d(context: OpKernelContext) -> None:
    """Give the mean of each window, without padding; halves of integers go away from zero."""
    node, b = LiteNode(context), context.builder
    shape, activation = _pool(node), node.activation(5)
    if context.input(0).element_type.is_floating:
        node.give(windows.average_pool(b, context.input(0), (1, 2), shape), activation)
        return
    x = b.convert(context.input(0), ElementType.S32)
    total = _sums(b, x, shape)
    count = windows.elements_met(b, x, (1, 2), shape, total)
    half = count // 2 if isinstance(count, int) else count / 2
    found = b.select(total.gt(0), total + half, total - half) / count
    if node.is_quantized:
        found, activation = _bounded(node, found, activation), "NONE"
    node.give(b.convert(found, context.input(0).element_type), activation)


def _sums(b: Builder, x: Op, shape: WindowShape) -> Op:
    """The sums of windows; of those that lie side by side as one of an array cut into them.

    So no copy of the image has elements of four bytes: what widens them is part of the sum.
    """
    step = b.scalar_computation(Opcode.ADD, ElementType.S32)
    zero = b.constant(0, ElementType.S32)
    counts = [n // size for n, size in zip(x.dimensions[1:3], shape.sizes, strict=True)]
    if shape.strides != shape.sizes or any(map(any, shape.padding)) or 0 in counts:
        return b.reduce_window(x, zero, step, shape.window((1, 2), 4))
    batch, *image, channels = x.dimensions
    (rows, columns), (high, wide) = counts, shape.sizes
    if image != [rows * high, columns * wide]:
        limits = [batch, rows * high, columns * wide, channels]
        x = b.slice(x, [0] * 4, limits, [1] * 4)
    cut = b.reshape(x, [batch, rows, high, columns, wide, channels])
    return b.reduce(cut, zero, step, [2, 4])


@op("L2_POOL_2D", domain=DOMAIN, inputs=1)
def l2_pool_2d(context: OpKernelContext) -> None:
    """Give the root of the mean square of each window, without padding."""
    node, b = LiteNode(context), context.builder
    node.require_floats()
    x = context.input(0)
    mean = windows.average_pool(b, x * x, (1, 2), _pool(node))
    node.give(b.sqrt(mean), node.activation(5))
