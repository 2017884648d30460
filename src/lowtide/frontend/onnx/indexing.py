"""Ops of ONNX that choose or store elements by indices, which may count from the end."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, integer
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays, indexing
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.reductions import axis_of
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType


@op("Gather", domain=DOMAIN, inputs=2)
def gather(context: OpKernelContext) -> None:
    """Give slices of the input along a dimension."""
    b, (x, indices) = context.builder, context.inputs()
    axis = axis_of(context, 0, x.rank)
    places = indexing.from_end(b, indices, x.dimensions[axis])
    context.set_output(0, indexing.take(b, x, places, axis))


@op("GatherElements", domain=DOMAIN, inputs=2)
def gather_elements(context: OpKernelContext) -> None:
    """Give single elements, at the same place but along one dimension."""
    b, (x, indices) = context.builder, context.inputs()
    context.set_output(0, indexing.take_vectors(b, x, _element_vectors(context, x, indices)))


def _element_vectors(context: OpKernelContext, x: Op, indices: Op) -> Op:
    axis = axis_of(context, 0, x.rank)
    b = context.builder
    places = indexing.from_end(b, indices, x.dimensions[axis])
    return indexing.element_vectors(b, places, axis)


@op("GatherND", domain=DOMAIN, inputs=2)
def gather_nd(context: OpKernelContext) -> None:
    """Give slices of the input at index vectors."""
    x, indices = context.inputs()
    batch = context.attribute("batch_dims", integer, 0)
    places = _vectors_from_end(context, indices, x.dimensions[batch:])
    context.set_output(0, indexing.take_vectors(context.builder, x, places, batch))


def _vectors_from_end(context: OpKernelContext, indices: Op, sizes: tuple[int, ...]) -> Op:
    b = context.builder
    length = np.array(sizes[: indices.dimensions[-1]])
    limits = b.constant(length, indices.element_type)
    wide = b.broadcast(limits, indices.dimensions, [indices.rank - 1])
    return b.select(indices.lt(0), indices + wide, indices)


@op("ScatterND", domain=DOMAIN, inputs=3)
def scatter_nd(context: OpKernelContext) -> None:
    """Give the input with slices stored or combined at index vectors."""
    x, indices, updates = context.inputs()
    places = _vectors_from_end(context, indices, x.dimensions)
    kind = _scatter_kind(context)
    context.set_output(0, indexing.put_vectors(context.builder, x, places, updates, kind))


@op("ScatterElements", "Scatter", domain=DOMAIN, inputs=3)
def scatter_elements(context: OpKernelContext) -> None:
    """Give the input with single elements stored or combined along one dimension."""
    x, indices, updates = context.inputs()
    places = _element_vectors(context, x, indices)
    kind = _scatter_kind(context)
    context.set_output(0, indexing.put_vectors(context.builder, x, places, updates, kind))


def _scatter_kind(context: OpKernelContext) -> str:
    known = {name: name for name in indexing.SCATTER_KINDS}
    return context.choice("reduction", known, "none")


@op("OneHot", domain=DOMAIN, inputs=3)
def one_hot(context: OpKernelContext) -> None:
    """Give a vector for each index that is values[0] but in one place values[1]."""
    b, indices, depth = context.builder, context.input(0), int(context.constant(1).reshape(()))
    off, on = [arrays.reshaped(b, x, []) for x in arrays.split(b, context.input(2), [1, 1], 0)]
    axis = axis_of(context, -1, indices.rank + 1)
    if indices.element_type.is_floating:
        indices = b.convert(indices, ElementType.S64)
    places = indexing.from_end(b, indices, depth)
    context.set_output(0, indexing.one_hot(b, places, depth, on, off, axis))


@op("ReverseSequence", domain=DOMAIN, inputs=2)
def reverse_sequence(context: OpKernelContext) -> None:
    """Give the first elements of each sequence, as many as it is long, in reverse order."""
    b, x, lengths = context.builder, context.input(0), context.input(1)
    time = context.axis(context.attribute("time_axis", integer, 0), x.rank)
    batch = context.axis(context.attribute("batch_axis", integer, 1), x.rank)
    order = [batch, time, *[i for i in range(x.rank) if i not in (batch, time)]]
    moved = b.transpose(x, order)
    sizes = moved.dimensions[:2]
    place = b.iota(array_shape(lengths.element_type, sizes), 1)
    ends = b.broadcast(lengths, sizes, [0])
    chosen = b.select(place.lt(ends), ends - 1 - place, place)
    found = indexing.take(b, moved, chosen, 1, 1)
    context.set_output(0, b.transpose(found, [order.index(i) for i in range(x.rank)]))


@op("TensorScatter", domain=DOMAIN, inputs=(2, 3))
def tensor_scatter(context: OpKernelContext) -> None:
    """Give a cache with new entries of each batch from its place on."""
    b, x, new = context.builder, context.input(0), context.input(1)
    axis = context.axis(context.attribute("axis", integer, -2), x.rank)
    is_circular = context.choice("mode", {"linear": False, "circular": True}, "linear")
    order = [0, axis, *[i for i in range(1, x.rank) if i != axis]]
    moved, updates = b.transpose(x, order), b.transpose(new, order)
    sizes = updates.dimensions[:2]
    index = array_shape(ElementType.S64, sizes)
    place = b.iota(index, 1)
    if context.has_input(2):
        place = place + b.broadcast(context.input(2), sizes, [0])
    if is_circular:
        place = b.remainder(place, b.constant(moved.dimensions[1], ElementType.S64))
    parts = [b.reshape(y, [*sizes, 1]) for y in (b.iota(index, 0), place)]
    found = indexing.put_vectors(b, moved, b.concatenate(parts, 2), updates)
    context.set_output(0, b.transpose(found, [order.index(i) for i in range(x.rank)]))


@op("ai.onnx.ml.ArrayFeatureExtractor", domain=DOMAIN, inputs=2)
def array_feature_extractor(context: OpKernelContext) -> None:
    """Give elements of the last dimension; those of a vector are a row."""
    b, x, places = context.builder, context.input(0), context.input(1)
    if x.rank == 1:
        x = b.reshape(x, [1, *x.dimensions])
    flat = b.reshape(places, [places.shape.element_count])
    context.set_output(0, indexing.take(b, x, flat, x.rank - 1))
