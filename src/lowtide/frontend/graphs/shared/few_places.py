"""Convolutions at few places as products of matrices.

What the window meets at each place is a row, and each filter a column, which lies in memory as the
rows do, or, where filters are kept by output features, beside the others. A product of few rows
reads each filter once as it lies, where a convolution packs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions, DotDimensions
from lowtide.ir.element_type import ElementType

_MOST_ROWS: Final = 8

_MOST_OF_LARGE: Final = 24
"""Places for filters of so many elements that each run fetches them from memory.

They make at least as many features as they read: of fewer the rows take longer to gather."""

_LARGE: Final = 1 << 20

_LEAST_FILTERS: Final = 1 << 12
"""Elements of all filters for which it is worth it."""


def is_product_of_rows(x: Op, kernel: Op, shape: WindowShape) -> bool:
    """Return whether a convolution of [n, c, ...] with [o, c, ...] is better such a product."""
    if x.element_type is not ElementType.F32 or kernel.element_type is not ElementType.F32:
        return False
    if x.dimensions[1] != kernel.dimensions[1] or kernel.shape.element_count < _LEAST_FILTERS:
        return False
    if _is_dequantized(x.instruction) and _is_dequantized(kernel.instruction):
        return False  # As a convolution it becomes one of the integers.
    features, met = kernel.dimensions[:2]
    is_large = kernel.shape.element_count >= _LARGE and features >= met
    most = _MOST_OF_LARGE if is_large else _MOST_ROWS
    return 0 < x.dimensions[0] * prod(_places(x, shape)) <= most


def _is_dequantized(x: Instruction) -> bool:
    """Whether an array is one of integers times scales."""
    while x.opcode in (Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.CONVERT):
        x = x.operands[0]
    if x.opcode is not Opcode.MULTIPLY:
        return False
    converted = [y.operands[0] for y in x.operands if y.opcode is Opcode.CONVERT]
    return any(y.shape.element_type.is_integer for y in converted)


def product_of_rows(b: Builder, x: Op, kernel: Op, shape: WindowShape) -> Op:
    """Return the convolution: [n, o, ...]."""
    batch, outputs, places = x.dimensions[0], kernel.dimensions[0], _places(x, shape)
    if any(map(any, shape.padding)):
        sides = [(0, 0), (0, 0), *shape.padding]
        x = b.pad(x, b.constant(0, x.element_type), sides)
    met, size = [*_met(b, x, shape, places)], prod(kernel.dimensions[1:])
    stored = _by_outputs(kernel)
    if stored is None:
        filters, over = b.reshape(kernel, [outputs, size]), 1
    else:
        filters, over = b.reshape(stored, [size, outputs]), 0
        met = [b.transpose(part, [0, *range(2, x.rank), 1]) for part in met]
    rows = [b.reshape(part, [batch, 1, size]) for part in met]
    joined = rows[0] if len(rows) == 1 else b.concatenate(rows, 1)
    matrix = b.reshape(joined, [batch * len(rows), size])
    found = b.dot(matrix, filters, DotDimensions((1,), (over,)))
    found = b.reshape(found, [batch, len(rows), outputs])
    return b.reshape(b.transpose(found, [0, 2, 1]), [batch, outputs, *places])


def _by_outputs(kernel: Op) -> Op | None:
    """The filters as they are stored, [..., c, o], where these are moved to [o, c, ...].

    Those in panels of outputs, [o / n, ..., c, n], are so again once these are joined.
    """
    given, b, rank = kernel.instruction, kernel.builder, kernel.rank
    in_panels = given.opcode is Opcode.RESHAPE
    turned = given.operands[0] if in_panels else given
    if turned.opcode is not Opcode.TRANSPOSE:
        return None
    order: tuple[int, ...] = (rank - 1, rank - 2, *range(rank - 2))
    if in_panels:
        order = (0, rank, rank - 1, *range(1, rank - 1))
    if turned.attributes_as(Dimensions).dimensions != order:
        return None
    stored = Op(b, turned.operands[0])
    if not in_panels:
        return stored
    sizes = [*kernel.dimensions[2:], *kernel.dimensions[1::-1]]
    return b.reshape(b.transpose(stored, [*range(1, rank), 0, rank]), sizes)


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
