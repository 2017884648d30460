"""Operators on sizes: what they give is known when a model is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays
from lowtide.frontend.graphs.shared.broadcasting import expand, joined
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir.literal import DTYPES


@op("SHAPE", domain=DOMAIN, inputs=1)
def shape(context: OpKernelContext) -> None:
    """Give the sizes of an operand."""
    node = LiteNode(context)
    sizes = context.expression(0).shape.dimensions
    context.set_output(0, np.array(sizes, DTYPES[node.element_type()]))


@op("RANK", domain=DOMAIN, inputs=1)
def rank(context: OpKernelContext) -> None:
    """Give how many dimensions an operand has."""
    context.set_output(0, np.array(len(context.expression(0).shape.dimensions), np.int32))


@op("RESHAPE", domain=DOMAIN, inputs=(1, 2))
def reshape(context: OpKernelContext) -> None:
    """Give the elements in other sizes: those of the second input, or of an option."""
    node, x = LiteNode(context), context.input(0)
    sizes: Sequence[int] = node.numbers(0, "<i4")
    if context.has_input(1):
        known = context.known(1)
        sizes = node.made.shape if known is None else [int(v) for v in known.reshape(-1)]
    elif not sizes:
        sizes = node.made.shape
    node.give(arrays.reshaped(node.b, x, sizes))


@op("SQUEEZE", domain=DOMAIN, inputs=1)
def squeeze(context: OpKernelContext) -> None:
    """Give an operand without dimensions of size 1: those that are named, or all of them."""
    node, x = LiteNode(context), context.input(0)
    named = [context.axis(i, x.rank) for i in node.numbers(0, "<i4")]
    axes = named or [i for i, n in enumerate(x.dimensions) if n == 1]
    node.give(arrays.squeezed(node.b, x, axes))


@op("EXPAND_DIMS", domain=DOMAIN, inputs=2)
def expand_dims(context: OpKernelContext) -> None:
    """Give an operand with a further dimension of size 1."""
    node, x = LiteNode(context), context.input(0)
    node.give(arrays.inserted(node.b, x, [context.axis(context.one_int(1), x.rank + 1)]))


@op("FILL", domain=DOMAIN, inputs=2)
def fill(context: OpKernelContext) -> None:
    """Give one value in some sizes."""
    node = LiteNode(context)
    node.give(node.b.broadcast(node.b.reshape(context.input(1), []), context.ints(0), []))


@op("RANGE", domain=DOMAIN, inputs=3)
def range_(context: OpKernelContext) -> None:
    """Give numbers from one up to another, which is left out, in steps."""
    start, limit, step = [context.constant(i).reshape(-1) for i in range(3)]
    if not (len(start) == len(limit) == len(step) == 1 and step[0]):
        raise context.error(f"from {start} to {limit} in steps of {step}")
    found = np.arange(start[0], limit[0], step[0])
    context.set_output(0, found.astype(start.dtype))


@op("BROADCAST_TO", domain=DOMAIN, inputs=2)
def broadcast_to(context: OpKernelContext) -> None:
    """Give an operand stretched to some sizes."""
    node = LiteNode(context)
    node.give(expand(node.b, context.input(0), context.ints(1)))


@op("BROADCAST_ARGS", domain=DOMAIN, inputs=2)
def broadcast_args(context: OpKernelContext) -> None:
    """Give the sizes to which two lists of sizes broadcast."""
    sizes = [context.constant(i) for i in range(2)]
    found = joined([x.tolist() for x in sizes])
    context.set_output(0, np.array(found, sizes[0].dtype))
