"""Ops of ONNX that make, reshape, join, part and pad arrays."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, integers, real
from lowtide.frontend.graphs.graph import NoTensorFormError
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays
from lowtide.frontend.graphs.shared.broadcasting import expand, joined, scalar
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.reductions import axes_of, axis_of
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, ELEMENT_TYPES


@op("Constant", domain=DOMAIN, inputs=0)
def constant(context: OpKernelContext) -> None:
    """Give the array, number or list among the attributes."""
    for name, dtype in _CONSTANTS:
        if name in context.node.attributes:
            context.set_output(0, np.asarray(context.node.attributes[name], dtype))
            return
    if any(name in context.node.attributes for name in ("value_string", "value_strings")):
        message = "text has no tensor form"
        raise NoTensorFormError(message, node=context.node.name, op="Constant")
    known = ", ".join([name for name, _ in _CONSTANTS])
    raise context.error(f"expected one of the attributes {known}")


_CONSTANTS = (
    ("value", None),
    ("value_float", np.float32),
    ("value_floats", np.float32),
    ("value_int", np.int64),
    ("value_ints", np.int64),
    ("sparse_value", None),
)


@op("ConstantOfShape", domain=DOMAIN, inputs=1)
def constant_of_shape(context: OpKernelContext) -> None:
    """Give an array of one value, 0 in f32 by default."""
    value = context.attribute("value", np.asarray, np.zeros(1, np.float32))
    b = context.builder
    context.set_output(0, b.broadcast(b.constant(value.reshape(())), context.ints(0), []))


@op("Reshape", domain=DOMAIN, inputs=2)
def reshape(context: OpKernelContext) -> None:
    """Give other sizes: 0 keeps that of the input (unless `allowzero`), -1 is what is left."""
    x, sizes = context.input(0), context.ints(1)
    if not context.attribute("allowzero", flag, False):
        if any(n == 0 and i >= x.rank for i, n in enumerate(sizes)):
            raise context.error(f"0 in {sizes} has no dimension of {x.shape} to copy")
        sizes = [n or x.dimensions[i] for i, n in enumerate(sizes)]
    context.set_output(0, arrays.reshaped(context.builder, x, sizes))


@op("Flatten", domain=DOMAIN, inputs=1)
def flatten(context: OpKernelContext) -> None:
    """Give a matrix whose rows are the dimensions before `axis`."""
    x = context.input(0)
    axis = context.attribute("axis", integer, 1)
    if not -x.rank <= axis <= x.rank:
        raise context.error(f"axis {axis} is out of range for rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    sizes = [math.prod(x.dimensions[:axis]), math.prod(x.dimensions[axis:])]
    context.set_output(0, context.builder.reshape(x, sizes))


@op("Transpose", domain=DOMAIN, inputs=1)
def transpose(context: OpKernelContext) -> None:
    """Give the dimensions in another order, by default the reverse one."""
    x = context.input(0)
    order = context.attribute("perm", integers, list(reversed(range(x.rank))))
    context.set_output(0, context.builder.transpose(x, order))


@op("Unsqueeze", domain=DOMAIN, inputs=(1, 2))
def unsqueeze(context: OpKernelContext) -> None:
    """Give the input with dimensions of size 1."""
    x, given = context.input(0), axes_of(context, 1)
    axes = context.axes(given, x.rank + len(given))
    context.set_output(0, arrays.inserted(context.builder, x, axes))


@op("Squeeze", domain=DOMAIN, inputs=(1, 2))
def squeeze(context: OpKernelContext) -> None:
    """Give the input without the named dimensions, or all, of size 1."""
    x = context.input(0)
    axes = context.axes(axes_of(context, 1), x.rank)
    found = axes or [i for i, n in enumerate(x.dimensions) if n == 1]
    context.set_output(0, arrays.squeezed(context.builder, x, found))


@op("Concat", domain=DOMAIN, inputs=(1, 1 << 30))
def concat(context: OpKernelContext) -> None:
    """Give the inputs one after another."""
    values = context.inputs()
    axis = context.axis(context.attribute("axis", integer), values[0].rank)
    context.set_output(0, arrays.concatenated(context.builder, values, axis))


@op("Split", domain=DOMAIN, inputs=(1, 2))
def split(context: OpKernelContext) -> None:
    """Give parts of the given sizes, or as equal as can be."""
    x = context.input(0)
    axis = axis_of(context, 0, x.rank)
    sizes = context.ints(1) if context.has_input(1) else context.attribute("split", integers, [])
    if not sizes:
        count = context.attribute("num_outputs", integer, len(context.node.outputs))
        each = -(-x.dimensions[axis] // count)
        sizes = [min(each, x.dimensions[axis] - i * each) for i in range(count)]
    context.set_outputs(arrays.split(context.builder, x, sizes, axis))


@op("Slice", domain=DOMAIN, inputs=(1, 5))
def slice_(context: OpKernelContext) -> None:
    """Give a part: starts, ends, axes and steps as inputs, or attributes before opset 10."""
    x = context.input(0)
    starts, ends, axes, steps = [
        context.ints(i) if context.has_input(i) else context.attribute(name, integers, [])
        for i, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    ]
    axes = axes or list(range(len(starts)))
    steps = steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise context.error(f"starts {starts}, ends {ends}, axes {axes}, steps {steps} do not fit")
    parts = [slice(None)] * x.rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        parts[context.axis(axis, x.rank)] = slice(start, end, step)
    context.set_output(0, arrays.sliced(context.builder, x, parts))


@op("Pad", domain=DOMAIN, inputs=(1, 4))
def pad(context: OpKernelContext) -> None:
    """Give the input with a value, its mirror image or its borders around it."""
    b, x = context.builder, context.input(0)
    given = context.ints(1) if context.has_input(1) else context.attribute("pads", integers)
    axes = context.ints(3) if context.has_input(3) else list(range(x.rank))
    if len(given) != 2 * len(axes):
        raise context.error(f"expected {2 * len(axes)} pads, found {given}")
    padding = [(0, 0)] * x.rank
    for number, axis in enumerate(axes):
        padding[context.axis(axis, x.rank)] = given[number], given[number + len(axes)]
    modes = {"constant": "", "reflect": "mirror", "edge": "edge", "wrap": "wrap"}
    mode = context.choice("mode", modes, "constant")
    if mode:  # What is cut off is no part of what is mirrored or repeated.
        cut = [(min(low, 0), min(high, 0)) for low, high in padding]
        x = arrays.padded(b, x, scalar(b, 0, x), cut)
        padding = [(max(low, 0), max(high, 0)) for low, high in padding]
    if mode == "mirror":
        result = arrays.mirrored(b, x, padding, with_edge=False)
    elif mode == "wrap":
        result = arrays.wrapped(b, x, padding)
    elif mode == "edge":
        result = arrays.repeated_edges(b, x, padding)
    else:
        filled = context.optional(2)
        if filled is None:
            filled = scalar(b, context.attribute("value", real, 0.0), x)
        value = arrays.reshaped(b, filled, [])
        result = arrays.padded(b, x, value, padding)
    context.set_output(0, result)


@op("Expand", domain=DOMAIN, inputs=2)
def expand_(context: OpKernelContext) -> None:
    """Give the input broadcast together with sizes."""
    x = context.input(0)
    sizes = joined([x.dimensions, context.ints(1)])
    context.set_output(0, expand(context.builder, x, sizes))


@op("Tile", domain=DOMAIN, inputs=2)
def tile(context: OpKernelContext) -> None:
    """Give the input repeated along each dimension."""
    context.set_output(0, arrays.tiled(context.builder, context.input(0), context.ints(1)))


@op("Shape", domain=DOMAIN, inputs=1)
def shape(context: OpKernelContext) -> None:
    """Give the sizes of the input, or those from `start` to `end`."""
    sizes = context.expression(0).shape.dimensions
    part = slice(context.attribute("start", integer, 0), context.attribute("end", integer, None))
    context.set_output(0, np.array(sizes[part], np.int64))


@op("Size", domain=DOMAIN, inputs=1)
def size(context: OpKernelContext) -> None:
    """Give the number of elements."""
    context.set_output(0, np.array(context.expression(0).shape.element_count, np.int64))


@op("Range", domain=DOMAIN, inputs=(2, 3))
def range_(context: OpKernelContext) -> None:
    """Give start, start + delta, ... below the limit, a constant."""
    start, limit = [context.constant(i) for i in range(2)]
    delta = context.constant(2) if context.has_input(2) else np.ones((), start.dtype)
    if not delta:
        raise context.error("delta is 0")
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    if count <= _SHORT:
        values = start.item() + np.arange(count) * delta.item()
        context.set_output(0, values.astype(start.dtype))
        return
    b, kind = context.builder, ELEMENT_TYPES[start.dtype]
    steps = b.iota(array_shape(kind, (count,)), 0)
    context.set_output(0, steps * scalar(b, delta.item(), steps) + scalar(b, start.item(), steps))


_SHORT: Final = 1 << 16
"""Ranges of more elements are not made before the program runs."""


@op("EyeLike", domain=DOMAIN, inputs=1)
def eye_like(context: OpKernelContext) -> None:
    """Give ones on a diagonal of a matrix."""
    shape = context.expression(0).shape
    dtype = DTYPES[context.element_type("dtype", shape.element_type)]
    diagonal = context.attribute("k", integer, 0)
    if shape.rank != 2:
        raise context.error(f"expected a matrix, found {shape.text(layout=False)}")
    rows, columns = shape.dimensions
    context.set_output(0, np.eye(rows, columns, diagonal).astype(dtype))


@op("Trilu", domain=DOMAIN, inputs=(1, 2))
def trilu(context: OpKernelContext) -> None:
    """Give one triangle of matrices, the rest 0."""
    b, x = context.builder, context.input(0)
    diagonal = context.one_int(1) if context.has_input(1) else 0
    index = array_shape(ElementType.S64, x.dimensions)
    offset = b.iota(index, x.rank - 1) - b.iota(index, x.rank - 2)
    is_upper = context.attribute("upper", flag, True)
    kept = offset.ge(diagonal) if is_upper else offset.le(diagonal)
    context.set_output(0, b.select(kept, x, scalar(b, 0, x)))


@op("SpaceToDepth", domain=DOMAIN, inputs=1)
def space_to_depth(context: OpKernelContext) -> None:
    """Give blocks of the image, of layout NCHW, as channels."""
    b, x, size = context.builder, context.input(0), context.attribute("blocksize", integer)
    depth_first = context.choice("mode", {"DCR": False, "CRD": True}, "DCR")
    n, c, h, w = x.dimensions
    if h % size or w % size:
        raise context.error(f"{h} x {w} is no multiple of blocks of {size}")
    order = [0, 1, 3, 5, 2, 4] if depth_first else [0, 3, 5, 1, 2, 4]
    parts = b.transpose(b.reshape(x, [n, c, h // size, size, w // size, size]), order)
    context.set_output(0, b.reshape(parts, [n, c * size * size, h // size, w // size]))


@op("DepthToSpace", domain=DOMAIN, inputs=1)
def depth_to_space(context: OpKernelContext) -> None:
    """Give channels as blocks of the image, of layout NCHW."""
    b, block = context.builder, context.attribute("blocksize", integer)
    depth_first = context.choice("mode", {"DCR": False, "CRD": True}, "DCR")
    image = b.transpose(context.input(0), [0, 2, 3, 1])
    result = arrays.depth_to_blocks(b, image, block, depth_first=depth_first)
    context.set_output(0, b.transpose(result, [0, 3, 1, 2]))
