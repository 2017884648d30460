"""Ops of TensorFlow that combine slices by segment, scatter them, or sort numbers into buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import indexing, reductions
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.elementwise import zeros_like
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.element_type import ElementType

_SEGMENTS: Final = {
    "SegmentMax": "max",
    "SegmentMean": "mean",
    "SegmentMin": "min",
    "SegmentProd": "mul",
    "SegmentSum": "add",
}
_UNSORTED: Final = {f"Unsorted{x}": y for x, y in _SEGMENTS.items() if y != "mean"}
_SCATTERS: Final = {
    "TensorScatterAdd": "add",
    "TensorScatterMax": "max",
    "TensorScatterMin": "min",
    "TensorScatterSub": "add",
    "TensorScatterUpdate": "none",
}


@op(*_SEGMENTS, domain=DOMAIN, inputs=2)
def segment(context: OpKernelContext) -> None:
    """Give what slices along the first dimension come to by rising numbers of segments, else 0."""
    b, x, kind = context.builder, context.input(0), _SEGMENTS[context.node.op]
    segments = context.constant(1).reshape(-1)
    count = int(segments[-1]) + 1 if segments.size else 0
    found = _combined(context, "add" if kind == "mean" else kind, count)
    sizes = np.bincount(segments, minlength=count)
    if kind == "mean":
        number = b.constant(np.maximum(sizes, 1).astype(np.float64), x.element_type)
        found = found / along(b, number, 0, found.dimensions)
    if kind in ("max", "min") and not sizes.all():
        is_there = along(b, b.constant(sizes > 0), 0, found.dimensions)
        found = b.select(is_there, found, zeros_like(b, found))
    context.set_output(0, found)


@op(*_UNSORTED, domain=DOMAIN, inputs=3)
def unsorted_segment(context: OpKernelContext) -> None:
    """Give what slices come to by segment; those of a negative number count for none."""
    found = _combined(context, _UNSORTED[context.node.op], context.one_int(2))
    context.set_output(0, found)


def _combined(context: OpKernelContext, kind: str, count: int) -> Op:
    x, segments = context.input(0), context.input(1)
    return indexing.put_in_segments(context.builder, x, segments, kind, count)


@op(*_SCATTERS, domain=DOMAIN, inputs=3)
def tensor_scatter(context: OpKernelContext) -> None:
    """Give the input with slices stored, or combined, at index vectors."""
    x, indices, updates = context.inputs()
    if context.node.op == "TensorScatterSub":
        updates = -updates
    kind = _SCATTERS[context.node.op]
    context.set_output(0, indexing.put_vectors(context.builder, x, indices, updates, kind))


@op("Bucketize", domain=DOMAIN, inputs=1)
def bucketize(context: OpKernelContext) -> None:
    """Give how many of some boundaries are not above each element."""
    boundaries = context.attribute("boundaries", lambda x: [real(y) for y in x])
    _counted(context, context.input(0), np.array(boundaries, np.float32))


def _counted(context: OpKernelContext, x: Op, boundaries: Any) -> None:
    b = context.builder
    wide = b.broadcast(x, [*x.dimensions, len(boundaries)], range(x.rank))
    if x.element_type.is_integer:
        wide = b.convert(wide, ElementType.F32)
    limits = b.constant(boundaries, wide.element_type)
    reached = wide.ge(along(b, limits, x.rank, wide.dimensions))
    ones = b.convert(reached, ElementType.S32)
    context.set_output(0, reductions.reduce(b, "sum", ones, [x.rank]))


@op("LowerBound", "UpperBound", domain=DOMAIN, inputs=2)
def bound(context: OpKernelContext) -> None:
    """Give how many elements of each sorted row are below values, or not above them."""
    b, rows, values = context.builder, context.input(0), context.input(1)
    sizes = [*values.dimensions, rows.dimensions[1]]
    left, right = b.broadcast(rows, sizes, [0, 2]), b.broadcast(values, sizes, [0, 1])
    counts = left.lt(right) if context.node.op == "LowerBound" else left.le(right)
    element_type = context.element_type("out_type", ElementType.S32)
    context.set_output(0, reductions.reduce(b, "sum", b.convert(counts, element_type), [2]))


@op("InTopKV2", "InTopK", domain=DOMAIN, inputs=(2, 3))
def in_top_k(context: OpKernelContext) -> None:
    """Give whether fewer than k elements of each row are above the one of a class."""
    b, x, classes = context.builder, context.input(0), context.input(1)
    k = context.one_int(2) if context.has_input(2) else context.attribute("k", int)
    own = indexing.take(b, x, b.reshape(classes, [*classes.dimensions, 1]), 1, 1)
    above = b.convert(x.gt(expand(b, own, x.dimensions)), ElementType.S32)
    context.set_output(0, reductions.reduce(b, "sum", above, [1]).lt(k))


@op("NthElement", domain=DOMAIN, inputs=2)
def nth_element(context: OpKernelContext) -> None:
    """Give the element of each row that comes after n others in order."""
    b, x, n = context.builder, context.input(0), context.one_int(1)
    is_last = bool(context.node.attributes.get("reverse"))
    last = x.rank - 1
    found, _ = reductions.top_k(b, x, n + 1, last, ElementType.S32, largest=is_last)
    starts = [*[0] * last, n]
    context.set_output(
        0, b.reshape(b.slice(found, starts, [*x.dimensions[:-1], n + 1]), x.dimensions[:-1])
    )


@op("DynamicStitch", "ParallelDynamicStitch", domain=DOMAIN)
def dynamic_stitch(context: OpKernelContext) -> None:
    """Give slices of several inputs at the places that others name; later ones win."""
    b, half = context.builder, context.input_count // 2
    places = [context.constant(i).reshape(-1) for i in range(half)]
    count = max([int(x.max()) + 1 for x in places if x.size], default=0)
    flat = []
    for number, at in enumerate(places):
        x = context.input(half + number)
        rank = context.constant(number).ndim
        flat.append(b.reshape(x, [at.size, *x.dimensions[rank:]]))
    joined = flat[0] if half == 1 else b.concatenate(flat, 0)
    source = np.zeros(count, np.int32)
    source[np.concatenate(places)] = np.arange(sum([x.size for x in places]))
    context.set_output(0, indexing.take(b, joined, b.constant(source), 0))


@op("Bincount", "DenseBincount", domain=DOMAIN, inputs=3)
def bincount(context: OpKernelContext) -> None:
    """Give how often each number below a size occurs in rows, or the sums of weights where it does.

    With `binary_output` it is whether the number occurs.
    """
    b, x, weights, size = context.builder, context.input(0), context.input(2), _size(context)
    if x.rank not in (1, 2):
        raise context.error(f"expected a vector or a matrix, found {x.shape}")
    is_binary = bool(context.node.attributes.get("binary_output"))
    if is_binary or not weights.shape.element_count:
        weights = b.broadcast(b.constant(1, weights.element_type), x.dimensions, [])
    zeros = b.broadcast(scalar(b, 0, weights), [*x.dimensions[:-1], size], [])
    places = indexing.element_vectors(b, x, x.rank - 1)
    kind = "max" if is_binary else "add"
    context.set_output(0, indexing.put_vectors(b, zeros, places, weights, kind))


def _size(context: OpKernelContext) -> int:
    """Input 1: a constant, or one that constants hold from both sides to one number."""
    if context.known(1) is None:
        low, high = _bounds(context.input(1).instruction)
        if low is not None and low == high:
            return low
    return context.one_int(1)


def _bounds(x: Instruction) -> tuple[int | None, int | None]:
    """What a number is at least and at most, by maxima and minima with constants."""
    if x.opcode is Opcode.CONSTANT:
        value = int(x.attributes_as(Constant).literal.array)
        return value, value
    if x.opcode not in (Opcode.MAXIMUM, Opcode.MINIMUM):
        return None, None
    ends = [y.operands[0] if y.opcode is Opcode.CONVERT else y for y in x.operands]
    (a, b), (c, d) = _bounds(ends[0]), _bounds(ends[1])
    if x.opcode is Opcode.MAXIMUM:
        return _known(max, a, c), None if b is None or d is None else max(b, d)
    return None if a is None or c is None else min(a, c), _known(min, b, d)


def _known(function: Callable[..., int], *values: int | None) -> int | None:
    found = [x for x in values if x is not None]
    return function(found) if found else None


@op("UnravelIndex", domain=DOMAIN, inputs=2)
def unravel_index(context: OpKernelContext) -> None:
    """Give the index vectors, as columns, of places in an array of some sizes."""
    b, x, sizes = context.builder, context.input(0), context.ints(1)
    rows = []
    for i in range(len(sizes)):
        below = int(np.prod(sizes[i + 1 :], dtype=np.int64))
        rows.append(b.reshape(b.remainder(b.divide(x, below), sizes[i]), [1, *x.dimensions]))
    context.set_output(0, rows[0] if len(rows) == 1 else b.concatenate(rows, 0))


@op("HistogramFixedWidth", domain=DOMAIN, inputs=3)
def histogram(context: OpKernelContext) -> None:
    """Give how many elements fall into each of equal parts of a range."""
    b, x, ends, count = context.builder, context.input(0), context.input(1), context.one_int(2)
    low, high = [b.reshape(b.slice(ends, [i], [i + 1]), []) for i in range(2)]
    size = x.shape.element_count
    flat = b.reshape(x, [size])
    spread = [b.broadcast(y, [size], []) for y in (low, high - low)]
    step = b.floor((flat - spread[0]) / spread[1] * float(count))
    last = b.constant(count - 1, step.element_type)
    place = b.convert(b.clamp(scalar(b, 0, step), step, last), ElementType.S32)
    dtype = context.element_type("dtype", ElementType.S32)
    zeros = b.broadcast(b.constant(0, dtype), [count], [])
    ones = b.broadcast(b.constant(1, dtype), [size], [])
    vectors = b.reshape(place, [*place.dimensions, 1])
    context.set_output(0, indexing.put_vectors(b, zeros, vectors, ones, "add"))
