"""Sums, means and other reductions along dimensions, norms, and normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import name_table, op
from lowtide.frontend.graphs.shared import reductions
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.tflite import fixed_point, quantized
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.frontend.tflite.rounding import factor_of, over_count, scaled
from lowtide.ir import Opcode
from lowtide.ir.attributes import Window, WindowDimension
from lowtide.ir.element_type import ElementType

_REDUCTIONS: Final = name_table(
    """
    REDUCE_ALL=all REDUCE_ANY=any REDUCE_MAX=max REDUCE_MIN=min REDUCE_PROD=prod SUM=sum
    """
)


_LEAST_LENGTH: Final = 1e-6


@op("MEAN", *_REDUCTIONS, domain=DOMAIN, inputs=2)
def reduction(context: OpKernelContext) -> None:
    """Give sums, means and the like along dimensions, which stay as 1 where an option says so."""
    node, x = LiteNode(context), context.input(0)
    axes = sorted({context.axis(i, x.rank) for i in context.ints(1)})
    keep, name = bool(node.code(0)), context.node.op
    is_empty = not math.prod([x.dimensions[i] for i in axes])
    if name == "MEAN" and is_empty and not x.element_type.is_floating:
        raise node.error(f"the mean of no numbers, of {x.shape}, is no integer")
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
    """Set the output to a mean, in fixed point, or to a sum, by floats, of quantized numbers."""
    b, x = node.b, node.context.input(0)
    count = math.prod([x.dimensions[i] for i in axes])
    total = reductions.reduce(b, "sum", node.cast(x, ElementType.S32), axes, keep=keep)
    zero = quantized.zero_of(node.tensor(0))
    if node.context.node.op == "MEAN":
        factor = over_count(factor_of(quantized.ratio(node)), count)
        quantized.give(node, scaled(b, total - zero * count, [factor]))
        return
    scale = quantized.scale_of(node, node.tensor(0)) / quantized.scale_of(node, node.made)
    bias = np.float32(-zero) * scale * np.float32(count)
    real = b.convert(total, ElementType.F32) * float(scale) + float(bias)
    quantized.give(node, b.convert(b.round_nearest_afz(real), ElementType.S32))


@op("L2_NORMALIZATION", domain=DOMAIN, inputs=1)
def l2_normalization(context: OpKernelContext) -> None:
    """Give vectors along the last dimension, each over its length."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    if node.is_quantized:
        _quantized_direction(node)
        return
    length = b.sqrt(reductions.reduce(b, "sum", x * x, [x.rank - 1], keep=True))
    shown = expand(b, b.maximum(length, _LEAST_LENGTH), x.dimensions)
    node.give(x / shown, node.activation(0))


def _quantized_direction(node: LiteNode) -> None:
    """Give vectors of 8 bits over their length, in steps of 1/128."""
    b, type_ = node.b, node.tensor(0).type
    if type_ != "INT8":
        raise node.refusal(f"it is quantized to {type_}")
    if quantized.scale_of(node, node.made) != _STEP or quantized.zero_of(node.made):
        raise node.refusal("the result is not in steps of 1/128 from 0 on")
    x = quantized.without_zero(node, 0)
    total = reductions.reduce(b, "sum", x * x, [x.rank - 1], keep=True)
    inverse, shift = fixed_point.inverse_root(b, b.convert(total, ElementType.S64))
    inverse, right = (expand(b, v, x.dimensions) for v in (inverse, shift - _STEP_BITS))
    wide = b.shift_left(b.convert(x, ElementType.S64), b.maximum(-right, 0))
    found = fixed_point.product(b, wide, inverse)
    found = fixed_point.shifted_right(b, found, b.maximum(right, 0))
    quantized.give(node, b.convert(found, ElementType.S32), node.activation(0))


_STEP_BITS: Final = 7
_STEP: Final = 1 / (1 << _STEP_BITS)


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
