"""Ops of com.microsoft that exporters write: fused layers and attention."""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, elementwise, windows
from lowtide.frontend.graphs.shared.broadcasting import expand, scalar
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import mean
from lowtide.frontend.onnx.attention import (
    Visibility,
    guarded_softmax,
    heads_first,
    heads_last,
    repeated_heads,
    visible,
)
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType

_PREFIX: Final = "com.microsoft."


@op(_PREFIX + "Gelu", domain=DOMAIN, inputs=1)
def gelu(context: OpKernelContext) -> None:
    """Give x Phi(x)."""
    context.set_output(0, elementwise.gelu(context.builder, context.input(0)))


@op(_PREFIX + "FastGelu", domain=DOMAIN, inputs=(1, 2))
def fast_gelu(context: OpKernelContext) -> None:
    """Give the approximation of gelu by tanh, of the input plus a bias."""
    context.set_output(0, elementwise.gelu_tanh(context.builder, _biased(context, 0, 1)))


@op(_PREFIX + "BiasGelu", domain=DOMAIN, inputs=2)
def bias_gelu(context: OpKernelContext) -> None:
    """Give gelu of the input plus a bias."""
    context.set_output(0, elementwise.gelu(context.builder, _biased(context, 0, 1)))


@op(_PREFIX + "QuickGelu", domain=DOMAIN, inputs=1)
def quick_gelu(context: OpKernelContext) -> None:
    """Give x sigmoid(alpha x)."""
    x = context.input(0)
    alpha = context.attribute("alpha", real, 1.702)
    context.set_output(0, x * context.builder.logistic(x * alpha))


def _biased(context: OpKernelContext, number: int, bias: int) -> Op:
    x, added = context.input(number), context.optional(bias)
    return x if added is None else x + expand(context.builder, added, x.dimensions)


@op(_PREFIX + "FusedMatMul", domain=DOMAIN, inputs=2)
def fused_matmul(context: OpKernelContext) -> None:
    """Give alpha times the product of matrices, transposed or not."""
    b = context.builder
    values = []
    for i, letter in enumerate("AB"):
        if context.attribute(f"transBatch{letter}", flag, False):
            raise context.error(f"transBatch{letter} is not supported; write a Transpose before it")
        is_swapped = context.attribute(f"trans{letter}", flag, False)
        x = context.input(i)
        values.append(contraction.swapped(b, x) if is_swapped and x.rank > 1 else x)
    product = contraction.matmul(b, *values)
    context.set_output(0, product * context.attribute("alpha", real, 1.0))


@op(
    _PREFIX + "SkipLayerNormalization",
    _PREFIX + "SkipSimplifiedLayerNormalization",
    domain=DOMAIN,
    inputs=(3, 5),
)
def skip_layer_normalization(context: OpKernelContext) -> None:
    """Give the sum of two inputs normalized along the last dimension; the sum is output 3."""
    b = context.builder
    is_simple = "Simplified" in context.node.op
    total = _biased(context, 0, 1)
    bias = context.optional(3 if is_simple else 4)
    if bias is not None:
        total = total + expand(b, bias, total.dimensions)
    epsilon = context.attribute("epsilon", real, 1e-12)
    axes = [total.rank - 1]
    if is_simple:
        square = mean(b, total * total, axes, keep=True)
        center, inverse = square, b.rsqrt(square + epsilon)
        result = total * inverse
    else:
        result, center, inverse = windows.normalized(b, total, axes, epsilon)
    offset = None if is_simple else context.optional(3)
    context.set_outputs(
        [windows.scaled(b, result, context.input(2), offset), center, inverse, total]
    )


@op(_PREFIX + "MultiHeadAttention", domain=DOMAIN, inputs=(1, 8))
def multi_head_attention(context: OpKernelContext) -> None:
    """Give attention of [n, length, heads * size], and the cache of keys and values."""
    b = context.builder
    count = context.attribute("num_heads", integer)
    if not context.has_input(1) or context.input(0).rank != 3 or context.input(1).rank == 5:
        raise context.error("packed queries, keys and values are not supported: give three inputs")
    parts = [context.input(i) for i in range(3)]
    bias = context.optional(3)
    if bias is not None:
        starts = np.cumsum([0, *[x.dimensions[-1] for x in parts]]).tolist()
        pieces = [b.slice(bias, [i], [j], [1]) for i, j in itertools.pairwise(starts)]
        parts = [
            x + expand(b, y, x.dimensions) if x.rank == 3 else x
            for x, y in zip(parts, pieces, strict=True)
        ]
    q, k, v = [heads_first(b, x, count) if x.rank == 3 else x for x in parts]
    past = 0
    if context.has_input(6):
        past = context.input(6).dimensions[2]
        k = b.concatenate([context.input(6), k], 2)
        v = b.concatenate([context.input(7), v], 2)
    scale = context.attribute("scale", real, 0.0) or 1 / math.sqrt(q.dimensions[3])
    scores = b.matmul(q, b.transpose(k, [0, 1, 3, 2])) * scale
    added = context.optional(5)
    if added is not None:
        scores = scores + expand(b, added, scores.dimensions)
    kept = _padding(context, scores)
    if context.attribute("unidirectional", flag, False):
        seen = visible(b, scores.dimensions, Visibility(past, -1, 0))
        kept = seen if kept is None or seen is None else kept & seen
    y = b.matmul(_weights(context, scores, kept), v)
    context.set_outputs([heads_last(b, y), k, v])


def _padding(context: OpKernelContext, scores: Op) -> Op | None:
    """Whether each key counts, by lengths [n] or marks [n, keys] or [n, queries, keys]."""
    b, mask = context.builder, context.optional(4)
    if mask is None:
        return None
    sizes = scores.dimensions
    if mask.rank == 1:
        positions = b.iota(array_shape(mask.element_type, sizes), 3)
        return positions.lt(b.broadcast(mask, sizes, [0]))
    if mask.dimensions[-1] != sizes[3] or mask.rank > 3:
        raise context.error(
            f"key_padding_mask {mask.shape.text(layout=False)} does not fit {sizes}"
        )
    return b.broadcast(mask.ne(0), sizes, [0, 3] if mask.rank == 2 else [0, 2, 3])


def _weights(context: OpKernelContext, scores: Op, kept: Op | None) -> Op:
    b = context.builder
    if kept is None:
        return guarded_softmax(b, scores, None)
    zero, least = [b.broadcast(scalar(b, x, scores), scores.dimensions, []) for x in (0, -math.inf)]
    bias = b.select(kept, zero, least)
    return guarded_softmax(b, scores + bias, bias)


@op(_PREFIX + "GroupQueryAttention", domain=DOMAIN, inputs=(7, 9))
def group_query_attention(context: OpKernelContext) -> None:
    """Give causal attention whose new keys and values are written to a cache at lengths of its own.

    The lengths, input 5, are those of the whole sequences less one.
    """
    b = context.builder
    heads, kv_heads = [context.attribute(k, integer) for k in ("num_heads", "kv_num_heads")]
    if not context.has_input(1) or not context.has_input(3):
        raise context.error("packed inputs, and calls without a cache, are not supported")
    q = heads_first(b, context.input(0), heads)
    k, v = [heads_first(b, context.input(i), kv_heads) for i in (1, 2)]
    batch, length = q.dimensions[0], q.dimensions[2]
    lasts = b.convert(b.reshape(context.input(5), [batch]), ElementType.S64)
    starts = lasts + (1 - length)
    if context.attribute("do_rotary", flag, False):
        q, k = _rotated(context, q, starts), _rotated(context, k, starts)
    room = max(context.input(3).dimensions[2], context.one_int(6))
    keys, values = [_written(context, i, x, starts, room) for i, x in ((3, k), (4, v))]
    scale = context.attribute("scale", real, 0.0) or 1 / math.sqrt(q.dimensions[3])
    wide = repeated_heads(b, keys, heads)
    scores = b.matmul(q, b.transpose(wide, [0, 1, 3, 2])) * scale
    cap = context.attribute("softcap", real, 0.0)
    if cap:
        scores = b.tanh(scores / cap) * cap
    window = context.attribute("local_window_size", integer, -1)
    left = window - 1 if window > 0 else -1
    seen = visible(b, scores.dimensions, Visibility(starts, left, 0))
    y = b.matmul(_weights(context, scores, seen), repeated_heads(b, values, heads))
    context.set_outputs([heads_last(b, y), keys, values])


def _written(context: OpKernelContext, number: int, new: Op, starts: Op, room: int) -> Op:
    """A cache [n, heads, room, size] with new entries from a place of each batch on."""
    b, cache = context.builder, context.input(number)
    if cache.dimensions[2] < room:
        padding = [(0, 0), (0, 0), (0, room - cache.dimensions[2]), (0, 0)]
        cache = b.pad(cache, scalar(b, 0, cache), padding)
    sizes = cache.dimensions
    length = new.dimensions[2]
    place = b.iota(array_shape(ElementType.S64, sizes), 2) - b.broadcast(starts, sizes, [0])
    spread = b.pad(new, scalar(b, 0, new), [(0, 0), (0, 0), (0, sizes[2] - length), (0, 0)])
    if length == 1:
        spread = b.broadcast(b.reshape(new, [*sizes[:2], sizes[3]]), sizes, [0, 1, 3])
    else:
        spread = _moved(context, spread, starts)
    is_new = place.ge(0) & place.lt(length)
    return b.select(is_new, spread, cache)


def _moved(context: OpKernelContext, x: Op, starts: Op) -> Op:
    """X [n, heads, room, size] moved by a number of places for each entry of the batch."""
    b = context.builder
    n, heads, room, size = x.dimensions
    parts = []
    for i in range(n):
        own = b.slice(x, [i, 0, 0, 0], [i + 1, heads, room, size], [1] * 4)
        twice = b.concatenate([own, own], 2)
        start = b.subtract(room, b.reshape(b.slice(starts, [i], [i + 1], [1]), []))
        zero = b.constant(0, ElementType.S64)
        parts.append(b.dynamic_slice(twice, [zero, zero, start, zero], [1, heads, room, size]))
    return parts[0] if n == 1 else b.concatenate(parts, 0)


def _rotated(context: OpKernelContext, x: Op, starts: Op) -> Op:
    """X [n, heads, length, size] turned by the angles of its places; halves or pairs are turned."""
    b = context.builder
    n, heads, length, size = x.dimensions
    place = b.iota(array_shape(ElementType.S64, (n, length)), 1) + b.broadcast(
        starts, [n, length], [0]
    )
    tables = [take(b, context.input(i), place, 0) for i in (7, 8)]
    half = tables[0].dimensions[2]
    cos, sin = [b.broadcast(t, [n, heads, length, half], [0, 2, 3]) for t in tables]
    turned = 2 * half
    if context.attribute("rotary_interleaved", flag, False):
        pairs = b.reshape(
            b.slice(x, [0] * 4, [n, heads, length, turned], [1] * 4), [n, heads, length, half, 2]
        )
        first, second = [
            b.reshape(
                b.slice(pairs, [0, 0, 0, 0, i], [n, heads, length, half, i + 1], [1] * 5),
                cos.dimensions,
            )
            for i in range(2)
        ]
        both = [
            b.reshape(y, [*cos.dimensions, 1])
            for y in (first * cos - second * sin, first * sin + second * cos)
        ]
        found = b.reshape(b.concatenate(both, 4), [n, heads, length, turned])
    else:
        first, second = [
            b.slice(x, [0, 0, 0, i * half], [n, heads, length, (i + 1) * half], [1] * 4)
            for i in range(2)
        ]
        found = b.concatenate([first * cos - second * sin, first * sin + second * cos], 3)
    if turned == size:
        return found
    rest = b.slice(x, [0, 0, 0, turned], [n, heads, length, size], [1] * 4)
    return b.concatenate([found, rest], 3)
