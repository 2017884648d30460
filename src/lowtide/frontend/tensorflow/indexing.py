"""Ops of TensorFlow that choose elements by indices."""

from __future__ import annotations

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import indexing
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.frontend.tensorflow.reductions import axis_of


@op("Gather", domain=DOMAIN, inputs=2)
def gather(context: OpKernelContext) -> None:
    """Give rows of the input."""
    x, indices = context.inputs()
    context.set_output(0, indexing.take(context.builder, x, indices, 0))


@op("GatherV2", domain=DOMAIN, inputs=3)
def gather_v2(context: OpKernelContext) -> None:
    """Give slices of the input along a dimension."""
    x, indices = context.input(0), context.input(1)
    batch = axis_of(context, "batch_dims", 0, indices.rank + 1)
    axis = context.axis(context.one_int(2), x.rank)
    context.set_output(0, indexing.take(context.builder, x, indices, axis, batch))


@op("GatherNd", domain=DOMAIN, inputs=2)
def gather_nd(context: OpKernelContext) -> None:
    """Give slices of the input at index vectors."""
    x, indices = context.inputs()
    context.set_output(0, indexing.take_vectors(context.builder, x, indices))


@op("ScatterNd", domain=DOMAIN, inputs=3)
def scatter_nd(context: OpKernelContext) -> None:
    """Give zeros with updates added at index vectors."""
    b, indices, updates = context.builder, context.input(0), context.input(1)
    zeros = b.broadcast(b.constant(0, updates.element_type), context.ints(2), [])
    context.set_output(0, indexing.put_vectors(b, zeros, indices, updates, "add"))


@op("OneHot", domain=DOMAIN, inputs=4)
def one_hot(context: OpKernelContext) -> None:
    """Give a vector for each index that is `off` but in one place."""
    indices, on, off = context.input(0), context.input(2), context.input(3)
    axis = axis_of(context, "axis", -1, indices.rank + 1)
    depth = context.one_int(1)
    context.set_output(0, indexing.one_hot(context.builder, indices, depth, on, off, axis))


@op("ResizeNearestNeighbor", domain=DOMAIN, inputs=2)
def resize_nearest(context: OpKernelContext) -> None:
    """Give an image of another size from the nearest elements."""
    x = context.input(0)
    corners, centers = _coordinates(context)
    chosen = []
    for n, m in zip(x.dimensions[1:3], context.ints(1), strict=True):
        scale = _scale(n, m, corners=corners)
        at = (np.arange(m) + 0.5 * centers) * scale
        rounded = np.floor(at + 0.5) if corners else np.floor(at)
        chosen.append(np.clip(rounded, 0, n - 1).astype(np.int64))
    context.set_output(0, indexing.resized_nearest(context.builder, x, [None, *chosen, None]))


@op("ResizeBilinear", domain=DOMAIN, inputs=2)
def resize_bilinear(context: OpKernelContext) -> None:
    """Give an image of another size by linear interpolation."""
    x = context.input(0)
    corners, centers = _coordinates(context)
    shift = 0.5 if centers else 0.0
    at = [
        (np.arange(m) + shift) * _scale(n, m, corners=corners) - shift
        for n, m in zip(x.dimensions[1:3], context.ints(1), strict=True)
    ]
    context.set_output(0, indexing.resized_linear(context.builder, x, [None, *at, None]))


def _coordinates(context: OpKernelContext) -> tuple[bool, bool]:
    corners = context.attribute("align_corners", flag, False)
    centers = context.attribute("half_pixel_centers", flag, False)
    if corners and centers:
        raise context.error("align_corners and half_pixel_centers exclude one another")
    if context.input(0).rank != 4:
        raise context.error(f"expected an image of rank 4, found {context.input(0).shape}")
    return corners, centers


def _scale(n: int, m: int, *, corners: bool) -> float:
    return (n - 1) / (m - 1) if corners and m > 1 else n / m


@op("InvertPermutation", domain=DOMAIN, inputs=1)
def invert_permutation(context: OpKernelContext) -> None:
    """Give the inverse of a constant permutation."""
    order = context.constant(0)
    if sorted(order.tolist()) != list(range(order.size)):
        raise context.error(f"{order.tolist()} is no permutation")
    context.set_output(0, np.argsort(order).astype(order.dtype))
