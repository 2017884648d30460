"""Recurrent layers of quantized numbers, whose state is of 16 bits."""

from __future__ import annotations

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import QUANTIZED, LiteNode
from lowtide.frontend.tflite.rounding import factor_of, scaled
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType

_TYPES = ("INT8", "INT8", "INT16", "INT32", "INT16")
"""Types of x, the weights of features and of time, bias and state."""


def moved_on(b: Builder, state: Op, features: Op, memory: int) -> Op:
    """Return a state [n, filters, memory] in which the oldest numbers gave way to features."""
    batch, filters = features.dimensions
    kept = b.reshape(state, [batch, filters, memory])
    kept = b.slice(kept, [0, 0, 1], [batch, filters, memory], [1, 1, 1])
    return b.concatenate([kept, b.reshape(features, [batch, filters, 1])], 2)


def quantized_svdf(node: LiteNode) -> None:
    """Give features of 8 bits filtered over time; inputs and results are as of floats.

    TFLite's kernel takes the activation RELU only, and leaves it to the zero point of the result.
    """
    context, b, wide = node.context, node.b, ElementType.S32
    has_bias = context.optional(3) is not None
    found = [node.tensor(i).type for i in range(5) if i != 3 or has_bias]
    if found != [x for i, x in enumerate(_TYPES) if i != 3 or has_bias]:
        raise node.refusal(f"types {', '.join(found)}; known are {', '.join(_TYPES)}")
    if (activation := node.activation(1)) != "RELU":
        raise node.refusal(f"quantized activation {activation}; known is RELU")
    scales = [float(quantized.scale_of(node, node.tensor(i))) for i in (0, 1, 2, 4)]
    x, time, state = quantized.without_zero(node, 0), context.input(2), context.input(4)
    products = b.dot(x, b.convert(context.input(1), wide), DotDimensions((1,), (1,)))
    features = scaled(b, products, [factor_of(scales[0] * scales[1] / scales[3])])
    low, high = QUANTIZED["INT16"]
    features = b.convert(b.maximum(b.minimum(features, high), low), state.element_type)
    rank, (filters, memory) = max(node.number(0), 1), time.dimensions
    held = moved_on(b, state, features, memory)
    weights = b.broadcast(b.convert(time, wide), held.dimensions, [1, 2])
    total = reduce(b, "sum", b.convert(held, wide) * weights, [2])
    sums = reduce(b, "sum", b.reshape(total, [x.dimensions[0], filters // rank, rank]), [2])
    bias = context.optional(3)
    sums = sums if bias is None else sums + along(b, bias, 1, sums.dimensions)
    over = float(quantized.scale_of(node, node.made))
    quantized.give_scaled(node, sums, scales[3] * scales[2] / over)
    node.give(b.reshape(held, state.dimensions))
