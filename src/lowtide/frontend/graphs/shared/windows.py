"""Pooling, and normalizations over channels or trailing dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.frontend.graphs.shared.elementwise import ones_like
from lowtide.frontend.graphs.shared.reductions import mean, start_of
from lowtide.ir import Opcode


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
        count = 1
        for size in shape.sizes:
            count *= size
        return total / float(count)
    return total / b.reduce_window(ones_like(b, x), scalar(b, 0.0, x), step, window)


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
