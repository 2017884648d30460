"""Lists of tensors of one shape as arrays: their first dimension counts the entries."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.loops import part_at, with_part
from lowtide.frontend.tensorflow.graph_def import DOMAIN


@op("TensorListReserve", domain=DOMAIN, inputs=2)
def reserve(context: OpKernelContext) -> None:
    """Give a list of zeros; the shape of its entries has to be known."""
    b = context.builder
    sizes, count = [int(x) for x in context.constant(0).reshape(-1)], context.one_int(1)
    if min(sizes, default=0) < 0 or (context.constant(0).ndim == 0 and sizes[0] < 0):
        raise context.error(f"a list of tensors of the unknown sizes {sizes}: give all sizes")
    zero = b.constant(0, context.element_type("element_dtype"))
    context.set_output(0, b.broadcast(zero, [count, *sizes], []))


@op("TensorListFromTensor", "TensorListStack", domain=DOMAIN, inputs=2)
def same(context: OpKernelContext) -> None:
    """Give the entries along the first dimension, as a list or as one tensor."""
    context.set_output(0, context.expression(0))


@op("TensorListLength", domain=DOMAIN, inputs=1)
def length(context: OpKernelContext) -> None:
    """Give how many entries a list has."""
    context.set_output(0, np.array(context.expression(0).shape.dimensions[0], np.int32))


def _place(context: OpKernelContext) -> Op:
    return context.builder.reshape(context.input(1), [])


@op("TensorListGetItem", domain=DOMAIN, inputs=(2, 3))
def get_item(context: OpKernelContext) -> None:
    """Give an entry."""
    context.set_output(0, part_at(context.builder, context.input(0), _place(context)))


@op("TensorListSetItem", domain=DOMAIN, inputs=3)
def set_item(context: OpKernelContext) -> None:
    """Give a list with another entry."""
    b, item = context.builder, context.input(2)
    context.set_output(0, with_part(b, context.input(0), item, _place(context)))
