"""Attention of ONNX: scores of queries and keys, masks, softmax, and caches of keys and values."""

from __future__ import annotations

import math

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import reductions
from lowtide.frontend.graphs.shared.broadcasting import expand, scalar, together
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

_RAW, _CAPPED, _BIASED, _SOFTMAX = range(4)


def heads_first(b: Builder, x: Op, count: int) -> Op:
    """Return [n, heads, length, size] of [n, length, heads * size]."""
    n, length, width = x.dimensions
    return b.transpose(b.reshape(x, [n, length, count, width // count]), [0, 2, 1, 3])


def heads_last(b: Builder, x: Op) -> Op:
    """Return [n, length, heads * size] of [n, heads, length, size]."""
    n, count, length, size = x.dimensions
    return b.reshape(b.transpose(x, [0, 2, 1, 3]), [n, length, count * size])


def repeated_heads(b: Builder, x: Op, count: int) -> Op:
    """Return [n, count, length, size], each head of x several times in a row."""
    n, heads, length, size = x.dimensions
    if heads == count:
        return x
    wide = b.broadcast(x, [n, heads, count // heads, length, size], [0, 1, 3, 4])
    return b.reshape(wide, [n, count, length, size])


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which keys queries see: their positions start at `offset`, a number or one per entry.

    `left` and `right` are how many keys before and after its own place a query sees, -1 for all.
    """

    offset: Op | int
    left: int
    right: int


def visible(b: Builder, sizes: tuple[int, ...], seen: Visibility) -> Op | None:
    """Return whether a query sees a key, for scores of `sizes`; None where all are seen."""
    if seen.left < 0 and seen.right < 0:
        return None
    index = array_shape(ElementType.S64, sizes)
    place = b.iota(index, 2)
    if isinstance(seen.offset, int):
        place = place + seen.offset
    else:
        place = place + b.broadcast(seen.offset, sizes, [0])
    distance = b.iota(index, 3) - place
    parts = []
    if seen.right >= 0:
        parts.append(distance.le(seen.right))
    if seen.left >= 0:
        parts.append(distance.ge(-seen.left))
    return parts[0] if len(parts) == 1 else parts[0] & parts[1]


def guarded_softmax(b: Builder, scores: Op, bias: Op | None) -> Op:
    """Return the softmax over the last dimension, 0 in rows whose bias has nothing but -inf."""
    top = reductions.reduce(b, "max", scores, [scores.rank - 1], keep=True)
    zero = scalar(b, 0, scores)
    safe = b.select(top.gt(-math.inf), top, b.broadcast(zero, top.dimensions, []))
    powers = b.exponential(scores - safe)
    total = reductions.reduce(b, "sum", powers, [scores.rank - 1], keep=True)
    result = powers / total
    if bias is None:
        return result
    most = reductions.reduce(b, "max", bias, [bias.rank - 1], keep=True)
    hidden = expand(b, most.eq(-math.inf), scores.dimensions)
    return b.select(hidden, b.broadcast(zero, scores.dimensions, []), result)


@op("Attention", domain=DOMAIN, inputs=(3, 7))
def attention(context: OpKernelContext) -> None:
    """Give the values weighted by the softmax of scores, the cache, and the scores."""
    b = context.builder
    q, k, v = [context.input(i) for i in range(3)]
    is_flat = q.rank == 3
    if is_flat:
        counts = [context.attribute(f"{x}_num_heads", integer) for x in ("q", "kv")]
        q = heads_first(b, q, counts[0])
        k, v = heads_first(b, k, counts[1]), heads_first(b, v, counts[1])
    past = 0
    if context.has_input(4):
        past = context.input(4).dimensions[2]
        k = b.concatenate([context.input(4), k], 2)
        v = b.concatenate([context.input(5), v], 2)
    heads = q.dimensions[1]
    scores = _scores(context, q, repeated_heads(b, k, heads))
    raw = scores
    cap = context.attribute("softcap", real, 0.0)
    if cap:
        scores = b.tanh(scores / cap) * cap
    capped = scores
    bias = _bias(context, scores, past)
    if bias is not None:
        scores = scores + expand(b, bias, scores.dimensions)
    weights = _weights(context, scores, bias, q.element_type)
    mode = context.attribute("qk_matmul_output_mode", integer, _RAW)
    y = b.matmul(weights, repeated_heads(b, v, heads))
    shown = {_RAW: raw, _CAPPED: capped, _BIASED: scores, _SOFTMAX: weights}
    if mode not in shown:
        raise context.error(f"qk_matmul_output_mode is 0 to 3, not {mode}")
    context.set_outputs([heads_last(b, y) if is_flat else y, k, v, shown[mode]])


def _scores(context: OpKernelContext, q: Op, k: Op) -> Op:
    b = context.builder
    scale = context.attribute("scale", real, None) or 1 / math.sqrt(q.dimensions[3])
    root = b.constant(np.asarray(math.sqrt(scale)), q.element_type)
    return b.matmul(q * root, b.transpose(k * root, [0, 1, 3, 2]))


def _weights(context: OpKernelContext, scores: Op, bias: Op | None, kind: ElementType) -> Op:
    b = context.builder
    precision = context.element_type("softmax_precision", scores.element_type)
    if precision is not scores.element_type:
        scores = b.convert(scores, precision)
    weights = guarded_softmax(b, scores, bias)
    return weights if weights.element_type is kind else b.convert(weights, kind)


def _bias(context: OpKernelContext, scores: Op, past: int) -> Op | None:
    """What is added to scores: the mask that is given, and -inf for keys that are not seen."""
    b = context.builder
    lengths = context.optional(6)
    offset: Op | int = past
    parts: list[Op] = []
    if lengths is not None:
        lengths = b.reshape(lengths, [scores.dimensions[0]])
        if not past:
            offset = lengths - scores.dimensions[2]
        positions = b.iota(array_shape(lengths.element_type, scores.dimensions), 3)
        parts.append(positions.lt(b.broadcast(lengths, scores.dimensions, [0])))
    left = context.attribute("left_window_size", integer, -1)
    right = context.attribute("right_window_size", integer, -1)
    if context.attribute("is_causal", flag, False):
        right = 0
    seen = visible(b, scores.dimensions, Visibility(offset, left, right))
    if seen is not None:
        parts.append(seen)
    given = _mask(context, scores)
    if given is not None and given.element_type is ElementType.PRED:
        parts.append(expand(b, given, scores.dimensions))
        given = None
    return _added(b, parts, given, scores)


def _added(b: Builder, allowed: list[Op], given: Op | None, scores: Op) -> Op | None:
    if not allowed:
        return given
    joint = allowed[0]
    for part in allowed[1:]:
        joint = joint & part
    least = b.broadcast(scalar(b, -math.inf, scores), scores.dimensions, [])
    if given is None:
        given = b.broadcast(scalar(b, 0, scores), scores.dimensions, [])
    return b.select(*together(b, [joint, expand(b, given, scores.dimensions), least]))


def _mask(context: OpKernelContext, scores: Op) -> Op | None:
    """The mask, as long as the keys are."""
    b, mask = context.builder, context.optional(3)
    if mask is None:
        return None
    short = scores.dimensions[3] - mask.dimensions[-1]
    if short > 0 and mask.dimensions[-1] > 1:
        is_bool = mask.element_type is ElementType.PRED
        padding = [(0, 0)] * (mask.rank - 1) + [(0, short)]
        mask = b.pad(mask, scalar(b, False if is_bool else -math.inf, mask), padding)
    return mask
