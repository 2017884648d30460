"""Attention of com.microsoft whose queries share keys and values, which a cache keeps."""

from __future__ import annotations

import math
from typing import Final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.arrays import split
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import mean, reduce
from lowtide.frontend.onnx.attention import (
    Visibility,
    heads_first,
    heads_last,
    repeated_heads,
    visible,
)
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.rotary import turned
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType

_PREFIX: Final = "com.microsoft."
_UNKNOWN: Final = {12: "a quantized cache", 13: "a quantized cache", 16: "query_seqlens"}
"""Inputs by number that are refused, and what they stand for."""


@op(_PREFIX + "GroupQueryAttention", domain=DOMAIN, inputs=(7, 17))
def group_query_attention(context: OpKernelContext) -> None:
    """Give attention whose new keys and values are written to a cache at lengths of its own.

    The lengths, input 5, are those of the whole sequences less one.
    """
    b = context.builder
    _refuse(context)
    q, k, v = _three(context)
    batch, length = q.dimensions[0], q.dimensions[2]
    lasts = b.convert(b.reshape(context.input(5), [batch]), ElementType.S64)
    zero = b.broadcast(b.constant(0, ElementType.S64), [batch], [])
    starts = b.maximum(lasts + (1 - length), zero)
    q, k = [_normalized(context, x, i) for x, i in ((q, 14), (k, 15))]
    if context.attribute("do_rotary", flag, False):
        q, k = _rotated(context, q, starts), _rotated(context, k, starts)
    keys, values = k, v
    if context.has_input(3):
        room = max(context.input(3).dimensions[2], context.one_int(6))
        keys, values = [_written(context, i, x, starts, room) for i, x in ((3, k), (4, v))]
    shares, scores = _shares(context, q, keys, starts)
    y = b.matmul(shares, repeated_heads(b, values, q.dimensions[1]))
    results = [heads_last(b, y), keys, values]
    kind = context.attribute("qk_output", integer, 0)
    if kind:
        shown = scores if kind == 1 else shares
        limits = [*shown.dimensions[:3], context.one_int(6)]
        results.append(b.slice(shown, [0] * 4, limits, [1] * 4))
    context.set_outputs(results)


def _refuse(context: OpKernelContext) -> None:
    for number, what in _UNKNOWN.items():
        if context.has_input(number):
            raise context.error(f"{what} is not supported")
    if context.attribute("sliding_window_cache", flag, False):
        raise context.error("sliding_window_cache is not supported")


def _three(context: OpKernelContext) -> list[Op]:
    """Queries, keys and values [n, heads, length, size], of three inputs or one."""
    b = context.builder
    heads, kv_heads = [context.attribute(k, integer) for k in ("num_heads", "kv_num_heads")]
    if context.has_input(1):
        flat = [context.input(i) for i in range(3)]
    else:
        packed = context.input(0)
        size = packed.dimensions[2] // (heads + 2 * kv_heads)
        flat = split(b, packed, [n * size for n in (heads, kv_heads, kv_heads)], 2)
    counts = (heads, kv_heads, kv_heads)
    return [heads_first(b, x, n) for x, n in zip(flat, counts, strict=True)]


def _normalized(context: OpKernelContext, x: Op, number: int) -> Op:
    """X divided by the root of the mean of its squares, times an input, where it is given."""
    b, weight = context.builder, context.optional(number)
    if weight is None:
        return x
    name = "q_norm_epsilon" if number == 14 else "k_norm_epsilon"
    usual = context.attribute("qk_norm_epsilon", real, 1e-6)
    square = mean(b, x * x, [3], keep=True)
    inverse = b.rsqrt(square + context.attribute(name, real, usual))
    return x * inverse * along(b, weight, 3, x.dimensions)


def _rotated(context: OpKernelContext, x: Op, starts: Op) -> Op:
    """X [n, heads, length, size] turned by the angles of its places."""
    b = context.builder
    n, _, length, _ = x.dimensions
    sizes = (n, length)
    places = b.iota(array_shape(ElementType.S64, sizes), 1)
    if context.has_input(9):
        places = expand(b, context.input(9), sizes)
    else:
        places = places + b.broadcast(starts, sizes, [0])
    tables = [take(b, context.input(i), places, 0) for i in (7, 8)]
    return turned(b, x, *tables, interleaved=context.attribute("rotary_interleaved", flag, False))


def _shares(context: OpKernelContext, q: Op, keys: Op, starts: Op) -> tuple[Op, Op]:
    """What each key counts for a query [n, heads, queries, keys], and the scores before.

    Scores of what a query does not see are 0, as ONNX Runtime shows them.
    """
    b = context.builder
    scale = context.attribute("scale", real, 0.0) or 1 / math.sqrt(q.dimensions[3])
    wide = repeated_heads(b, keys, q.dimensions[1])
    scores = b.matmul(q, b.transpose(wide, [0, 1, 3, 2])) * scale
    sizes = scores.dimensions
    cap = context.attribute("softcap", real, 0.0)
    if cap:
        scores = b.tanh(scores / cap) * cap
    if context.has_input(10):
        scores = scores + _added(context, sizes)
    window = context.attribute("local_window_size", integer, -1)
    left = window - 1 if window > 0 else -1
    right = 0 if context.attribute("causal", flag, True) else -1
    seen = visible(b, sizes, Visibility(starts, left, right))
    if seen is None:
        ends = starts + q.dimensions[2]
        places = b.iota(array_shape(ElementType.S64, sizes), 3)
        seen = places.lt(b.broadcast(ends, sizes, [0]))
    least, nothing = [b.broadcast(scalar(b, x, scores), sizes, []) for x in (-math.inf, 0.0)]
    shares = _softmax(context, b.select(seen, scores, least))
    return shares, b.select(seen, scores, nothing)


def _added(context: OpKernelContext, sizes: tuple[int, ...]) -> Op:
    """What is added to scores; it may end before the cache does."""
    b, given = context.builder, context.input(10)
    short = sizes[3] - given.dimensions[3]
    if short > 0:
        given = b.pad(given, scalar(b, 0, given), [(0, 0)] * 3 + [(0, short)])
    return expand(b, given, sizes)


def _softmax(context: OpKernelContext, scores: Op) -> Op:
    """The softmax over keys, in whose sum a number of each head, or 0, may take part as well."""
    b, sizes = context.builder, scores.dimensions
    top = reduce(b, "max", scores, [3], keep=True)
    sink: Op | None = None
    if context.has_input(11):
        sink = along(b, context.input(11), 1, top.dimensions)
    elif context.attribute("smooth_softmax", flag, False):
        sink = b.broadcast(scalar(b, 0, scores), top.dimensions, [])
    if sink is not None:
        top = b.maximum(top, sink)
    powers = b.exponential(scores - expand(b, top, sizes))
    total = reduce(b, "sum", powers, [3], keep=True)
    if sink is not None:
        total = total + b.exponential(sink - top)
    return powers / expand(b, total, sizes)


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
