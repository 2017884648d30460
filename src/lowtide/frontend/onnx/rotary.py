"""Rotary embeddings: pairs of numbers turned by the angles of their positions."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.arrays import split
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.onnx.attention import heads_first, heads_last
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir import array_shape

_PREFIX: Final = "com.microsoft."


def turned(b: Builder, x: Op, cos: Op, sin: Op, *, interleaved: bool) -> Op:
    """Return x [n, heads, length, size] turned by cosines and sines [n, length, half].

    Halves make pairs, or neighbours where `interleaved`; numbers beyond 2 * half stay.
    """
    n, heads, length, size = x.dimensions
    half = cos.dimensions[2]
    sizes = [n, heads, length, half]
    c, s = [b.broadcast(y, sizes, [0, 2, 3]) for y in (cos, sin)]
    parts = split(b, x, [2 * half, size - 2 * half], 3) if 2 * half < size else [x]
    if interleaved:
        pairs = b.reshape(parts[0], [*sizes, 2])
        first, second = [b.reshape(y, sizes) for y in split(b, pairs, [1, 1], 4)]
    else:
        first, second = split(b, parts[0], [half, half], 3)
    both = [first * c - second * s, first * s + second * c]
    if interleaved:
        wide = b.concatenate([b.reshape(y, [*sizes, 1]) for y in both], 4)
        both = [b.reshape(wide, [n, heads, length, 2 * half])]
    return b.concatenate([*both, *parts[1:]], 3) if len(both) + len(parts) > 2 else both[0]


@op(_PREFIX + "RotaryEmbedding", domain=DOMAIN, inputs=4)
def rotary_embedding(context: OpKernelContext) -> None:
    """Give pairs of numbers turned by the angles of their positions."""
    b, x = context.builder, context.input(0)
    heads = context.attribute("num_heads", integer, 0)
    if context.attribute("rotary_embedding_dim", integer, 0) and not heads and x.rank == 3:
        raise context.error("rotary_embedding_dim needs num_heads")
    if context.attribute("is_packed_batching", flag, False):
        raise context.error("packed batches are not supported")
    if context.attribute("scale", real, 1.0) != 1.0:
        raise context.error("a scale is not supported")
    half = context.input(2).dimensions[1]
    is_flat = x.rank == 3
    if is_flat:
        x = heads_first(b, x, heads or x.dimensions[2] // (2 * half))
    n, _, length, _ = x.dimensions
    positions = context.input(1)
    if positions.shape.element_count == 1 and positions.rank == 1:
        start = b.broadcast(b.reshape(positions, []), [n, length], [])
        positions = start + b.iota(array_shape(positions.element_type, (n, length)), 1)
    cos, sin = [take(b, context.input(i), positions, 0) for i in (2, 3)]
    found = turned(b, x, cos, sin, interleaved=context.attribute("interleaved", flag, False))
    context.set_output(0, heads_last(b, found) if is_flat else found)
