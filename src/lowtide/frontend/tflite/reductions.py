"""Sums, means and other reductions along dimensions, norms, and normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import reductions
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.frontend.tflite.rounding import factor_of, scaled
from lowtide.ir.attributes import Window, WindowDimension
from lowtide.ir import Opcode
from lowtide.ir.element_type import ElementType

_REDUCTIONS: Final = {
    "REDUCE_ALL": "all",
    "REDUCE_ANY": "any",
    "REDUCE_MAX": "max",
    "REDUCE_MIN": "min",
    "REDUCE_PROD": "prod",
    "SUM": "sum",
}


@op("MEAN", *_REDUCTIONS, domain=DOMAIN, inputs=2)
def reduction(context: OpKernelContext) -> None:
    """Give sums, means and the like along dimensions, which stay as 1 where an option says so."""
    node, x = LiteNode(context), context.input(0)
    axes = sorted({context.axis(i, x.rank) for i in context.ints(1)})
    keep, name = bool(node.code(0)), context.node.op
    if node.is_quantized and name in ("MEAN", "SUM"):
        _quantized(node, axes, keep=keep)
        return
    if node.is_quantized:
        quantized.require_same(node, 1)
        if name == "REDUCE_PROD":
            node.require_floats()
    if name == "MEAN":
        node.give(reductions.mean(node.b, x, axes, keep=keep))
        return
    node.give(reductions.reduce(node.b, _REDUCTIONS[name], x, axes, keep=keep))


def _quantized(node: LiteNode, axes: Sequence[int], *, keep: bool) -> None:
    """Set the output to a mean or a sum of quantized numbers.

    The mean over height and width, and all of 16 bits, are reckoned in fixed point, others in
    floats; where scales are equal a mean is a quotient of integers.
    """
    x, given, made = node.context.input(0), node.tensor(0), node.made
    count = math.prod([x.dimensions[i] for i in axes])
    is_image = keep and x.rank == 4 and list(axes) == [1, 2]
    is_mean = node.context.node.op == "MEAN"
    same = quantized.scale_of(node, given) == quantized.scale_of(node, made)
    same = same and quantized.zero_of(given) == quantized.zero_of(made)
    if is_mean and is_image and given.type != "UINT8":
        _fixed_mean(node, axes, count)
    elif is_mean and is_image:
        _fixed_mean_unsigned(node, axes, count)
    elif is_mean and same:
        total = reductions.reduce(node.b, "sum", node.cast(x, ElementType.S32), axes, keep=keep)
        node.give(node.cast(total / count, x.element_type))
    else:
        _by_floats(node, axes, count, keep=keep)


def _fixed_mean(node: LiteNode, axes: Sequence[int], count: int) -> None:
    b = node.b
    x = quantized.without_zero(node, 0)
    total = reductions.reduce(b, "sum", x, axes, keep=True)
    total = scaled(b, total, [factor_of(quantized.ratio(node))])
    half = count // 2
    quantized.give(node, b.select(total.gt(0), total + half, total - half) / count)


def _fixed_mean_unsigned(node: LiteNode, axes: Sequence[int], count: int) -> None:
    b, given, made = node.b, node.tensor(0), node.made
    scales = [quantized.scale_of(node, y) for y in (given, made)]
    real = float(scales[0] / (np.float32(count) * scales[1]))
    bias = int(np.float32(quantized.zero_of(given)) * scales[0] / scales[1])
    total = reductions.reduce(b, "sum", node.cast(node.context.input(0), ElementType.S32), axes, keep=True)
    quantized.give(node, scaled(b, total, [factor_of(real)]) - bias)


def _by_floats(node: LiteNode, axes: Sequence[int], count: int, *, keep: bool) -> None:
    b, x = node.b, node.context.input(0)
    scale = quantized.scale_of(node, node.tensor(0)) / quantized.scale_of(node, node.made)
    is_mean = node.context.node.op == "MEAN"
    zero = np.float32(-quantized.zero_of(node.tensor(0))) * scale
    bias = zero if is_mean else zero * np.float32(count)
    total = reductions.reduce(b, "sum", node.cast(x, ElementType.S32), axes, keep=keep)
    real = b.convert(total, ElementType.F32)
    real = real / float(count) if is_mean else real
    found = b.convert(b.round_nearest_afz(real * float(scale) + float(bias)), ElementType.S32)
    quantized.give(node, found)


@op("L2_NORMALIZATION", domain=DOMAIN, inputs=1)
def l2_normalization(context: OpKernelContext) -> None:
    """Give vectors along the last dimension, each over its length."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    node.require_floats()
    length = b.sqrt(reductions.reduce(b, "sum", x * x, [x.rank - 1], keep=True))
    node.give(x / b.broadcast(b.reshape(b.maximum(length, 1e-6), x.dimensions[:-1]), x.dimensions, range(x.rank - 1)), node.activation(0))


@op("LOCAL_RESPONSE_NORMALIZATION", domain=DOMAIN, inputs=1)
def local_response_normalization(context: OpKernelContext) -> None:
    """Give numbers over a power of the squares of their neighbours along the last dimension."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    radius = node.number(0)
    window = [WindowDimension(1)] * (x.rank - 1)
    window.append(WindowDimension(2 * radius + 1, 1, radius, radius))
    step = b.scalar_computation(Opcode.ADD, x.element_type)
    total = b.reduce_window(x * x, b.constant(0, x.element_type), step, Window(tuple(window)))
    scale = total * node.real(2, 0.0) + node.real(1, 0.0)
    node.give(x * b.power(scale, -node.real(3, 0.0)))


def total_over(node: LiteNode, x: Op, axes: Sequence[int]) -> Op:
    """Return sums along dimensions."""
    return reductions.reduce(node.b, "sum", x, axes)
