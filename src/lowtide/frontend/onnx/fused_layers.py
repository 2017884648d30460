"""Layers that ONNX Runtime's optimizer fuses with what follows or comes before them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, elementwise, windows
from lowtide.frontend.graphs.shared.arrays import split
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.onnx.attention import guarded_softmax, heads_first, heads_last
from lowtide.frontend.onnx.networks import convolved
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType

_PREFIX: Final = "com.microsoft."

_ACTIVATIONS: Final[dict[str, Callable[[Builder, Op, Sequence[float]], Op]]] = {
    "Relu": lambda b, x, _: elementwise.relu(b, x),
    "Tanh": lambda b, x, _: b.tanh(x),
    "Sigmoid": lambda b, x, _: b.logistic(x),
    "LeakyRelu": lambda b, x, p: elementwise.leaky_relu(b, x, p[0] if p else 0.01),
    "Clip": lambda b, x, p: b.clamp(
        b.constant(p[0], x.element_type), x, b.constant(p[1], x.element_type)
    ),
    "HardSigmoid": lambda b, x, p: elementwise.hard_sigmoid(b, x, *(p or (0.2, 0.5))),
}


def activated(context: OpKernelContext, x: Op) -> Op:
    """Return x as the attributes `activation` and `activation_params` say."""
    name = context.choice("activation", {"": "", **{k: k for k in _ACTIVATIONS}}, "")
    if not name:
        return x
    numbers = [float(v) for v in context.attribute("activation_params", list, [])]
    return _ACTIVATIONS[name](context.builder, x, numbers)


@op(_PREFIX + "FusedConv", domain=DOMAIN, inputs=(2, 4))
def fused_conv(context: OpKernelContext) -> None:
    """Give the convolution plus a number for each channel, plus another image, activated."""
    found = convolved(context, context.input(0), context.input(1))
    bias, added = context.optional(2), context.optional(3)
    if bias is not None:
        found = found + along(context.builder, bias, 1, found.dimensions)
    context.set_output(0, activated(context, found if added is None else found + added))


@op(_PREFIX + "FusedGemm", domain=DOMAIN, inputs=(2, 3))
def fused_gemm(context: OpKernelContext) -> None:
    """Give alpha A B + beta C, activated; A and B are transposed or not."""
    b = context.builder
    x, y = [
        contraction.swapped(b, value) if context.attribute(name, flag, False) else value
        for value, name in ((context.input(0), "transA"), (context.input(1), "transB"))
    ]
    found = b.matmul(x, y) * context.attribute("alpha", real, 1.0)
    bias = context.optional(2)
    if bias is not None:
        found = found + expand(b, bias, found.dimensions) * context.attribute("beta", real, 1.0)
    context.set_output(0, activated(context, found))


@op(_PREFIX + "EmbedLayerNormalization", domain=DOMAIN, inputs=(7, 9))
def embed_layer_normalization(context: OpKernelContext) -> None:
    """Give the normalized sum of embeddings of words, positions and segments, and lengths."""
    b, words = context.builder, context.input(0)
    n, length = words.dimensions
    total = take(b, context.input(2), words, 0)
    positions = context.optional(8)
    if positions is None:
        positions = b.iota(array_shape(words.element_type, (1, length)), 1)
    total = total + expand(b, take(b, context.input(3), positions, 0), total.dimensions)
    if context.has_input(1) and context.has_input(4):
        total = total + take(b, context.input(4), context.input(1), 0)
    epsilon = context.attribute("epsilon", real, 1e-12)
    result, _, _ = windows.normalized(b, total, [2], epsilon)
    mask = context.optional(7)
    if mask is None:
        lengths = b.broadcast(b.constant(0, ElementType.S32), [n], [])
    else:
        lengths = reduce(b, "sum", b.convert(mask, ElementType.S32), [1])
    found = windows.scaled(b, result, context.input(5), context.input(6))
    context.set_outputs([found, lengths, total])


@op(_PREFIX + "Attention", domain=DOMAIN, inputs=(2, 7))
def packed_attention(context: OpKernelContext) -> None:
    """Give attention of x [n, length, width], whose queries, keys and values one product makes."""
    b, x = context.builder, context.input(0)
    if context.has_input(4) or context.has_input(6):
        raise context.error("a cache is not supported: give keys and values to MultiHeadAttention")
    heads = context.attribute("num_heads", integer)
    packed = contraction.matmul(b, x, context.input(1))
    bias = context.optional(2)
    if bias is not None:
        packed = packed + expand(b, bias, packed.dimensions)
    width = packed.dimensions[2] // 3
    widths = context.attribute("qkv_hidden_sizes", list, []) or [width] * 3
    q, k, v = [heads_first(b, y, heads) for y in split(b, packed, widths, 2)]
    scale = context.attribute("scale", real, 0.0) or 1 / math.sqrt(q.dimensions[3])
    scores = b.matmul(q, b.transpose(k, [0, 1, 3, 2])) * scale
    added = context.optional(5)
    if added is not None:
        scores = scores + expand(b, added, scores.dimensions)
    context.set_output(0, heads_last(b, b.matmul(_attended(context, scores), v)))


def _attended(context: OpKernelContext, scores: Op) -> Op:
    b, mask = context.builder, context.optional(3)
    sizes = scores.dimensions
    kept: Op | None = None
    if mask is not None and mask.rank == 1:
        if mask.dimensions != (sizes[0],):
            raise context.error("mask_index has to have a length for each entry of the batch")
        place = b.iota(array_shape(mask.element_type, sizes), 3)
        kept = place.lt(b.broadcast(mask, sizes, [0]))
    elif mask is not None:
        if mask.rank > 3:
            raise context.error("a mask of four dimensions is not supported")
        kept = b.broadcast(mask.ne(0), sizes, [0, 3] if mask.rank == 2 else [0, 2, 3])
    if context.attribute("unidirectional", flag, False):
        row, column = [b.iota(array_shape(ElementType.S32, sizes), i) for i in (2, 3)]
        seen = column.le(row)
        kept = seen if kept is None else kept & seen
    if kept is None:
        return guarded_softmax(b, scores, None)
    least = context.attribute("mask_filter_value", real, -10000.0)
    zero, low = [b.broadcast(scalar(b, v, scores), sizes, []) for v in (0, least)]
    return guarded_softmax(b, scores + b.select(kept, zero, low), None)


@op(_PREFIX + "RotaryEmbedding", domain=DOMAIN, inputs=4)
def rotary_embedding(context: OpKernelContext) -> None:
    """Give pairs of numbers turned by the angles of their positions."""
    b, x = context.builder, context.input(0)
    heads = context.attribute("num_heads", integer, 0)
    rotary = context.attribute("rotary_embedding_dim", integer, 0)
    if rotary:
        raise context.error("rotary_embedding_dim is not supported: turn whole heads")
    half = context.input(2).dimensions[1]
    is_flat = x.rank == 3
    if is_flat:
        x = heads_first(b, x, heads or x.dimensions[2] // (2 * half))
    n, heads, length, size = x.dimensions
    positions = context.input(1)
    if positions.shape.element_count == 1:
        start = b.broadcast(b.reshape(positions, []), [n, length], [])
        positions = start + b.iota(array_shape(positions.element_type, (n, length)), 1)
    sizes = [n, heads, length, half]
    cos, sin = [
        b.broadcast(take(b, context.input(i), positions, 0), sizes, [0, 2, 3]) for i in (2, 3)
    ]
    if context.attribute("interleaved", flag, False):
        pairs = b.reshape(x, [n, heads, length, half, 2])
        parts = [b.reshape(y, sizes) for y in split(b, pairs, [1, 1], 4)]
    else:
        parts = split(b, x, [half, half], 3)
    turned = [parts[0] * cos - parts[1] * sin, parts[0] * sin + parts[1] * cos]
    if context.attribute("interleaved", flag, False):
        wide = [b.reshape(y, [*sizes, 1]) for y in turned]
        found = b.reshape(b.concatenate(wide, 4), [n, heads, length, size])
    else:
        found = b.concatenate(turned, 3)
    context.set_output(0, heads_last(b, found) if is_flat else found)
