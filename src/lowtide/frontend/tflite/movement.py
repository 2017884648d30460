"""Operators that move elements, and sums and means along dimensions."""

from __future__ import annotations

from typing import Final

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays, reductions
from lowtide.frontend.graphs.shared.indexing import from_end, take
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import DOMAIN, ELEMENT_TYPES, LiteNode


@op("RESHAPE", "SQUEEZE", "EXPAND_DIMS", domain=DOMAIN, inputs=(1, 2))
def reshape(context: OpKernelContext) -> None:
    """Give the elements in the sizes that the file says."""
    LiteNode(context).give(context.input(0))


@op("TRANSPOSE", domain=DOMAIN, inputs=2)
def transpose(context: OpKernelContext) -> None:
    """Give the dimensions in another order."""
    node = LiteNode(context)
    node.give(node.b.transpose(context.input(0), context.ints(1)))


@op("CONCATENATION", domain=DOMAIN)
def concatenation(context: OpKernelContext) -> None:
    """Give the operands one after another; quantized ones have to be of one scale."""
    node = LiteNode(context)
    x = context.inputs()
    if node.is_quantized:
        _require_one_scale(node, context.input_count)
    axis = context.axis(node.number(0), x[0].rank)
    node.give(arrays.concatenated(node.b, x, axis), node.activation(1))


def _require_one_scale(node: LiteNode, count: int) -> None:
    """Raise GraphError where an operand has another scale or zero point than the result."""
    made = node.made
    for number in range(count):
        given = node.tensor(number)
        same = quantized.scale_of(node, given) == quantized.scale_of(node, made)
        if not same or quantized.zero_of(given) != quantized.zero_of(made):
            raise node.refusal("operands of several scales")


@op("PACK", domain=DOMAIN)
def pack(context: OpKernelContext) -> None:
    """Give the operands along a new dimension."""
    node, x = LiteNode(context), context.inputs()
    axis = context.axis(node.number(1), x[0].rank + 1)
    wide = [arrays.inserted(node.b, y, [axis]) for y in x]
    node.give(arrays.concatenated(node.b, wide, axis))


@op("PAD", "PADV2", domain=DOMAIN, inputs=(2, 3))
def pad(context: OpKernelContext) -> None:
    """Give numbers with others around them: zeros, or what the third operand says."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    widths = context.constant(1).reshape(-1, 2).tolist()
    value = context.optional(2)
    if value is None:
        zero = quantized.zero_of(node.tensor(0)) if node.is_quantized else 0
        value = b.constant(zero, x.element_type)
    else:
        value = b.reshape(value, [])
    node.give(arrays.padded(b, x, value, [(int(low), int(high)) for low, high in widths]))


@op("SLICE", domain=DOMAIN, inputs=3)
def slice_(context: OpKernelContext) -> None:
    """Give the part at a place, of some sizes; -1 is what is left."""
    node, x = LiteNode(context), context.input(0)
    starts, sizes = context.ints(1), context.ints(2)
    parts = [
        slice(start, n if size < 0 else start + size)
        for start, size, n in zip(starts, sizes, x.dimensions, strict=True)
    ]
    node.give(arrays.sliced(node.b, x, parts))


@op("STRIDED_SLICE", domain=DOMAIN, inputs=4)
def strided_slice(context: OpKernelContext) -> None:
    """Give the part between two places in steps; masks leave out ends and dimensions."""
    node, x = LiteNode(context), context.input(0)
    begins, ends, steps = context.ints(1), context.ints(2), context.ints(3)
    if node.number(2) or node.number(3):
        raise node.refusal("an ellipsis or a new dimension")
    if not len(begins) == len(ends) == len(steps) <= x.rank or 0 in steps:
        raise node.error(f"steps {steps} from {begins} to {ends} for {x.rank} dimensions")
    parts = [slice(None)] * x.rank
    for i, step in enumerate(steps):
        first = None if node.number(0) >> i & 1 else begins[i]
        last = None if node.number(1) >> i & 1 else ends[i]
        parts[i] = slice(first, last, step)
        if node.number(4) >> i & 1:
            place = begins[i] % x.dimensions[i]
            parts[i] = slice(place, place + 1)
    node.give(arrays.sliced(node.b, x, parts))


@op("GATHER", domain=DOMAIN, inputs=2)
def gather(context: OpKernelContext) -> None:
    """Give slices along a dimension, by their places."""
    node, x = LiteNode(context), context.input(0)
    axis = context.axis(node.number(0), x.rank)
    places = from_end(node.b, context.input(1), x.dimensions[axis])
    node.give(take(node.b, x, places, axis, node.number(1)))


@op("TILE", domain=DOMAIN, inputs=2)
def tile(context: OpKernelContext) -> None:
    """Give elements again and again along each dimension."""
    node = LiteNode(context)
    node.give(arrays.tiled(node.b, context.input(0), context.ints(1)))


@op("CAST", domain=DOMAIN, inputs=1)
def cast(context: OpKernelContext) -> None:
    """Give numbers as another type."""
    node = LiteNode(context)
    kind = ELEMENT_TYPES.get(node.made.type)
    if kind is None:
        raise node.refusal(f"a result of type {node.made.type}")
    node.give(node.cast(context.input(0), kind))


@op("SPLIT", domain=DOMAIN, inputs=2)
def split(context: OpKernelContext) -> None:
    """Give equal parts along a dimension."""
    node, x = LiteNode(context), context.input(1)
    axis, count = context.axis(context.one_int(0), x.rank), node.output_count
    sizes = [x.dimensions[axis] // count] * count
    context.set_outputs(arrays.split(node.b, x, sizes, axis))


_REDUCTIONS: Final = {
    "REDUCE_MAX": "max",
    "REDUCE_MIN": "min",
    "REDUCE_PROD": "prod",
    "SUM": "sum",
}


@op("MEAN", *_REDUCTIONS, domain=DOMAIN, inputs=2)
def reduction(context: OpKernelContext) -> None:
    """Give sums, means and the like along dimensions; of floats and plain integers."""
    node, x = LiteNode(context), context.input(0)
    node.require_floats()
    axes = context.axes(context.ints(1), x.rank)
    name = context.node.op
    if name == "MEAN":
        node.give(reductions.mean(node.b, x, axes))
        return
    node.give(reductions.reduce(node.b, _REDUCTIONS[name], x, axes))
