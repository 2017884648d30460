"""Operators that find or put elements by places: gathers, scatters, segments, extremes, sorted."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import indexing, reductions
from lowtide.frontend.graphs.shared.indexing import from_end, take
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir.element_type import ElementType


@op("GATHER", domain=DOMAIN, inputs=2)
def gather(context: OpKernelContext) -> None:
    """Give slices along a dimension, by their places."""
    node, x = LiteNode(context), context.input(0)
    axis = context.axis(node.number(0), x.rank)
    places = from_end(node.b, context.input(1), x.dimensions[axis])
    batch = node.number(1)
    node.give(take(node.b, x, places, axis, batch + places.rank if batch < 0 else batch))


@op("GATHER_ND", domain=DOMAIN, inputs=2)
def gather_nd(context: OpKernelContext) -> None:
    """Give slices by vectors of places."""
    node = LiteNode(context)
    node.give(indexing.take_vectors(node.b, context.input(0), context.input(1)))


@op("EMBEDDING_LOOKUP", domain=DOMAIN, inputs=2)
def embedding_lookup(context: OpKernelContext) -> None:
    """Give rows of a table by their numbers; those of a quantized one as floats."""
    node, b = LiteNode(context), context.builder
    given = node.tensor(1)
    table = context.input(1)
    if len(given.quantization.scales) and node.made.type == "FLOAT32":
        table = quantized.as_floats(node, 1)
    node.give(take(b, table, context.input(0), 0))


@op("HASHTABLE_LOOKUP", domain=DOMAIN, inputs=3)
def hashtable_lookup(context: OpKernelContext) -> None:
    """Give for each key its row, zeros without one, and whether there is one."""
    node, b = LiteNode(context), context.builder
    wanted, keys, rows = context.inputs()
    sizes = [wanted.dimensions[0], keys.dimensions[0]]
    same = b.broadcast(wanted, sizes, [0]).eq(b.broadcast(keys, sizes, [1]))
    place = reductions.arg_extreme(b, "max", b.convert(same, ElementType.S32), 1, ElementType.S32)
    hit = reductions.reduce(b, "any", same, [1])
    found = take(b, rows, place, 0)
    zeros = b.broadcast(b.constant(0, found.element_type), found.dimensions, [])
    node.give(b.select(b.broadcast(hit, found.dimensions, [0]), found, zeros))
    node.give(b.convert(hit, ElementType.U8))


@op("SCATTER_ND", domain=DOMAIN, inputs=3)
def scatter_nd(context: OpKernelContext) -> None:
    """Give zeros to which updates are added at vectors of places."""
    node, b = LiteNode(context), context.builder
    updates = context.input(1)
    zeros = b.broadcast(b.constant(0, updates.element_type), context.ints(2), [])
    kind = "none" if updates.element_type is ElementType.PRED else "add"
    node.give(indexing.put_vectors(b, zeros, context.input(0), updates, kind))


@op("SPARSE_TO_DENSE", domain=DOMAIN, inputs=4)
def sparse_to_dense(context: OpKernelContext) -> None:
    """Give a value everywhere but at some places, which have values of their own."""
    node, b = LiteNode(context), context.builder
    sizes, places, values = context.ints(1), context.input(0), context.input(2)
    count = len(sizes)
    places = b.reshape(places, [places.shape.element_count // count, count])
    rest = b.broadcast(b.reshape(context.input(3), []), sizes, [])
    values = (
        b.broadcast(b.reshape(values, []), places.dimensions[:1], []) if not values.rank else values
    )
    node.give(indexing.put_vectors(b, rest, places, values))


@op("DYNAMIC_UPDATE_SLICE", domain=DOMAIN, inputs=3)
def dynamic_update_slice(context: OpKernelContext) -> None:
    """Give an operand with another one written over a part of it."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    at = context.input(2)
    starts = [b.reshape(b.slice(at, [i], [i + 1], [1]), []) for i in range(x.rank)]
    node.give(b.dynamic_update_slice(x, context.input(1), starts))


@op("ONE_HOT", domain=DOMAIN, inputs=4)
def one_hot(context: OpKernelContext) -> None:
    """Give a value at the place that each index names along a new dimension, else another."""
    node, places = LiteNode(context), context.input(0)
    axis = context.axis(node.number(0), places.rank + 1)
    on, off = context.input(2), context.input(3)
    node.give(indexing.one_hot(node.b, places, context.one_int(1), on, off, axis))


_EXTREMES: Final = {"ARG_MAX": "max", "ARG_MIN": "min"}


@op(*_EXTREMES, domain=DOMAIN, inputs=2)
def arg_extreme(context: OpKernelContext) -> None:
    """Give the place of the greatest or smallest element along a dimension."""
    node, x = LiteNode(context), context.input(0)
    axis = context.axis(context.one_int(1), x.rank)
    kind = _EXTREMES[context.node.op]
    node.give(reductions.arg_extreme(node.b, kind, x, axis, node.element_type()))


@op("TOPK_V2", domain=DOMAIN, inputs=2)
def topk(context: OpKernelContext) -> None:
    """Give the greatest elements along the last dimension in order, and their places."""
    node, x = LiteNode(context), context.input(0)
    count = context.one_int(1)
    found = reductions.top_k(node.b, x, count, x.rank - 1, node.element_type(1))
    for value in found:
        node.give(value)


@op("CUMSUM", domain=DOMAIN, inputs=2)
def cumsum(context: OpKernelContext) -> None:
    """Give running sums along a dimension."""
    node, x = LiteNode(context), context.input(0)
    node.require_floats()
    axis = context.axis(int(np.asarray(context.constant(1)).reshape(-1)[0]), x.rank)
    flags = {"exclusive": bool(node.code(0)), "reverse": bool(node.code(1))}
    node.give(reductions.cumulative_sum(node.b, x, axis, **flags))


# -- segments -------------------------------------------------------------------------------------


_SEGMENTS: Final = {
    "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
    "UNSORTED_SEGMENT_PROD": "mul",
    "UNSORTED_SEGMENT_SUM": "add",
}


@op("SEGMENT_SUM", domain=DOMAIN, inputs=2)
def segment_sum(context: OpKernelContext) -> None:
    """Give the sums of slices along the first dimension, by rising numbers of segments."""
    node = LiteNode(context)
    segments = context.constant(1).reshape(-1)
    _combined(node, "add", int(segments[-1]) + 1 if len(segments) else 0)


@op(*_SEGMENTS, domain=DOMAIN, inputs=3)
def unsorted_segment(context: OpKernelContext) -> None:
    """Give what slices come to by segment; those of a negative number count for none."""
    _combined(LiteNode(context), _SEGMENTS[context.node.op], context.one_int(2))


def _combined(node: LiteNode, kind: str, count: int) -> None:
    x, segments = node.context.input(0), node.context.input(1)
    node.give(indexing.put_in_segments(node.b, x, segments, kind, count))
