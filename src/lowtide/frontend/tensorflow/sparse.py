"""Ops of TensorFlow on sparse arrays, and on slices that constants choose and part."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, indexing
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.tensorflow.graph_def import DOMAIN

_SEGMENTS: Final = {
    f"SparseSegment{kind}{more}": kind
    for kind in ("Sum", "Mean", "SqrtN")
    for more in ("", "WithNumSegments")
}


@op("SparseToDense", domain=DOMAIN, inputs=4)
def sparse_to_dense(context: OpKernelContext) -> None:
    """Give one value everywhere but at some places, which have values of their own."""
    b, places, values = context.builder, context.input(0), context.input(2)
    sizes = context.ints(1)
    count = places.shape.element_count // max(len(sizes), 1)
    places = b.reshape(places, [count, len(sizes)])
    values = values if values.rank else b.broadcast(values, [count], [])
    rest = b.broadcast(context.input(3), sizes, [])
    context.set_output(0, indexing.put_vectors(b, rest, places, values))


@op("SparseTensorDenseMatMul", domain=DOMAIN, inputs=4)
def sparse_matmul(context: OpKernelContext) -> None:
    """Give the product of a sparse matrix and a dense one, each turned round or not."""
    b, places, values, y = context.builder, context.input(0), context.input(1), context.input(3)
    zeros = b.broadcast(b.constant(0, values.element_type), context.ints(2), [])
    dense = indexing.put_vectors(b, zeros, places, values, "add")
    both = [
        contraction.conjugate(b, contraction.swapped(b, x))
        if context.attribute(name, flag, False)
        else x
        for x, name in ((dense, "adjoint_a"), (y, "adjoint_b"))
    ]
    context.set_output(0, contraction.matmul(b, *both))


@op(*_SEGMENTS, domain=DOMAIN, inputs=(3, 4))
def sparse_segment(context: OpKernelContext) -> None:
    """Give sums of chosen slices by segment, over their number or its root where that is asked."""
    b, kind = context.builder, _SEGMENTS[context.node.op]
    chosen = indexing.take(b, context.input(0), context.input(1), 0)
    segments = context.constant(2).reshape(-1)
    count = int(segments.max()) + 1 if segments.size else 0
    count = context.one_int(3) if context.has_input(3) else count
    found = indexing.put_in_segments(b, chosen, context.input(2), "add", count)
    if kind != "Sum":
        sizes = np.maximum(np.bincount(segments, minlength=count), 1).astype(np.float64)
        found = found / _down(context, np.sqrt(sizes) if kind == "SqrtN" else sizes, found)
    context.set_output(0, found)


def _down(context: OpKernelContext, numbers: np.ndarray, like: Op) -> Op:
    b = context.builder
    return along(b, b.constant(numbers, like.element_type), 0, like.dimensions)


@op("Where", domain=DOMAIN, inputs=1)
def where(context: OpKernelContext) -> None:
    """Give the places of what is not zero, of a constant: else their number is not known."""
    context.set_output(0, np.argwhere(context.constant(0)).astype(np.int64))


@op("DynamicPartition", domain=DOMAIN, inputs=2)
def dynamic_partition(context: OpKernelContext) -> None:
    """Give the slices of each part, by constant numbers of parts."""
    b, x, parts = context.builder, context.input(0), context.constant(1)
    flat = b.reshape(x, [parts.size, *x.dimensions[parts.ndim :]])
    for number in range(context.attribute("num_partitions", integer)):
        rows = np.flatnonzero(parts.reshape(-1) == number).astype(np.int64)
        context.set_output(number, indexing.take(b, flat, b.constant(rows), 0))
