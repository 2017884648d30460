"""Pooling, and normalizations over channels or trailing dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.frontend.graphs.shared.reductions import mean, start_of
from lowtide.ir import Opcode
from lowtide.ir.literal import Array


def max_pool(b: Builder, x: Op, spatial: Sequence[int], shape: WindowShape) -> Op:
    """Return the greatest element in each position of a window over the spatial dimensions."""
    start = scalar(b, start_of("max", x.element_type), x)
    step = b.scalar_computation(Opcode.MAXIMUM, x.element_type)
    return b.reduce_window(x, start, step, shape.window(spatial, x.rank))


def average_pool(
    b: Builder, x: Op, spatial: Sequence[int], shape: WindowShape, *, counts_padding: bool = False
) -> Op:
    """Return the mean in each position of a window; padding counts as zeros, or not at all."""
    window = shape.window(spatial, x.rank)
    step = b.scalar_computation(Opcode.ADD, x.element_type)
    total = b.reduce_window(x, scalar(b, 0.0, x), step, window)
    if counts_padding or not any(map(any, shape.padding)):
        return total / float(prod(shape.sizes))
    return total / elements_met(b, x, spatial, shape, total)


def elements_met(
    b: Builder, x: Op, spatial: Sequence[int], shape: WindowShape, result: Op
) -> Op | int:
    """Return how many elements of x, without padding, a window meets for each one of a result.

    That is a number where there is no padding, else a constant over the spatial dimensions.
    """
    if not any(map(any, shape.padding)):
        return prod(shape.sizes)
    ones = np.pad(np.ones([x.dimensions[i] for i in spatial], np.float32), shape.padding)
    counts = b.constant(window_sums(ones, shape), result.element_type)
    return b.broadcast(counts, result.dimensions, spatial)


def window_sums(ones: Array, shape: WindowShape) -> Array:
    """Return the sum of each window of a padded array that is a product of one along each axis."""
    for axis, entry in enumerate(shape.entries()):
        reach = (entry.size - 1) * entry.window_dilation + 1
        count = (ones.shape[axis] - reach) // entry.stride + 1
        starts = np.arange(count) * entry.stride
        parts = [ones.take(starts + i * entry.window_dilation, axis) for i in range(entry.size)]
        ones = np.sum(parts, axis=0)
    return ones


def batch_norm(
    b: Builder, x: Op, scale: Op, offset: Op, mean_: Op, variance: Op, epsilon: float, axis: int
) -> Op:
    """Return x normalized by the mean and variance of its channel, then scaled and shifted."""
    factor = scale * b.rsqrt(variance + epsilon)
    shift = offset - mean_ * factor
    sizes = x.dimensions
    return x * along(b, factor, axis, sizes) + along(b, shift, axis, sizes)


def moments(b: Builder, x: Op, axes: Sequence[int]) -> tuple[Op, Op]:
    """Return mean and variance over some dimensions, which stay as 1."""
    center = mean(b, x, axes, keep=True)
    difference = x - center
    return center, mean(b, difference * difference, axes, keep=True)


def normalized(b: Builder, x: Op, axes: Sequence[int], epsilon: float) -> tuple[Op, Op, Op]:
    """Return x with mean 0 and variance 1 over some dimensions, the mean, and 1 / deviation."""
    center, variance = moments(b, x, axes)
    inverse = b.rsqrt(variance + epsilon)
    return (x - center) * inverse, center, inverse


def scaled(b: Builder, x: Op, scale: Op, offset: Op | None) -> Op:
    """Return x times a scale plus an offset, both broadcast as in NumPy."""
    result = x * expand(b, scale, x.dimensions)
    return result if offset is None else result + expand(b, offset, x.dimensions)
