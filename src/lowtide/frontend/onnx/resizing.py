"""Ops of ONNX that give images other sizes, or their values at other places."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, integers, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import indexing
from lowtide.frontend.graphs.shared.broadcasting import along, scalar
from lowtide.frontend.graphs.shared.sampling import (
    CUBIC,
    clamped,
    neighbours,
    reflected,
    resizing_weights,
    sample,
)
from lowtide.frontend.onnx.networks import window_of
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Resizing:
    """How one dimension of n elements becomes one of m; `roi` is the part of it that is taken."""

    n: int
    m: int
    scale: float
    roi: tuple[float, float]


@op("Resize", "Upsample", domain=DOMAIN, inputs=(1, 4))
def resize(context: OpKernelContext) -> None:
    """Give other sizes by the nearest elements, or by linear or cubic interpolation."""
    b, x = context.builder, context.input(0)
    plans = _resizings(context, x.dimensions)
    mode = context.choice("mode", _MODES, "nearest")
    coordinates = [_coordinates(context, plan) for plan in plans]
    outside = _outside(context, plans, coordinates)
    for axis, (plan, at) in enumerate(zip(plans, coordinates, strict=True)):
        if plan.n == plan.m and at.tolist() == list(range(plan.n)):
            continue
        x = _along_axis(context, x, axis, plan, at, mode)
    if outside is not None:
        value = scalar(b, context.attribute("extrapolation_value", real, 0.0), x)
        x = b.select(b.constant(outside), b.broadcast(value, x.dimensions, []), x)
    context.set_output(0, x)


_MODES: Final = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}


def _along_axis(
    context: OpKernelContext, x: Op, axis: int, plan: Resizing, at: Array, mode: str
) -> Op:
    b = context.builder
    if mode == "nearest":
        chosen = np.clip(_rounded(context, at), 0, plan.n - 1).astype(np.int64)
        return indexing.resized_nearest(b, x, _only(x.rank, axis, chosen))
    exclude = context.attribute("exclude_outside", flag, False)
    antialias = context.attribute("antialias", flag, False)
    if mode == "linear" and not exclude and not antialias and x.element_type.is_floating:
        return indexing.resized_linear(b, x, _only(x.rank, axis, at))
    matrix = resizing_weights(
        at,
        plan.n,
        plan.scale,
        mode,
        a=context.attribute("cubic_coeff_a", real, CUBIC),
        exclude_outside=exclude,
        antialias=antialias,
    )
    return _multiplied(b, x, axis, matrix)


def _only(rank: int, axis: int, value: Array) -> list[Array | None]:
    return [value if i == axis else None for i in range(rank)]


def _multiplied(b: Builder, x: Op, axis: int, matrix: Array) -> Op:
    """X with the dimension `axis` multiplied by a matrix [m, n]; whole numbers are rounded."""
    kind = x.element_type
    wide = x if kind.is_floating else b.convert(x, ElementType.F32)
    weights = b.constant(matrix, wide.element_type)
    product = b.dot(wide, weights, DotDimensions((axis,), (1,), (), ()))
    order = [*range(axis), x.rank - 1, *range(axis, x.rank - 1)]
    result = b.transpose(product, order)
    return result if kind.is_floating else b.convert(b.round_nearest_even(result), kind)


def _resizings(context: OpKernelContext, old: tuple[int, ...]) -> list[Resizing]:
    is_old = context.node.op == "Upsample" or context.input_count == 2
    axes = context.axes(context.attribute("axes", integers, list(range(len(old)))), len(old))
    given = context.attribute("axes", integers, axes)
    order = [x % len(old) for x in given]
    sizes, scales = list(old), [1.0] * len(old)
    if context.has_input(3):
        wanted = context.ints(3)
        _fit_sizes(context, order, wanted, sizes, scales)
    else:
        found = _scales(context, 1 if is_old else 2)
        if len(found) != len(order):
            raise context.error(f"expected {len(order)} scales, found {found}")
        for axis, scale in zip(order, found, strict=True):
            size = np.floor(np.float32(old[axis]) * np.float32(scale))
            scales[axis], sizes[axis] = scale, int(size)
    rois = [(0.0, 1.0)] * len(old)
    if context.attribute("coordinate_transformation_mode", text, "") == "tf_crop_and_resize":
        roi = [float(x) for x in context.constant(1)]
        for number, axis in enumerate(order):
            rois[axis] = roi[number], roi[number + len(order)]
    parts = zip(old, sizes, scales, rois, strict=True)
    return [Resizing(*part) for part in parts]


def _scales(context: OpKernelContext, number: int) -> list[float]:
    if not context.has_input(number):
        return context.attribute("scales", lambda x: [float(y) for y in x])
    return [float(s) for s in context.constant(number)]


def _fit_sizes(
    context: OpKernelContext,
    order: list[int],
    wanted: list[int],
    sizes: list[int],
    scales: list[float],
) -> None:
    if len(wanted) != len(order):
        raise context.error(f"expected {len(order)} sizes, found {wanted}")
    found = [m / sizes[axis] for m, axis in zip(wanted, order, strict=True)]
    policy = context.attribute("keep_aspect_ratio_policy", text, "stretch")
    if policy != "stretch":
        scale = min(found) if policy == "not_larger" else max(found)
        found = [scale] * len(order)
        wanted = [math.floor(scale * sizes[axis] + 0.5) for axis in order]
    for axis, m, scale in zip(order, wanted, found, strict=True):
        sizes[axis], scales[axis] = m, scale


def _coordinates(context: OpKernelContext, plan: Resizing) -> Array:
    """Where the elements of a result lie in the operand along one dimension.

    Scales are f32, in which 1 over a third is 3: with more digits the place would be one below.
    """
    at = np.arange(plan.m, dtype=np.float64)
    mode = context.attribute("coordinate_transformation_mode", text, "half_pixel")
    n, m, scale = plan.n, plan.m, plan.scale
    if n == m and scale == 1 and mode != "tf_crop_and_resize":
        return at
    narrow, half = at.astype(np.float32), np.float32(0.5)
    if context.node.op == "Upsample" or mode == "asymmetric" or 0 < context.version < 11:
        return (narrow / np.float32(scale)).astype(np.float64)
    if mode == "tf_half_pixel_for_nn":
        return ((narrow + half) / np.float32(scale)).astype(np.float64)
    if mode == "align_corners":
        length = np.float32(n) * np.float32(scale)
        last = length - 1 if length != 1 else np.float32(np.inf)
        return (narrow * np.float32(n - 1) / last).astype(np.float64)
    if mode == "tf_crop_and_resize":
        start, end = plan.roi
        if m == 1:
            return at * 0 + 0.5 * (start + end) * (n - 1)
        return start * (n - 1) + at * (end - start) * (n - 1) / (m - 1)
    if mode == "pytorch_half_pixel" and m == 1:
        return at * 0 - 0.5
    shift = n / 2 * (1 - m / (n * scale)) if mode == "half_pixel_symmetric" else 0.0
    if mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        return shift + ((narrow + half) / np.float32(scale) - half).astype(np.float64)
    raise context.error(f"coordinate_transformation_mode {mode!r} is not known")


def _outside(
    context: OpKernelContext, plans: list[Resizing], coordinates: list[Array]
) -> Array | None:
    """Whether each element lies outside of the image, where that has a value of its own."""
    if context.attribute("coordinate_transformation_mode", text, "") != "tf_crop_and_resize":
        return None
    found = np.zeros([plan.m for plan in plans], bool)
    for axis, (plan, at) in enumerate(zip(plans, coordinates, strict=True)):
        sizes = [-1 if i == axis else 1 for i in range(len(plans))]
        found |= ((at < 0) | (at > plan.n - 1)).reshape(sizes)
    return found if found.any() else None


def _rounded(context: OpKernelContext, at: Array) -> Array:
    is_old = context.node.op == "Upsample" or 0 < context.version < 11
    known = {
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
        "floor": np.floor(at),
        "ceil": np.ceil(at),
    }
    return context.choice("nearest_mode", known, "floor" if is_old else "round_prefer_floor")


# -- values at computed places ---------------------------------------------------------------------


@op("GridSample", domain=DOMAIN, inputs=2)
def grid_sample(context: OpKernelContext) -> None:
    """Give the values of an image at the places of a grid, whose coordinates are within [-1, 1]."""
    b, x, grid = context.builder, context.input(0), context.input(1)
    mode = context.choice("mode", {**_MODES, "bicubic": "cubic"}, "linear")
    padding = context.attribute("padding_mode", text, "zeros")
    aligned = context.attribute("align_corners", flag, False)
    sizes = x.dimensions[2:]
    count = len(sizes)
    points = math.prod(grid.dimensions[1:-1])
    flat = b.reshape(grid, [grid.dimensions[0], points, count])
    taps = []
    borders = [(0.0, n - 1.0) if aligned else (-0.5, n - 0.5) for n in sizes]
    for i, n in enumerate(sizes):
        part = b.slice(flat, [0, 0, count - 1 - i], [*flat.dimensions[:2], count - i], [1, 1, 1])
        at = b.reshape(part, flat.dimensions[:2]) + 1
        at = at * ((n - 1) / 2) if aligned else (at * n - 1) / 2
        if mode == "nearest":
            at = b.round_nearest_even(at)
        if padding == "border" and mode != "cubic":  # There neighbours alone are clamped.
            at = b.select(at.lt(borders[i][0]) | at.gt(borders[i][1]), clamped(b, at, n), at)
        elif padding == "reflection":
            mirrored = reflected(b, at, *borders[i])
            at = b.select(at.lt(borders[i][0]) | at.gt(borders[i][1]), mirrored, at)
        found = neighbours(b, at, mode)
        taps.append([(clamped(b, y, n), w) for y, w in found] if padding == "border" else found)
    result = sample(b, x, taps, borders if padding == "reflection" else None)
    context.set_output(0, b.reshape(result, [*x.dimensions[:2], *grid.dimensions[1:-1]]))


def _at(b: Builder, x: Op, number: int) -> Op:
    """The part of x, of rank 4, at one place of its third dimension."""
    sizes = x.dimensions
    return b.slice(x, [0, 0, number, 0], [*sizes[:2], number + 1, sizes[3]], [1] * 4)


@op("DeformConv", domain=DOMAIN, inputs=(3, 5))
def deform_conv(context: OpKernelContext) -> None:
    """Give a convolution whose elements are taken at places that are moved by offsets."""
    b, x, kernel, moves = context.builder, *[context.input(i) for i in range(3)]
    sizes = list(kernel.dimensions[2:])
    shape = window_of(context, x.dimensions[2:], sizes)
    parts = context.attribute("offset_group", integer, 1)
    n, channels = x.dimensions[:2]
    places = list(moves.dimensions[2:])
    spots, points = math.prod(sizes), math.prod(places)
    moves = b.reshape(moves, [n * parts, spots, len(sizes), points])
    taps = []
    for i, entry in enumerate(shape.entries()):
        grid = np.indices([*sizes, *places])
        starts = grid[len(sizes) + i] * entry.stride - entry.padding_low
        base = (starts + grid[i] * entry.window_dilation).reshape(spots, points)
        own = b.reshape(_at(b, moves, i), [n * parts, spots, points])
        at = own + b.broadcast(b.constant(base, own.element_type), own.dimensions, [1, 2])
        taps.append(neighbours(b, b.reshape(at, [n * parts, spots * points]), "linear"))
    image = b.reshape(x, [n * parts, channels // parts, *x.dimensions[2:]])
    values = sample(b, image, taps, None)
    mask = context.optional(4)
    if mask is not None:
        flat = b.reshape(mask, [n * parts, spots * points])
        values = values * b.broadcast(flat, values.dimensions, [0, 2])
    groups = context.attribute("group", integer, 1)
    outputs = kernel.dimensions[0]
    columns = b.reshape(values, [n, groups, channels // groups * spots, points])
    rows = b.reshape(kernel, [groups, outputs // groups, channels // groups * spots])
    rows = b.broadcast(rows, [n, *rows.dimensions], [1, 2, 3])
    result = b.reshape(b.matmul(rows, columns), [n, outputs, *places])
    bias = context.optional(3)
    context.set_output(0, result if bias is None else result + along(b, bias, 1, result.dimensions))
