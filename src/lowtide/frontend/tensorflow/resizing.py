"""Images of other sizes by filters that are products of one matrix for each dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array


def _lanczos(radius: int) -> Callable[[Array], Array]:
    return lambda x: np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0.0)


def _cubic(b: float, c: float) -> Callable[[Array], Array]:
    """Filters of Mitchell and Netravali (1988, Reconstruction filters in computer graphics)."""

    def weights(x: Array) -> Array:
        x = np.abs(x)
        near = ((12 - 9 * b - 6 * c) * x**3 + (12 * b + 6 * c - 18) * x**2 + 6 - 2 * b) / 6
        far = (
            -(b + 6 * c) * x**3 + (6 * b + 30 * c) * x**2 - (12 * b + 48 * c) * x + 8 * b + 24 * c
        ) / 6
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))

    return weights


_FILTERS: Final[dict[str, tuple[float, Callable[[Array], Array]]]] = {
    "box": (1.0, lambda x: np.where(np.abs(x) < 0.5, 1.0, np.where(np.abs(x) == 0.5, 0.5, 0.0))),
    "gaussian": (1.5, lambda x: np.where(np.abs(x) < 1.5, np.exp(-2.0 * x * x), 0.0)),
    "keyscubic": (2.0, _cubic(0.0, 0.5)),
    "lanczos1": (1.0, _lanczos(1)),
    "lanczos3": (3.0, _lanczos(3)),
    "lanczos5": (5.0, _lanczos(5)),
    "mitchellcubic": (2.0, _cubic(1 / 3, 1 / 3)),
    "triangle": (1.0, lambda x: np.maximum(1.0 - np.abs(x), 0.0)),
}
"""How far a filter reaches, and its weights by distance."""


def _weights(
    n: int,
    m: int,
    scale: float,
    shift: float,
    kind: tuple[float, Callable[[Array], Array]],
    *,
    antialias: bool,
) -> Array:
    """Return the matrix [m, n] by which n elements give m; positions outside give 0."""
    reach, weights = kind
    wide = max(1 / scale, 1.0) if antialias else 1.0
    at = (np.arange(m) + 0.5) / scale - shift / scale
    distance = (np.arange(n) + 0.5 - at[:, None]) / wide
    first = np.ceil(at - reach * wide - 0.5)[:, None]
    last = np.floor(at + reach * wide - 0.5)[:, None]
    inside = (np.arange(n) >= first) & (np.arange(n) <= last)
    found = np.where(inside, weights(distance), 0.0)
    total = found.sum(1, keepdims=True)
    found = np.where(np.abs(total) >= 1e-20, found / np.where(total, total, 1.0), 0.0)
    return np.where(((at < 0) | (at > n))[:, None], 0.0, found)


def _applied(b: Builder, x: Op, rows: Array, columns: Array) -> Op:
    """Return images [n, h, w, c] after a matrix for their rows and one for their columns."""
    wide = b.convert(x, ElementType.F32)
    matrices = [b.constant(y.astype(np.float32)) for y in (rows, columns)]
    return contraction.einsum(b, "nhwc,ih,jw->nijc", [wide, *matrices])


def _image(context: OpKernelContext) -> Op:
    x = context.input(0)
    if x.rank != 4:
        raise context.error(f"expected an image of rank 4, found {x.shape}")
    return x


@op("ScaleAndTranslate", domain=DOMAIN, inputs=4)
def scale_and_translate(context: OpKernelContext) -> None:
    """Give images of another size, scaled and then moved."""
    x, sizes = _image(context), context.ints(1)
    kind = context.choice("kernel_type", _FILTERS, "lanczos3")
    antialias = context.attribute("antialias", flag, True)
    scales, shifts = [context.constant(i).tolist() for i in (2, 3)]
    rows, columns = [
        _weights(n, m, scale, shift, kind, antialias=antialias)
        for n, m, scale, shift in zip(x.dimensions[1:3], sizes, scales, shifts, strict=True)
    ]
    context.set_output(0, _applied(context.builder, x, rows, columns))


@op("ResizeBicubic", domain=DOMAIN, inputs=2)
def resize_bicubic(context: OpKernelContext) -> None:
    """Give images of another size by cubic interpolation.

    With half_pixel_centers the filter is that of Keys, whose weights outside do not count; else
    the elements at the border stand for those outside.
    """
    x, corners = _image(context), context.attribute("align_corners", flag, False)
    centers = context.attribute("half_pixel_centers", flag, False)
    matrices = []
    for n, m in zip(x.dimensions[1:3], context.ints(1), strict=True):
        step = (n - 1) / (m - 1) if corners and m > 1 else n / m
        at = (np.arange(m) + 0.5) * step - 0.5 if centers else np.arange(m) * step
        matrices.append(_cubic_matrix(at, n, centers=centers))
    context.set_output(0, _applied(context.builder, x, *matrices))


@op("ResizeArea", domain=DOMAIN, inputs=2)
def resize_area(context: OpKernelContext) -> None:
    """Give images of another size: each element is the mean of the part that it covers."""
    x, corners = _image(context), context.attribute("align_corners", flag, False)
    matrices = []
    for n, m in zip(x.dimensions[1:3], context.ints(1), strict=True):
        step = (n - 1) / (m - 1) if corners and m > 1 else n / m
        first = np.arange(m)[:, None] * step
        places = np.arange(n)
        covered = np.minimum(first + step, places + 1) - np.maximum(first, places)
        matrices.append(np.maximum(covered, 0.0) / step)
    context.set_output(0, _applied(context.builder, x, *matrices))


def _cubic_matrix(at: Array, n: int, *, centers: bool) -> Array:
    weights = _cubic(0.0, 0.5) if centers else _cubic(0.0, 0.75)
    found = np.zeros((len(at), n))
    for row, place in zip(found, at, strict=True):
        base = math.floor(place)
        # Weights come from a table of 1,024 parts of a step.
        part = round((place - base) * 1024) / 1024
        taps = np.arange(-1, 3)
        values = weights(taps - part)
        places = base + taps
        if centers:
            values = np.where((places < 0) | (places >= n), 0.0, values)
            total = values.sum()
            values = values / (total if abs(total) > 1e-3 else 1.0)
        np.add.at(row, np.clip(places, 0, n - 1), values)
    return found
