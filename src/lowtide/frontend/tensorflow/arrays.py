"""Ops of TensorFlow that make, reshape, join, part and pad arrays."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, integer, integers, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays
from lowtide.frontend.graphs.shared.broadcasting import expand, scalar
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.frontend.tensorflow.reductions import axis_of
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array


@op("Reshape", domain=DOMAIN, inputs=2)
def reshape(context: OpKernelContext) -> None:
    """Give the input with other sizes."""
    sizes = context.ints(1)
    context.set_output(0, arrays.reshaped(context.builder, context.input(0), sizes))


@op("Transpose", domain=DOMAIN, inputs=2)
def transpose(context: OpKernelContext) -> None:
    """Give the input with its dimensions in another order."""
    x = context.input(0)
    order = [context.axis(i, x.rank) for i in context.ints(1)]
    context.set_output(0, context.builder.transpose(x, order))


@op("ExpandDims", domain=DOMAIN, inputs=2)
def expand_dims(context: OpKernelContext) -> None:
    """Give the input with a dimension of size 1."""
    x = context.input(0)
    axis = context.axis(context.one_int(1), x.rank + 1)
    context.set_output(0, arrays.inserted(context.builder, x, [axis]))


@op("Squeeze", domain=DOMAIN, inputs=1)
def squeeze(context: OpKernelContext) -> None:
    """Give the input without the named dimensions, or all, of size 1."""
    x = context.input(0)
    named = context.attribute("squeeze_dims", integers, []) or context.attribute(
        "axis", integers, []
    )
    found = context.axes(named, x.rank) or [i for i, n in enumerate(x.dimensions) if n == 1]
    context.set_output(0, arrays.squeezed(context.builder, x, found))


@op("ConcatV2", domain=DOMAIN, inputs=(2, 1 << 30))
def concat_v2(context: OpKernelContext) -> None:
    """Give the inputs one after another; the last one is the dimension."""
    last = context.input_count - 1
    _concat(context, context.one_int(last), range(last))


@op("Concat", domain=DOMAIN, inputs=(2, 1 << 30))
def concat(context: OpKernelContext) -> None:
    """Give the inputs one after another; the first one is the dimension."""
    _concat(context, context.one_int(0), range(1, context.input_count))


def _concat(context: OpKernelContext, axis: int, numbers: range) -> None:
    values = [context.input(i) for i in numbers]
    at = context.axis(axis, values[0].rank)
    context.set_output(0, arrays.concatenated(context.builder, values, at))


@op("Split", domain=DOMAIN, inputs=2)
def split(context: OpKernelContext) -> None:
    """Give `num_split` equal parts along a dimension, the first input."""
    x, count = context.input(1), context.attribute("num_split", integer)
    axis = context.axis(context.one_int(0), x.rank)
    if count < 1 or x.dimensions[axis] % count:
        raise context.error(f"{list(x.dimensions)} has no {count} equal parts along {axis}")
    sizes = [x.dimensions[axis] // count] * count
    context.set_outputs(arrays.split(context.builder, x, sizes, axis))


@op("SplitV", domain=DOMAIN, inputs=3)
def split_v(context: OpKernelContext) -> None:
    """Give parts of the given sizes, one of which may be -1."""
    x = context.input(0)
    axis = context.axis(context.one_int(2), x.rank)
    sizes = context.ints(1)
    rest = x.dimensions[axis] - sum([n for n in sizes if n != -1])
    filled = [rest if n == -1 else n for n in sizes]
    context.set_outputs(arrays.split(context.builder, x, filled, axis))


@op("Pack", domain=DOMAIN, inputs=(1, 1 << 30))
def pack(context: OpKernelContext) -> None:
    """Give the inputs stacked along a new dimension."""
    b, values = context.builder, context.inputs()
    axis = axis_of(context, "axis", 0, values[0].rank + 1)
    wide = [arrays.inserted(b, x, [axis]) for x in values]
    context.set_output(0, arrays.concatenated(b, wide, axis))


@op("Unpack", domain=DOMAIN, inputs=1)
def unpack(context: OpKernelContext) -> None:
    """Give the slices along a dimension, without it."""
    b, x = context.builder, context.input(0)
    axis = axis_of(context, "axis", 0, x.rank)
    parts = arrays.split(b, x, [1] * x.dimensions[axis], axis)
    context.set_outputs([arrays.squeezed(b, part, [axis]) for part in parts])


@op("Slice", domain=DOMAIN, inputs=3)
def slice_(context: OpKernelContext) -> None:
    """Give the part of a size, -1 for all that is left, at a position.

    The position may depend on arguments where the size does not.
    """
    b, x, sizes = context.builder, context.input(0), context.ints(2)
    if context.known(1) is None and min(sizes, default=0) >= 0:
        at = context.input(1)
        first = [b.reshape(b.slice(at, [i], [i + 1]), []) for i in range(x.rank)]
        context.set_output(0, b.dynamic_slice(x, first, sizes))
        return
    starts = context.ints(1)
    if not len(starts) == len(sizes) == x.rank:
        raise context.error(f"begin {starts} and size {sizes} are not for rank {x.rank}")
    ends = [d if n == -1 else s + n for d, s, n in zip(x.dimensions, starts, sizes, strict=True)]
    if any(not 0 <= s <= e <= d for s, e, d in zip(starts, ends, x.dimensions, strict=True)):
        raise context.error(f"begin {starts} and size {sizes} leave {list(x.dimensions)}")
    parts = [slice(s, e) for s, e in zip(starts, ends, strict=True)]
    context.set_output(0, arrays.sliced(b, x, parts))


@op("StridedSlice", domain=DOMAIN, inputs=4)
def strided_slice(context: OpKernelContext) -> None:
    """Give what x[begin:end:strides] is, with TensorFlow's five masks."""
    b, x = context.builder, context.input(0)
    if context.known(1) is None:
        context.set_output(0, _entry(context, x))
        return
    parts, shape = _strided(context, x)
    result = arrays.sliced(b, x, parts)
    sizes = [n if i is None else result.dimensions[i] for i, n in shape]
    context.set_output(0, arrays.reshaped(b, result, sizes))


_MASKS: Final = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _entry(context: OpKernelContext, x: Op) -> Op:
    """Return x[i], or x[i, j] and so on, at places that depend on an argument.

    Raises GraphError for any other slice at such places: its size would not be known.
    """
    b, begin = context.builder, context.input(1)
    begins, ends, ellipsis, new, dropped = [context.attribute(y, integer, 0) for y in _MASKS]
    count = begin.dimensions[0]
    whole = [bool(begins >> i & 1) and bool(ends >> i & 1) for i in range(count)]
    shrinks = [bool(dropped >> i & 1) for i in range(count)]
    if ellipsis or new or not all(x or y for x, y in zip(whole, shrinks, strict=True)):
        raise context.error("its places depend on an argument, and are more than single ones")
    zero = b.constant(0, begin.element_type)
    starts, sizes = [zero] * x.rank, list(x.dimensions)
    for i in [i for i in range(count) if shrinks[i]]:
        at = b.reshape(b.slice(begin, [i], [i + 1], [1]), [])
        starts[i] = b.select(at.lt(0), at + x.dimensions[i], at)
        sizes[i] = 1
    found = b.dynamic_slice(x, starts, sizes)
    return b.reshape(found, [n for i, n in enumerate(sizes) if i >= count or not shrinks[i]])


def _strided(context: OpKernelContext, x: Op) -> tuple[list[slice], list[tuple[int | None, int]]]:
    """Return a slice for each dimension, and what each dimension of the result is.

    That is a dimension of x, or (None, 1) for a new one.
    """
    begin, end, step = [context.ints(i) for i in (1, 2, 3)]
    masks = [context.attribute(name, integer, 0) for name in _MASKS]
    bits = [[bool(mask >> i & 1) for mask in masks] for i in range(len(begin))]
    used = len([x for x in bits if not (x[2] or x[3])])
    if used > x.rank:
        raise context.error(f"{used} dimensions are sliced, but the input has rank {x.rank}")
    if not any(x[2] for x in bits):
        begin, end, step = [*begin, 0], [*end, 0], [*step, 1]
        bits.append([False, False, True, False, False])
    parts: list[slice] = []
    shape: list[tuple[int | None, int]] = []
    for i, (no_begin, no_end, is_rest, is_new, is_dropped) in enumerate(bits):
        if is_rest:
            for _ in range(x.rank - used):
                shape.append((len(parts), 0))
                parts.append(slice(None))
        elif is_new:
            shape.append((None, 1))
        elif is_dropped:
            at = context.axis(begin[i], x.dimensions[len(parts)])
            parts.append(slice(at, at + 1))
        else:
            shape.append((len(parts), 0))
            first, last = None if no_begin else begin[i], None if no_end else end[i]
            parts.append(slice(first, last, step[i]))
    return parts, shape


@op("Pad", "PadV2", domain=DOMAIN, inputs=(2, 3))
def pad(context: OpKernelContext) -> None:
    """Give the input with zeros, or a value, around it."""
    b, x = context.builder, context.input(0)
    value = context.optional(2)
    filled = scalar(b, 0, x) if value is None else value
    context.set_output(0, arrays.padded(b, x, filled, _pairs(context, x)))


@op("MirrorPad", domain=DOMAIN, inputs=2)
def mirror_pad(context: OpKernelContext) -> None:
    """Give the input reflected at its borders."""
    x = context.input(0)
    with_edge = context.choice("mode", {"REFLECT": False, "SYMMETRIC": True}, "REFLECT")
    result = arrays.mirrored(context.builder, x, _pairs(context, x), with_edge=with_edge)
    context.set_output(0, result)


def _pairs(context: OpKernelContext, x: Op) -> list[tuple[int, int]]:
    table = context.constant(1)
    if table.shape != (x.rank, 2):
        raise context.error(f"paddings have to be [{x.rank}, 2], found {list(table.shape)}")
    return [(int(low), int(high)) for low, high in table]


@op("Tile", domain=DOMAIN, inputs=2)
def tile(context: OpKernelContext) -> None:
    """Give the input repeated along each dimension."""
    context.set_output(0, arrays.tiled(context.builder, context.input(0), context.ints(1)))


@op("BroadcastTo", domain=DOMAIN, inputs=2)
def broadcast_to(context: OpKernelContext) -> None:
    """Give the input stretched to other sizes."""
    context.set_output(0, expand(context.builder, context.input(0), context.ints(1)))


@op("Fill", domain=DOMAIN, inputs=2)
def fill(context: OpKernelContext) -> None:
    """Give an array of one value."""
    context.set_output(0, expand(context.builder, context.input(1), context.ints(0)))


@op("ReverseV2", domain=DOMAIN, inputs=2)
def reverse(context: OpKernelContext) -> None:
    """Give the input with some dimensions running backwards."""
    x = context.input(0)
    axes = context.axes(context.ints(1), x.rank)
    context.set_output(0, context.builder.reverse(x, axes) if axes else x)


@op("Shape", domain=DOMAIN, inputs=1)
def shape(context: OpKernelContext) -> None:
    """Give the sizes of the input, a constant."""
    context.set_output(0, _sizes(context, 0))


@op("ShapeN", domain=DOMAIN)
def shape_n(context: OpKernelContext) -> None:
    """Give the sizes of all inputs."""
    for number in range(context.input_count):
        context.set_output(number, _sizes(context, number))


def _sizes(context: OpKernelContext, number: int) -> Array:
    dtype = DTYPES[context.element_type("out_type", ElementType.S32)]
    return np.array(context.expression(number).shape.dimensions, dtype)


@op("Size", domain=DOMAIN, inputs=1)
def size(context: OpKernelContext) -> None:
    """Give the number of elements."""
    dtype = DTYPES[context.element_type("out_type", ElementType.S32)]
    context.set_output(0, np.array(context.expression(0).shape.element_count, dtype))


@op("Rank", domain=DOMAIN, inputs=1)
def rank(context: OpKernelContext) -> None:
    """Give the number of dimensions."""
    context.set_output(0, np.array(context.expression(0).shape.rank, np.int32))


@op("Range", domain=DOMAIN, inputs=3)
def range_(context: OpKernelContext) -> None:
    """Give start, start + delta, ... below the limit, a constant."""
    start, limit, delta = [context.constant(i) for i in range(3)]
    if not delta:
        raise context.error("delta is 0")
    context.set_output(0, np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype))


@op("SpaceToDepth", domain=DOMAIN, inputs=1)
def space_to_depth(context: OpKernelContext) -> None:
    """Give blocks of the image as channels."""
    _require_nhwc(context)
    size = context.attribute("block_size", integer)
    context.set_output(0, arrays.blocks_to_depth(context.builder, context.input(0), size))


@op("DepthToSpace", domain=DOMAIN, inputs=1)
def depth_to_space(context: OpKernelContext) -> None:
    """Give channels as blocks of the image."""
    _require_nhwc(context)
    size = context.attribute("block_size", integer)
    context.set_output(0, arrays.depth_to_blocks(context.builder, context.input(0), size))


def _require_nhwc(context: OpKernelContext) -> None:
    layout = context.attribute("data_format", text, "NHWC")
    if layout != "NHWC":
        raise context.error(f"data_format {layout} is not supported: transpose to NHWC")
