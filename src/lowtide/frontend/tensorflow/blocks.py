"""Ops of TensorFlow on parts of arrays: blocks, bands, diagonals, shifts and windows."""

from __future__ import annotations

import math

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, integers, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays, indexing
from lowtide.frontend.graphs.shared.broadcasting import expand, joined, scalar
from lowtide.frontend.graphs.shared.reductions import cumulative
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir import Opcode, array_shape
from lowtide.ir.attributes import Window, WindowDimension
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES


@op("SpaceToBatchND", domain=DOMAIN, inputs=3)
def space_to_batch(context: OpKernelContext) -> None:
    """Give blocks of space, after padding, as batch entries, in the order of the block first."""
    b, x, block = context.builder, context.input(0), context.ints(1)
    count = len(block)
    widths = [(0, 0), *[tuple(y) for y in context.constant(2).tolist()]]
    widths += [(0, 0)] * (x.rank - len(widths))
    x = arrays.padded(b, x, scalar(b, 0, x), widths)
    n, space, rest = x.dimensions[0], x.dimensions[1 : count + 1], x.dimensions[count + 1 :]
    if any(s % k for s, k in zip(space, block, strict=True)):
        raise context.error(f"{list(space)} is no multiple of blocks of {block}")
    parts = [y for s, k in zip(space, block, strict=True) for y in (s // k, k)]
    wide = b.reshape(x, [n, *parts, *rest])
    inner = range(2, 2 * count + 1, 2)
    outer = range(1, 2 * count, 2)
    moved = b.transpose(wide, [*inner, 0, *outer, *range(2 * count + 1, wide.rank)])
    sizes = [s // k for s, k in zip(space, block, strict=True)]
    context.set_output(0, b.reshape(moved, [n * math.prod(block), *sizes, *rest]))


@op("BatchToSpaceND", domain=DOMAIN, inputs=3)
def batch_to_space(context: OpKernelContext) -> None:
    """Give batch entries as blocks of space, which is cropped."""
    b, x, block = context.builder, context.input(0), context.ints(1)
    count, total = len(block), math.prod(block)
    if x.dimensions[0] % total:
        raise context.error(f"{x.dimensions[0]} batch entries are no multiple of blocks {block}")
    n, space, rest = (
        x.dimensions[0] // total,
        x.dimensions[1 : count + 1],
        x.dimensions[count + 1 :],
    )
    wide = b.reshape(x, [*block, n, *space, *rest])
    pairs = [y for i in range(count) for y in (count + 1 + i, i)]
    moved = b.transpose(wide, [count, *pairs, *range(2 * count + 1, wide.rank)])
    sizes = [s * k for s, k in zip(space, block, strict=True)]
    joint = b.reshape(moved, [n, *sizes, *rest])
    crops = context.constant(2).tolist()
    parts = [slice(low, s - high) for s, (low, high) in zip(sizes, crops, strict=True)]
    context.set_output(
        0, arrays.sliced(b, joint, [slice(None), *parts, *[slice(None)] * len(rest)])
    )


def _offsets(b: Builder, sizes: tuple[int, ...]) -> Op:
    """The number of the diagonal on which each element of matrices lies: column less row."""
    shape = array_shape(ElementType.S32, sizes)
    return b.iota(shape, len(sizes) - 1) - b.iota(shape, len(sizes) - 2)


@op("MatrixBandPart", domain=DOMAIN, inputs=3)
def band_part(context: OpKernelContext) -> None:
    """Give matrices with zeros outside of a band; a negative width keeps all."""
    b, x, (lower, upper) = context.builder, context.input(0), [context.one_int(i) for i in (1, 2)]
    at = _offsets(b, x.dimensions)
    rows, columns = x.dimensions[-2:]
    low, high = -(rows if lower < 0 else lower), columns if upper < 0 else upper
    inside = at.ge(low) & at.le(high)
    context.set_output(0, b.select(inside, x, _zeros(b, x, x.dimensions)))


def _zeros(b: Builder, like: Op, sizes: tuple[int, ...]) -> Op:
    zero = b.constant(np.zeros((), DTYPES[like.element_type]))
    return b.broadcast(zero, sizes, [])


@op("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", domain=DOMAIN, inputs=(1, 5))
def matrix_diag(context: OpKernelContext) -> None:
    """Give square matrices with the last dimension as their main diagonal, or another one."""
    b, x, number = context.builder, context.input(0), _diagonal(context, 1)
    size = x.dimensions[-1] + abs(number)
    given = [context.known(i) for i in (2, 3)]
    if any(y is not None and int(y.reshape(-1)[0]) not in (-1, size) for y in given):
        raise context.error("matrices that are not square")
    filled = context.input(4) if context.has_input(4) else _zeros(b, x, ())
    low, high = (0, number) if number >= 0 else (-number, 0)
    widths = [*[(0, 0)] * (x.rank - 1), (low, high)]
    along_rows = arrays.padded(b, x, _zeros(b, x, ()), widths)
    sizes = (*x.dimensions[:-1], size, size)
    spread = b.broadcast(along_rows, sizes, range(x.rank))
    outside = b.broadcast(b.reshape(filled, []), sizes, [])
    context.set_output(0, b.select(_offsets(b, sizes).eq(number), spread, outside))


@op("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", domain=DOMAIN, inputs=(1, 3))
def matrix_diag_part(context: OpKernelContext) -> None:
    """Give the main diagonal of matrices, or another one."""
    b, x, number = context.builder, context.input(0), _diagonal(context, 1)
    rows, columns = x.dimensions[-2:]
    first = (max(-number, 0), max(number, 0))
    count = min(rows - first[0], columns - first[1])
    places = (np.arange(count) + first[0]) * columns + np.arange(count) + first[1]
    flat = b.reshape(x, [*x.dimensions[:-2], rows * columns])
    found = indexing.take(b, flat, b.constant(places.astype(np.int32)), flat.rank - 1)
    context.set_output(0, found)


def _diagonal(context: OpKernelContext, number: int) -> int:
    """The number of a diagonal in an input; raises GraphError for several."""
    found = context.ints(number) if context.has_input(number) else [0]
    if len(set(found)) != 1:
        raise context.error(f"diagonals {found}: one was expected")
    return found[0]


@op("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", domain=DOMAIN, inputs=(2, 3))
def matrix_set_diag(context: OpKernelContext) -> None:
    """Give matrices with another main diagonal, or another diagonal."""
    b, x, values, number = (
        context.builder,
        context.input(0),
        context.input(1),
        _diagonal(context, 2),
    )
    start = max(-number, 0)
    widths = [
        *[(0, 0)] * (values.rank - 1),
        (start, x.dimensions[-2] - start - values.dimensions[-1]),
    ]
    wide = arrays.padded(b, values, _zeros(b, x, ()), widths)
    spread = b.broadcast(wide, x.dimensions, range(x.rank - 1))
    context.set_output(0, b.select(_offsets(b, x.dimensions).eq(number), spread, x))


@op("Roll", domain=DOMAIN, inputs=3)
def roll(context: OpKernelContext) -> None:
    """Give the input shifted along some dimensions; what leaves comes in at the other end."""
    b, x = context.builder, context.input(0)
    for shift, axis in zip(context.ints(1), context.ints(2), strict=True):
        at, size = context.axis(axis, x.rank), x.dimensions[context.axis(axis, x.rank)]
        if size and shift % size:
            first = arrays.split(b, x, [size - shift % size, shift % size], at)
            x = b.concatenate([first[1], first[0]], at)
    context.set_output(0, x)


@op("ReverseSequence", domain=DOMAIN, inputs=2)
def reverse_sequence(context: OpKernelContext) -> None:
    """Give the input with the first elements along a dimension in reverse, by batch entry."""
    b, x, lengths = context.builder, context.input(0), context.input(1)
    along = context.axis(context.attribute("seq_dim", integer), x.rank)
    batch = context.axis(context.attribute("batch_dim", integer, 0), x.rank)
    shape = array_shape(lengths.element_type, x.dimensions)
    at, count = b.iota(shape, along), b.broadcast(lengths, x.dimensions, [batch])
    places = b.select(at.lt(count), count - at - 1, at)
    context.set_output(0, indexing.take_vectors(b, x, indexing.element_vectors(b, places, along)))


@op("BroadcastArgs", domain=DOMAIN, inputs=2)
def broadcast_args(context: OpKernelContext) -> None:
    """Give the sizes to which two others broadcast."""
    sizes = [context.ints(i) for i in range(2)]
    dtype = context.constant(0).dtype
    context.set_output(0, np.array(joined(sizes), dtype))


@op("VariableShape", domain=DOMAIN, inputs=1)
def variable_shape(context: OpKernelContext) -> None:
    """Give the sizes of a variable."""
    dtype = DTYPES[context.element_type("out_type", ElementType.S32)]
    context.set_output(0, np.array(context.expression(0).shape.dimensions, dtype))


@op("LRN", domain=DOMAIN, inputs=1)
def local_response(context: OpKernelContext) -> None:
    """Give each element by a power of the sum of squares over channels near its own."""
    b, x = context.builder, context.input(0)
    radius = context.attribute("depth_radius", integer, 5)
    window = [WindowDimension(1)] * (x.rank - 1)
    window.append(WindowDimension(2 * radius + 1, padding_low=radius, padding_high=radius))
    add = b.scalar_computation(Opcode.ADD, x.element_type)
    total = b.reduce_window(x * x, scalar(b, 0, x), add, Window(tuple(window)))
    bias, alpha, beta = [
        context.attribute(name, real, value)
        for name, value in (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))
    ]
    power = expand(b, scalar(b, -beta, x), x.dimensions)
    context.set_output(0, x * b.power(total * alpha + bias, power))


@op("ExtractImagePatches", "ExtractVolumePatches", domain=DOMAIN, inputs=1)
def extract_patches(context: OpKernelContext) -> None:
    """Give the elements of each window of an image or a volume as channels."""
    b, x = context.builder, context.input(0)
    n, *image, channels = x.dimensions
    ones = [1] * x.rank
    sizes, strides, rates = [
        context.attribute(y, integers, ones)[1:-1] for y in ("ksizes", "strides", "rates")
    ]
    reach = [(k - 1) * r + 1 for k, r in zip(sizes, rates, strict=True)]
    steps = [(m - k) // s + 1 for m, k, s in zip(image, reach, strides, strict=True)]
    if context.attribute("padding", text) == "SAME":
        steps = [-(-m // s) for m, s in zip(image, strides, strict=True)]
        missing = [
            max((p - 1) * s + k - m, 0)
            for p, s, k, m in zip(steps, strides, reach, image, strict=True)
        ]
        around = [(y // 2, y - y // 2) for y in missing]
        x = arrays.padded(b, x, scalar(b, 0, x), [(0, 0), *around, (0, 0)])
    taps = []
    for place in np.ndindex(*sizes):
        first = [i * r for i, r in zip(place, rates, strict=True)]
        ends = [f + (p - 1) * s + 1 for f, p, s in zip(first, steps, strides, strict=True)]
        taps.append(b.slice(x, [0, *first, 0], [n, *ends, channels], [1, *strides, 1]))
    context.set_output(0, arrays.concatenated(b, taps, x.rank - 1))


@op("Cumprod", domain=DOMAIN, inputs=2)
def cumprod(context: OpKernelContext) -> None:
    """Give running products along a dimension."""
    x = context.input(0)
    exclusive, reverse = [context.attribute(y, flag, False) for y in ("exclusive", "reverse")]
    axis = context.axis(context.one_int(1), x.rank)
    found = cumulative(context.builder, "prod", x, axis, exclusive=exclusive, reverse=reverse)
    context.set_output(0, found)
