"""Ops of ONNX that choose or store elements by indices, which may count from the end."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, integer, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import arrays, indexing
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.reductions import axis_of
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array


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


@op("ScatterElements", domain=DOMAIN, inputs=3)
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


@op("Resize", "Upsample", domain=DOMAIN, inputs=(1, 4))
def resize(context: OpKernelContext) -> None:
    """Give other sizes by the nearest elements or by linear interpolation."""
    b, x = context.builder, context.input(0)
    sizes, scales = _sizes_and_scales(context, x.dimensions)
    linear = context.choice("mode", {"nearest": False, "linear": True}, "nearest")
    coordinates = [
        None if n == m and scale == 1 else _coordinates(context, n, m, scale)
        for n, m, scale in zip(x.dimensions, sizes, scales, strict=True)
    ]
    if linear:
        context.set_output(0, indexing.resized_linear(b, x, coordinates))
        return
    chosen = [
        None if at is None else np.clip(_rounded(context, at), 0, n - 1).astype(np.int64)
        for at, n in zip(coordinates, x.dimensions, strict=True)
    ]
    context.set_output(0, indexing.resized_nearest(b, x, chosen))


def _sizes_and_scales(
    context: OpKernelContext, old: tuple[int, ...]
) -> tuple[list[int], list[float]]:
    is_old = context.node.op == "Upsample" or context.input_count == 2
    if context.has_input(3):
        sizes = context.ints(3)
        return sizes, [m / n for m, n in zip(sizes, old, strict=True)]
    scales = [float(s) for s in context.constant(1 if is_old else 2)]
    if len(scales) != len(old):
        raise context.error(f"expected {len(old)} scales, found {scales}")
    return [int(np.floor(n * s)) for n, s in zip(old, scales, strict=True)], scales


def _coordinates(context: OpKernelContext, n: int, m: int, scale: float) -> Array:
    at = np.arange(m)
    mode = context.attribute("coordinate_transformation_mode", text, "half_pixel")
    if context.node.op == "Upsample" or mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * (n - 1) / max(m - 1, 1)
    if mode == "pytorch_half_pixel" and m == 1:
        return np.zeros(1)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (at + 0.5) / scale - 0.5
    raise context.error(f"coordinate_transformation_mode {mode!r} is not supported")


def _rounded(context: OpKernelContext, at: Array) -> Array:
    default = "floor" if context.node.op == "Upsample" else "round_prefer_floor"
    known = {
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
        "floor": np.floor(at),
        "ceil": np.ceil(at),
    }
    return context.choice("nearest_mode", known, default)
