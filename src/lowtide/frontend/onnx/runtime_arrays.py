"""Ops of com.microsoft on arrays, those that ONNX has itself by now among them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext, integer, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays, contraction, elementwise, elimination, indexing
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar, together
from lowtide.frontend.graphs.shared.reductions import reduce, softmax
from lowtide.frontend.onnx.arrays import pad, range_, trilu
from lowtide.frontend.onnx.indexing import gather_nd
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.resizing import grid_sample
from lowtide.ir.element_type import ElementType

_PREFIX: Final = "com.microsoft."

op(_PREFIX + "GatherND", domain=DOMAIN, inputs=2)(gather_nd)
op(_PREFIX + "GridSample", domain=DOMAIN, inputs=2)(grid_sample)
op(_PREFIX + "Pad", domain=DOMAIN, inputs=(2, 3))(pad)
op(_PREFIX + "Range", domain=DOMAIN, inputs=(2, 3))(range_)
op(_PREFIX + "Trilu", domain=DOMAIN, inputs=(1, 2))(trilu)


@op(_PREFIX + "ExpandDims", domain=DOMAIN, inputs=2)
def expand_dims(context: OpKernelContext) -> None:
    """Give the input with a dimension of size 1 at a place."""
    x = context.input(0)
    axis = context.axis(context.one_int(1), x.rank + 1)
    context.set_output(0, arrays.inserted(context.builder, x, [axis]))


@op(_PREFIX + "SampleOp", domain=DOMAIN, inputs=1)
def same(context: OpKernelContext) -> None:
    """Give the input."""
    context.set_output(0, context.expression(0))


@op(_PREFIX + "UnfoldTensor", domain=DOMAIN, inputs=1)
def unfold(context: OpKernelContext) -> None:
    """Give all slices of a size along a dimension; their elements are a new last dimension."""
    b, x = context.builder, context.input(0)
    axis = context.axis(context.attribute("dim", integer, -1), x.rank)
    size, step = context.attribute("size", integer), context.attribute("step", integer, 1)
    count = (x.dimensions[axis] - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)
    found = indexing.take(b, x, b.constant(places), axis)
    order = [i for i in range(found.rank) if i != axis + 1]
    context.set_output(0, b.transpose(found, [*order, axis + 1]))


@op(_PREFIX + "MatMulInteger16", domain=DOMAIN, inputs=2)
def matmul_integer_16(context: OpKernelContext) -> None:
    """Give the product of 16-bit integers as 32-bit ones."""
    b = context.builder
    signed = any(x.element_type.is_signed for x in context.inputs())
    kind = ElementType.S32 if signed else ElementType.U32
    context.set_output(0, contraction.matmul(b, *[b.convert(x, kind) for x in context.inputs()]))


@op(_PREFIX + "CDist", domain=DOMAIN, inputs=2)
def distances(context: OpKernelContext) -> None:
    """Give the Euclidean distances of the rows of two matrices, squared or not."""
    b, x, y = context.builder, context.input(0), context.input(1)
    metric = context.attribute("metric", text, "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise context.error(f"metric is euclidean or sqeuclidean, not {metric!r}")
    sizes = [x.dimensions[0], y.dimensions[0], x.dimensions[1]]
    gap = b.broadcast(x, sizes, [0, 2]) - b.broadcast(y, sizes, [1, 2])
    total = reduce(b, "sum", gap * gap, [2])
    context.set_output(0, b.sqrt(total) if metric == "euclidean" else total)


@op(_PREFIX + "BiasSoftmax", domain=DOMAIN, inputs=2)
def bias_softmax(context: OpKernelContext) -> None:
    """Give softmax over the dimensions from `axis` on of a sum."""
    b, x = context.builder, context.input(0)
    total = x + expand(b, context.input(1), x.dimensions)
    first = context.axis(context.attribute("axis", integer, 1), x.rank)
    context.set_output(0, softmax(b, total, [*range(first, x.rank)]))


@op(_PREFIX + "BiasAdd", domain=DOMAIN, inputs=3)
def bias_add(context: OpKernelContext) -> None:
    """Give the sum of two inputs and a number for each channel, the last dimension."""
    b, x = context.builder, context.input(0)
    context.set_output(0, x + along(b, context.input(1), 2, x.dimensions) + context.input(2))


@op(_PREFIX + "BiasSplitGelu", domain=DOMAIN, inputs=2)
def bias_split_gelu(context: OpKernelContext) -> None:
    """Give the first half of the last dimension times gelu of the other, a bias added to both."""
    b, x = context.builder, context.input(0)
    x = x + along(b, context.input(1), x.rank - 1, x.dimensions)
    half = x.dimensions[-1] // 2
    left, right = arrays.split(b, x, [half, half], x.rank - 1)
    context.set_output(0, left * elementwise.gelu(b, right))


@op(_PREFIX + "GemmFastGelu", domain=DOMAIN, inputs=(2, 3))
def gemm_fast_gelu(context: OpKernelContext) -> None:
    """Give the approximation of gelu by tanh, of a product plus a bias."""
    b = context.builder
    found = contraction.matmul(b, context.input(0), context.input(1))
    bias = context.optional(2)
    if bias is not None:
        found = found + expand(b, bias, found.dimensions)
    context.set_output(0, elementwise.gelu_tanh(b, found))


@op(_PREFIX + "ComplexMul", _PREFIX + "ComplexMulConj", domain=DOMAIN, inputs=2)
def complex_product(context: OpKernelContext) -> None:
    """Give the products of complex numbers, each two numbers of the last dimension."""
    b = context.builder
    x, y = together(b, context.inputs())
    (a, i), (c, d) = [arrays.split(b, z, [1, 1], x.rank - 1) for z in (x, y)]
    if context.node.op.endswith("Conj"):
        d = b.negate(d)
    context.set_output(0, b.concatenate([a * c - i * d, a * d + i * c], x.rank - 1))


@op(_PREFIX + "Inverse", domain=DOMAIN, inputs=1)
def inverse(context: OpKernelContext) -> None:
    """Give the inverse of each matrix."""
    b, x = context.builder, context.input(0)
    n, narrow = x.dimensions[-1], x.element_type
    wide = b.convert(x, ElementType.F32) if narrow.bits < 32 else x
    found = elimination.inverted(b, b.reshape(wide, [math.prod(x.dimensions[:-2]), n, n]))
    context.set_output(0, b.convert(b.reshape(found, x.dimensions), narrow))


@op(_PREFIX + "NGramRepeatBlock", domain=DOMAIN, inputs=2)
def blocked_repetitions(context: OpKernelContext) -> None:
    """Give scores [n, words], -inf for words that would repeat a run of `ngram_size` words."""
    b, words, scores = context.builder, context.input(0), context.input(1)
    size = context.attribute("ngram_size", integer)
    n, length = words.dimensions
    count = length - size + 1
    if count <= 0:
        context.set_output(0, scores)
        return
    places = np.arange(count)[:, None] + np.arange(size)
    runs = indexing.take(b, words, b.constant(places), 1)
    hits = b.broadcast(b.constant(True), [n, count], [])
    if size > 1:
        last = b.slice(words, [0, length - size + 1], [n, length], [1, 1])
        start = b.slice(runs, [0, 0, 0], [n, count, size - 1], [1, 1, 1])
        same_words = start.eq(b.broadcast(last, start.dimensions, [0, 2]))
        hits = reduce(b, "all", same_words, [2])
    ends = b.reshape(b.slice(runs, [0, 0, size - 1], [n, count, size], [1, 1, 1]), [n, count])
    sizes = [n, count, scores.dimensions[1]]
    vocabulary = b.constant(np.arange(sizes[2]), ends.element_type)
    hit = b.broadcast(ends, sizes, [0, 1]).eq(b.broadcast(vocabulary, sizes, [2]))
    blocked = reduce(b, "any", hit & b.broadcast(hits, sizes, [0, 1]), [1])
    least = b.broadcast(scalar(b, -math.inf, scores), scores.dimensions, [])
    context.set_output(0, b.select(blocked, least, scores))
