"""Layers of ONNX with a state that is handed from call to call."""

from __future__ import annotations

import math
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, integer, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.graphs.shared.broadcasting import along, scalar
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.frontend.graphs.shared.loops import part_at, repeat_steps, with_part
from lowtide.frontend.onnx.attention import heads_first, heads_last, repeated_heads
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir.element_type import ElementType

_RULES: Final = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}
"""Whether a rule lets the state decay, and whether it takes away what a key had before."""


def _steps_first(b: Builder, x: Op) -> Op:
    """[length, n, heads, size] of [n, heads, length, size]."""
    return b.transpose(x, [2, 0, 1, 3])


@op("LinearAttention", domain=DOMAIN, inputs=(3, 6))
def linear_attention(context: OpKernelContext) -> None:
    """Give what queries read from a state to which each step adds a key and a value; the state."""
    b = context.builder
    heads, kv_heads = [context.attribute(f"{k}_num_heads", integer) for k in ("q", "kv")]
    decays, is_delta = context.choice("update_rule", _RULES, "gated_delta")
    q = heads_first(b, context.input(0), heads)
    k, v = [heads_first(b, context.input(i), kv_heads) for i in (1, 2)]
    scale = context.attribute("scale", real, 0.0) or 1 / math.sqrt(q.dimensions[3])
    batch, length = q.dimensions[0], q.dimensions[2]
    state = context.optional(3)
    if state is None:
        state = b.broadcast(
            scalar(b, 0, q), [batch, kv_heads, k.dimensions[3], v.dimensions[3]], []
        )
    kind = state.element_type
    state = b.convert(state, _wide(kind))
    series = [_steps_first(b, b.convert(x, state.element_type)) for x in (q, k, v)]
    if decays:
        series.append(
            _steps_first(
                b, b.convert(_by_head(b, context.input(4), kv_heads, k), state.element_type)
            )
        )
    if is_delta:
        series.append(
            _steps_first(
                b, b.convert(_by_head(b, context.input(5), kv_heads, v), state.element_type)
            )
        )
    shape = [length, batch, heads, v.dimensions[3]]
    results = b.broadcast(scalar(b, 0, state), shape, [])

    def step(c: Builder, at: Op, values: list[Op]) -> list[Op]:
        now = [part_at(c, x, at) for x in values[2:]]
        before = values[1]
        if decays:
            before = before * c.broadcast(c.exponential(now[3]), before.dimensions, [0, 1, 2])
        added = now[2]
        if is_delta:
            added = now[-1] * (added - _read(c, before, now[1]))
        after = before + c.broadcast(now[1], before.dimensions, [0, 1, 2]) * c.broadcast(
            added, before.dimensions, [0, 1, 3]
        )
        found = _read(c, repeated_heads(c, after, heads), now[0]) * scale
        return [with_part(c, values[0], found, at), after, *values[2:]]

    found = repeat_steps(b, length, [results, state, *series], step)
    y = heads_last(b, b.transpose(found[0], [1, 2, 0, 3]))
    context.set_outputs([b.convert(y, q.element_type), b.convert(found[1], kind)])


def _wide(kind: ElementType) -> ElementType:
    """The type in which a state is kept within a call."""
    return ElementType.F32 if kind.bits < 32 else kind


def _read(b: Builder, state: Op, key: Op) -> Op:
    """The vector [n, heads, values] that a state has for a key [n, heads, keys]."""
    n, heads, size = key.dimensions
    product = b.matmul(b.reshape(key, [n, heads, 1, size]), state)
    return b.reshape(product, [n, heads, state.dimensions[3]])


def _by_head(b: Builder, x: Op, heads: int, like: Op) -> Op:
    """[n, heads, length, size] of numbers for each head or for each of its elements."""
    width = x.dimensions[2]
    if width == 1:
        x = b.broadcast(b.reshape(x, x.dimensions[:2]), [*x.dimensions[:2], heads], [0, 1])
    parts = heads_first(b, x, heads)
    if parts.dimensions[3] == like.dimensions[3]:
        return parts
    flat = b.reshape(parts, parts.dimensions[:3])
    return b.broadcast(flat, [*parts.dimensions[:3], like.dimensions[3]], [0, 1, 2])


@op("CausalConvWithState", domain=DOMAIN, inputs=(2, 4))
def causal_conv(context: OpKernelContext) -> None:
    """Give the convolution of each channel with what came before, and the last elements."""
    b, x, kernel = context.builder, context.input(0), context.input(1)
    n, channels, _ = x.dimensions
    size = kernel.dimensions[2]
    state = context.optional(3)
    if state is None:
        state = b.broadcast(scalar(b, 0, x), [n, channels, size - 1], [])
    whole = b.concatenate([state, x], 2) if size > 1 else x
    shape = WindowShape((size,), (1,), (1,), ((0, 0),))
    y = contraction.convolve(b, whole, kernel, "NCX", "OIX", shape, channels)
    bias = context.optional(2)
    if bias is not None:
        y = y + along(b, bias, 1, y.dimensions)
    if context.attribute("activation", text, "none") in ("silu", "swish"):
        y = y * b.logistic(y)
    length = whole.dimensions[2]
    kept = b.slice(whole, [0, 0, length - size + 1], [n, channels, length], [1, 1, 1])
    context.set_outputs([y, kept])
