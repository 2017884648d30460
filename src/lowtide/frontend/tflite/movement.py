"""Operators that move elements: parts, joins, padding, blocks, orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays, indexing
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType


@op("DENSIFY", domain=DOMAIN, inputs=1)
def densify(context: OpKernelContext) -> None:
    """Give the operand: sparse constants are read as dense ones."""
    context.set_output(0, context.expression(0))


@op("TRANSPOSE", domain=DOMAIN, inputs=2)
def transpose(context: OpKernelContext) -> None:
    """Give the dimensions in another order."""
    node, x = LiteNode(context), context.input(0)
    node.give(node.b.transpose(x, [context.axis(i, x.rank) for i in context.ints(1)]))


@op("REVERSE_V2", domain=DOMAIN, inputs=2)
def reverse(context: OpKernelContext) -> None:
    """Give the elements from the last to the first along some dimensions."""
    node, x = LiteNode(context), context.input(0)
    node.give(node.b.reverse(x, context.axes(context.ints(1), x.rank)))


@op("REVERSE_SEQUENCE", domain=DOMAIN, inputs=2)
def reverse_sequence(context: OpKernelContext) -> None:
    """Give the first elements of each entry of a batch, as many as its length, backwards."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    along, batch = context.axis(node.number(0), x.rank), context.axis(node.number(1), x.rank)
    places = array_shape(ElementType.S32, x.dimensions)
    lengths = b.broadcast(b.convert(context.input(1), ElementType.S32), x.dimensions, [batch])
    place = b.iota(places, along)
    source = b.select(place.lt(lengths), lengths - 1 - place, place)
    parts = [source if i == along else b.iota(places, i) for i in range(x.rank)]
    wide = [b.reshape(y, [*x.dimensions, 1]) for y in parts]
    vectors = wide[0] if len(wide) == 1 else b.concatenate(wide, x.rank)
    node.give(indexing.take_vectors(b, x, vectors))


@op("CONCATENATION", domain=DOMAIN)
def concatenation(context: OpKernelContext) -> None:
    """Give the operands one after another; those of other scales than the result are brought to it.

    Only unsigned numbers may have other scales.
    """
    node, x = LiteNode(context), context.inputs()
    if node.is_quantized:
        x = [_rescaled(node, i) for i in range(context.input_count)]
    axis = context.axis(node.number(0), x[0].rank)
    node.give(arrays.concatenated(node.b, x, axis), node.activation(1))


def _rescaled(node: LiteNode, number: int) -> Op:
    """An operand in the scale of the result, by floats as TFLite reckons them."""
    given, made, b = node.tensor(number), node.made, node.b
    scales = [quantized.scale_of(node, x) for x in (given, made)]
    zeros = [quantized.zero_of(x) for x in (given, made)]
    if scales[0] == scales[1] and zeros[0] == zeros[1]:
        return node.context.input(number)
    if given.type != "UINT8":
        raise node.refusal("operands of several scales")
    ratio = scales[0] * (np.float32(1) / scales[1])
    x = b.convert(node.context.input(number), ElementType.F32)
    found = b.round_nearest_afz(x * float(ratio) + float(np.float32(-zeros[0]) * ratio))
    found = b.convert(found, ElementType.S32) + zeros[1]
    return b.convert(b.maximum(b.minimum(found, 255), 0), ElementType.U8)


@op("PACK", domain=DOMAIN)
def pack(context: OpKernelContext) -> None:
    """Give the operands along a new dimension."""
    node, x = LiteNode(context), context.inputs()
    axis = context.axis(node.number(1), x[0].rank + 1)
    wide = [arrays.inserted(node.b, y, [axis]) for y in x]
    node.give(arrays.concatenated(node.b, wide, axis))


@op("UNPACK", domain=DOMAIN, inputs=1)
def unpack(context: OpKernelContext) -> None:
    """Give the parts along a dimension, without it."""
    node, x = LiteNode(context), context.input(0)
    axis = context.axis(node.number(1), x.rank)
    for part in arrays.split(node.b, x, [1] * x.dimensions[axis], axis):
        node.give(arrays.squeezed(node.b, part, [axis]))


@op("SPLIT", domain=DOMAIN, inputs=2)
def split(context: OpKernelContext) -> None:
    """Give equal parts along a dimension."""
    node, x = LiteNode(context), context.input(1)
    axis, count = context.axis(context.one_int(0), x.rank), node.output_count
    sizes = [x.dimensions[axis] // count] * count
    context.set_outputs(arrays.split(node.b, x, sizes, axis))


@op("SPLIT_V", domain=DOMAIN, inputs=3)
def split_v(context: OpKernelContext) -> None:
    """Give parts of some sizes along a dimension; -1 is what is left."""
    node, x = LiteNode(context), context.input(0)
    axis, sizes = context.axis(context.one_int(2), x.rank), context.ints(1)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.dimensions[axis] - sum(sizes) - 1
    context.set_outputs(arrays.split(node.b, x, sizes, axis))


@op("PAD", "PADV2", domain=DOMAIN, inputs=(2, 3))
def pad(context: OpKernelContext) -> None:
    """Give numbers with others around them: zeros, or what the third operand says."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    value = context.optional(2)
    if value is None:
        zero = quantized.zero_of(node.tensor(0)) if node.is_quantized else 0
        value = b.constant(zero, x.element_type)
    else:
        value = b.reshape(value, [])
    node.give(arrays.padded(b, x, value, _widths(context, 1)))


@op("MIRROR_PAD", domain=DOMAIN, inputs=2)
def mirror_pad(context: OpKernelContext) -> None:
    """Give numbers with their reflection around them: without the edge, or (1) with it."""
    node = LiteNode(context)
    found = arrays.mirrored(
        node.b, context.input(0), _widths(context, 1), with_edge=bool(node.code(0))
    )
    node.give(found)


def _widths(context: OpKernelContext, number: int) -> list[tuple[int, int]]:
    """Widths before and behind each dimension."""
    pairs = context.constant(number).reshape(-1, 2).tolist()
    return [(int(low), int(high)) for low, high in pairs]


@op("DILATE", domain=DOMAIN, inputs=3)
def dilate(context: OpKernelContext) -> None:
    """Give elements with some of a value between them, along each dimension."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    value = b.reshape(context.input(2), [])
    node.give(b.pad(x, value, [(0, 0, step - 1) for step in context.ints(1)]))


@op("TILE", domain=DOMAIN, inputs=2)
def tile(context: OpKernelContext) -> None:
    """Give elements again and again along each dimension."""
    node = LiteNode(context)
    node.give(arrays.tiled(node.b, context.input(0), context.ints(1)))


@op("SPACE_TO_DEPTH", domain=DOMAIN, inputs=1)
def space_to_depth(context: OpKernelContext) -> None:
    """Give blocks of an image as channels."""
    node = LiteNode(context)
    node.give(arrays.blocks_to_depth(node.b, context.input(0), max(node.number(0), 1)))


@op("DEPTH_TO_SPACE", domain=DOMAIN, inputs=1)
def depth_to_space(context: OpKernelContext) -> None:
    """Give channels as blocks of an image."""
    node = LiteNode(context)
    node.give(arrays.depth_to_blocks(node.b, context.input(0), max(node.number(0), 1)))


@op("SPACE_TO_BATCH_ND", domain=DOMAIN, inputs=3)
def space_to_batch(context: OpKernelContext) -> None:
    """Give each place of blocks, after padding, as entries of the batch of their own."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    blocks, widths = context.ints(1), _widths(context, 2)
    count = len(blocks)
    zero = quantized.zero_of(node.tensor(0)) if node.is_quantized else 0
    around = [(0, 0), *widths, *[(0, 0)] * (x.rank - 1 - count)]
    x = arrays.padded(b, x, b.constant(zero, x.element_type), around)
    n, *space = x.dimensions[: count + 1]
    rest = x.dimensions[count + 1 :]
    pairs = [y for size, block in zip(space, blocks, strict=True) for y in (size // block, block)]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count + 1, 2)]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    parts = b.transpose(b.reshape(x, [n, *pairs, *rest]), order)
    sizes = [size // block for size, block in zip(space, blocks, strict=True)]
    node.give(b.reshape(parts, [n * int(np.prod(blocks)), *sizes, *rest]))


@op("BATCH_TO_SPACE_ND", domain=DOMAIN, inputs=3)
def batch_to_space(context: OpKernelContext) -> None:
    """Give entries of the batch as places of blocks, without a border."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    blocks, crops = context.ints(1), _widths(context, 2)
    count = len(blocks)
    n = x.dimensions[0] // int(np.prod(blocks))
    space, rest = x.dimensions[1 : count + 1], x.dimensions[count + 1 :]
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    parts = b.transpose(b.reshape(x, [*blocks, n, *space, *rest]), order)
    sizes = [size * block for size, block in zip(space, blocks, strict=True)]
    found = b.reshape(parts, [n, *sizes, *rest])
    kept: Sequence[slice] = [
        slice(low, size - high) for size, (low, high) in zip(sizes, crops, strict=True)
    ]
    node.give(arrays.sliced(b, found, [slice(None), *kept, *[slice(None)] * len(rest)]))


@op("MATRIX_DIAG", domain=DOMAIN, inputs=1)
def matrix_diag(context: OpKernelContext) -> None:
    """Give matrices with the operand's last dimension on their diagonal."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    sizes = [*x.dimensions, x.dimensions[-1]]
    wide = b.broadcast(x, sizes, range(x.rank))
    zeros = b.broadcast(b.constant(0, x.element_type), sizes, [])
    node.give(b.select(_is_diagonal(b, sizes), wide, zeros))


@op("MATRIX_SET_DIAG", domain=DOMAIN, inputs=2)
def matrix_set_diag(context: OpKernelContext) -> None:
    """Give matrices with another diagonal."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    on = context.input(1)
    sizes = list(x.dimensions)
    if sizes[-2] <= sizes[-1]:
        wide = b.broadcast(on, sizes, range(x.rank - 1))
    else:
        wide = b.broadcast(on, sizes, [*range(x.rank - 2), x.rank - 1])
    node.give(b.select(_is_diagonal(b, sizes), wide, x))


def _is_diagonal(b: Builder, sizes: Sequence[int]) -> Op:
    places = array_shape(ElementType.S32, tuple(sizes))
    return b.iota(places, len(sizes) - 2).eq(b.iota(places, len(sizes) - 1))
