"""Convolutions at few places as products of matrices.

What the window meets at each place is a row, and each filter a column, which lies in memory as the
rows do. A product of few rows reads each filter once as it lies, where a convolution packs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType

_MOST_ROWS: Final = 8
_LEAST_FILTERS: Final = 1 << 12
"""Elements of all filters for which it is worth it."""


def is_product_of_rows(x: Op, kernel: Op, shape: WindowShape) -> bool:
    """Return whether a convolution of [n, c, ...] with [o, c, ...] is better such a product."""
    if x.element_type is not ElementType.F32 or kernel.element_type is not ElementType.F32:
        return False
    if x.dimensions[1] != kernel.dimensions[1] or kernel.shape.element_count < _LEAST_FILTERS:
        return False
    return 0 < x.dimensions[0] * prod(_places(x, shape)) <= _MOST_ROWS


def product_of_rows(b: Builder, x: Op, kernel: Op, shape: WindowShape) -> Op:
    """Return the convolution: [n, o, ...]."""
    batch, outputs, places = x.dimensions[0], kernel.dimensions[0], _places(x, shape)
    if any(map(any, shape.padding)):
        sides = [(0, 0), (0, 0), *shape.padding]
        x = b.pad(x, b.constant(0, x.element_type), sides)
    size = prod(kernel.dimensions[1:])
    rows = [b.reshape(part, [batch, 1, size]) for part in _met(b, x, shape, places)]
    joined = rows[0] if len(rows) == 1 else b.concatenate(rows, 1)
    matrix = b.reshape(joined, [batch * len(rows), size])
    filters = b.reshape(kernel, [outputs, size])
    found = b.reshape(
        b.dot(matrix, filters, DotDimensions((1,), (1,))), [batch, len(rows), outputs]
    )
    return b.reshape(b.transpose(found, [0, 2, 1]), [batch, outputs, *places])


def _places(x: Op, shape: WindowShape) -> list[int]:
    """How many places there are along each dimension."""
    return [
        max(0, (size + low + high - (taps - 1) * dilation - 1) // stride + 1)
        for size, taps, stride, dilation, (low, high) in zip(
            x.dimensions[2:],
            shape.sizes,
            shape.strides,
            shape.dilations,
            shape.padding,
            strict=True,
        )
    ]


def _met(b: Builder, x: Op, shape: WindowShape, places: list[int]) -> Iterator[Op]:
    """What the window meets at each place of padded data."""
    reach = [(taps - 1) * d + 1 for taps, d in zip(shape.sizes, shape.dilations, strict=True)]
    for place in product(*map(range, places)):
        starts = [i * stride for i, stride in zip(place, shape.strides, strict=True)]
        ends = [start + n for start, n in zip(starts, reach, strict=True)]
        yield b.slice(x, [0, 0, *starts], [*x.dimensions[:2], *ends], [1, 1, *shape.dilations])
