"""Arrays of tensors of TensorFlow 1: what they hold goes the way of their flow.

The handle says nothing; reads and writes are in the order of the flow.
"""

from __future__ import annotations

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.indexing import put_vectors, take
from lowtide.frontend.graphs.shared.loops import part_at, with_part
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.frontend.tensorflow.open_lists import OpenList


@op("TensorArrayV3", domain=DOMAIN, inputs=1)
def tensor_array(context: OpKernelContext) -> None:
    """Give a handle, and an array of entries whose sizes the first one stored tells."""
    count = context.one_int(0)
    context.set_output(0, np.zeros(2, np.int32))
    context.set_output(1, OpenList(context.element_type("dtype"), None, count))


def _entries(context: OpKernelContext, flow: int, sizes: tuple[int, ...]) -> Expression:
    """What an array holds, of entries of some sizes."""
    given = context.expression(flow)
    if isinstance(given, OpenList):
        return Expression(given.filled(context.builder, sizes, given.room or 0))
    return given


@op("TensorArrayWriteV3", domain=DOMAIN, inputs=4)
def write(context: OpKernelContext) -> None:
    """Give the array with another entry."""
    b, item = context.builder, context.input(2)
    entries = _entries(context, 3, item.dimensions).op(b)
    context.set_output(0, with_part(b, entries, item, b.reshape(context.input(1), [])))


@op("TensorArrayReadV3", domain=DOMAIN, inputs=3)
def read(context: OpKernelContext) -> None:
    """Give an entry."""
    b = context.builder
    context.set_output(0, part_at(b, context.input(2), b.reshape(context.input(1), [])))


@op("TensorArrayScatterV3", domain=DOMAIN, inputs=4)
def scatter(context: OpKernelContext) -> None:
    """Give the array with the entries of a tensor at some places."""
    b, places, items = context.builder, context.input(1), context.input(2)
    entries = _entries(context, 3, items.dimensions[1:]).op(b)
    vectors = b.reshape(places, [*places.dimensions, 1])
    context.set_output(0, put_vectors(b, entries, vectors, items))


@op("TensorArrayGatherV3", domain=DOMAIN, inputs=3)
def gather(context: OpKernelContext) -> None:
    """Give the entries at some places as one tensor."""
    context.set_output(0, take(context.builder, context.input(2), context.input(1), 0))


@op("TensorArrayConcatV3", domain=DOMAIN, inputs=2)
def concat(context: OpKernelContext) -> None:
    """Give the entries one behind another, and the length of each of them."""
    b, x = context.builder, context.input(1)
    if x.rank < 2:
        raise context.error("entries of rank 0 cannot be joined")
    total, each = x.dimensions[:2]
    context.set_output(0, b.reshape(x, [total * each, *x.dimensions[2:]]))
    context.set_output(1, np.full(total, each, np.int64))


@op("TensorArraySizeV3", domain=DOMAIN, inputs=2)
def size(context: OpKernelContext) -> None:
    """Give how many entries an array has."""
    given = context.expression(1)
    count = given.room if isinstance(given, OpenList) else given.shape.dimensions[0]
    context.set_output(0, np.array(count, np.int32))
