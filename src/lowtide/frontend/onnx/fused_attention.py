"""Attention of com.microsoft, of one product or of three inputs, with masks and caches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.graphs.shared.arrays import split
from lowtide.frontend.graphs.shared.broadcasting import expand, scalar
from lowtide.frontend.graphs.shared.narrow import saturated
from lowtide.frontend.onnx.attention import (
    Visibility,
    guarded_softmax,
    heads_first,
    heads_last,
    visible,
)
from lowtide.frontend.onnx.dynamic_quantization import by_columns, integer_product
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

_PREFIX: Final = "com.microsoft."


@dataclass(frozen=True, slots=True)
class Hiding:
    """What hides keys: the input that is a mask, what is added to scores, and keys of a cache."""

    mask: Op | None
    added: Op | None
    past: int


@op(_PREFIX + "Attention", domain=DOMAIN, inputs=(2, 7))
def packed_attention(context: OpKernelContext) -> None:
    """Give attention of x [n, length, width], whose queries, keys and values one product makes."""
    packed = contraction.matmul(context.builder, context.input(0), context.input(1))
    _packed(context, _biased(context, packed, 2), (3, 4, 5))


@op(_PREFIX + "QAttention", domain=DOMAIN, inputs=(5, 9))
def quantized_attention(context: OpKernelContext) -> None:
    """Give attention of floats whose queries, keys and values a product of integers makes."""
    b = context.builder
    product = integer_product(
        b, context.input(0), context.optional(6), context.input(1), context.optional(7)
    )
    scales = [by_columns(b, context.input(i), product) for i in (3, 4)]
    packed = product * (scales[0] * scales[1])
    _packed(context, _biased(context, packed, 2), (5, 8, None))


def _biased(context: OpKernelContext, x: Op, number: int) -> Op:
    bias = context.optional(number)
    return x if bias is None else x + expand(context.builder, bias, x.dimensions)


def _packed(context: OpKernelContext, packed: Op, numbers: tuple[int, int, int | None]) -> None:
    """Give attention and the cache; `numbers` are the inputs mask, cache and what is added."""
    b, (mask, cache, added) = context.builder, numbers
    for name in ("do_rotary", "past_present_share_buffer"):
        if context.attribute(name, flag, False):
            raise context.error(f"{name} is not supported")
    heads = context.attribute("num_heads", integer)
    width = packed.dimensions[2] // 3
    widths = context.attribute("qkv_hidden_sizes", list, []) or [width] * 3
    q, k, v = [heads_first(b, y, heads) for y in split(b, packed, widths, 2)]
    past = context.optional(cache)
    if past is not None:
        sizes = past.dimensions[1:]
        old = [b.reshape(y, sizes) for y in split(b, past, [1, 1], 0)]
        k, v = [b.concatenate([x, y], 2) for x, y in zip(old, (k, v), strict=True)]
    hiding = Hiding(
        context.optional(mask),
        context.optional(added) if added is not None else None,
        0 if past is None else past.dimensions[3],
    )
    y = b.matmul(guarded_softmax(b, _scores(context, q, k, hiding), None), v)
    results = [heads_last(b, y)]
    if len(context.node.outputs) > 1:
        whole = [b.reshape(x, [1, *x.dimensions]) for x in (k, v)]
        results.append(b.concatenate(whole, 0))
    context.set_outputs(results)


@op(_PREFIX + "MultiHeadAttention", domain=DOMAIN, inputs=(1, 10))
def multi_head_attention(context: OpKernelContext) -> None:
    """Give attention of [n, length, heads * size], the cache of keys and values, and the scores."""
    b = context.builder
    if context.has_input(8) or context.has_input(9):
        raise context.error("a cache of a fixed length and the search by beams are not supported")
    q, k, v = _three(context)
    past = 0
    if context.has_input(6):
        past = context.input(6).dimensions[2]
        k = b.concatenate([context.input(6), k], 2)
        v = b.concatenate([context.input(7), v], 2)
    scores = _scores(context, q, k, Hiding(context.optional(4), context.optional(5), past))
    y = b.matmul(guarded_softmax(b, scores, None), v)
    context.set_outputs([heads_last(b, y), k, v, scores])


def _three(context: OpKernelContext) -> list[Op]:
    """Queries, keys and values [n, heads, length, size], of one, two or three inputs."""
    b, count = context.builder, context.attribute("num_heads", integer)
    packed = context.input(0) if not context.has_input(1) else context.input(1)
    if packed.rank == 5:
        n, length, heads, parts, size = packed.dimensions
        found = [b.reshape(x, [n, length, heads * size]) for x in split(b, packed, [1] * parts, 3)]
        values = found if parts == 3 else [context.input(0), *found]
    elif not context.has_input(1):
        raise context.error(f"{packed.shape.text(layout=False)} has no queries, keys and values")
    else:
        values = [context.input(i) for i in range(3)]
    bias = context.optional(3)
    if bias is not None:
        values = _with_bias(context, values, bias)
    return [heads_first(b, x, count) if x.rank == 3 else x for x in values]


def _with_bias(context: OpKernelContext, values: Sequence[Op], bias: Op) -> list[Op]:
    """The values plus their parts of a bias; keys and values by heads have theirs already."""
    b = context.builder
    widths = [x.dimensions[2] if x.rank == 3 else x.dimensions[1] * x.dimensions[3] for x in values]
    starts = np.cumsum([0, *widths]).tolist()
    pieces = [b.slice(bias, [i], [j], [1]) for i, j in itertools.pairwise(starts)]
    return [
        x + expand(b, y, x.dimensions) if x.rank == 3 else x
        for x, y in zip(values, pieces, strict=True)
    ]


def _scores(context: OpKernelContext, q: Op, k: Op, hiding: Hiding) -> Op:
    """How well each key fits a query [n, heads, queries, keys], less what hides it."""
    b = context.builder
    scale = context.attribute("scale", real, 0.0) or 1 / math.sqrt(q.dimensions[3])
    scores = b.matmul(q, b.transpose(k, [0, 1, 3, 2])) * scale
    sizes = scores.dimensions
    if hiding.added is not None:
        scores = scores + expand(b, hiding.added, sizes)
    if hiding.mask is not None:
        low = context.attribute("mask_filter_value", real, -10000.0)
        zero, least = [b.broadcast(scalar(b, x, scores), sizes, []) for x in (0, low)]
        scores = scores + b.select(_kept(context, hiding.mask, sizes), zero, least)
    if context.attribute("unidirectional", flag, False):
        seen = visible(b, sizes, Visibility(hiding.past, -1, 0))
        if seen is not None:
            lowest = b.constant(float(np.finfo(np.float32).min), ElementType.F32)
            least = saturated(b, lowest, scores.element_type)
            scores = b.select(seen, scores, b.broadcast(least, sizes, []))
    return scores


def _kept(context: OpKernelContext, mask: Op, sizes: tuple[int, ...]) -> Op:
    """Whether each key counts, by ends [n], ends and starts [2 n], or marks of each key."""
    b, n = context.builder, sizes[0]
    if mask.rank == 1 and mask.dimensions[0] in (n, 2 * n):
        place = b.iota(array_shape(mask.element_type, sizes), 3)
        ends = b.slice(mask, [0], [n], [1])
        kept = place.lt(b.broadcast(ends, sizes, [0]))
        if mask.dimensions[0] == n:
            return kept
        return kept & place.ge(b.broadcast(b.slice(mask, [n], [2 * n], [1]), sizes, [0]))
    marks = mask.ne(0)
    if mask.rank == 2 and mask.dimensions == (n, sizes[3]):
        return b.broadcast(marks, sizes, [0, 3])
    if mask.rank == 3 and mask.dimensions == (n, *sizes[2:]):
        return b.broadcast(marks, sizes, [0, 2, 3])
    if mask.rank == 4 and mask.dimensions[1] == 1 and min(mask.dimensions[2:]) >= sizes[3]:
        rows = sizes[3] - sizes[2]
        part = b.slice(marks, [0, 0, rows, 0], [n, 1, *sizes[3:], sizes[3]], [1] * 4)
        return expand(b, part, sizes)
    raise context.error(f"the mask {mask.shape.text(layout=False)} does not fit {list(sizes)}")
