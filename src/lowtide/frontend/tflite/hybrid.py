"""Products of floats with weights of 8 bits, as TFLite's hybrid kernels reckon them.

Each row of floats is brought to 8 bits by its own greatest magnitude, or by its range and a zero
point; products are summed as integers, and sums are multiplied by the scales of row and weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tflite.model import LiteTensor
from lowtide.frontend.tflite.node import LiteNode
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

_LOW, _HIGH = -128.0, 127.0
WEIGHTS: Final = ("INT8", "INT4", "INT2", "UINT8")
"""The types of weights that floats are multiplied with."""


@dataclass(frozen=True, eq=False, slots=True)
class QuantizedRows:
    """Numbers of 8 bits, the scale of each row, and its zero point, None where that is 0.

    Scales and zero points keep the dimensions of the numbers, as 1 where they hold for all.
    """

    numbers: Op
    scales: Op
    zeros: Op | None


def symmetric(b: Builder, x: Op, axes: Sequence[int]) -> QuantizedRows:
    """Return floats as numbers from -127 to 127, rows being what lies along `axes`."""
    most = reduce(b, "max", b.abs(x), axes, keep=True)
    ones = b.broadcast(b.constant(1.0, ElementType.F32), most.dimensions, [])
    is_zero = most.eq(0)
    inverse = b.select(is_zero, most, b.divide(_HIGH, b.select(is_zero, ones, most)))
    numbers = b.round_nearest_afz(x * expand(b, inverse, x.dimensions))
    numbers = b.maximum(b.minimum(numbers, _HIGH), -_HIGH)
    scales = b.select(is_zero, ones, most / _HIGH)
    return QuantizedRows(b.convert(numbers, ElementType.S8), scales, None)


def asymmetric(b: Builder, x: Op, axes: Sequence[int]) -> QuantizedRows:
    """Return floats as numbers from -128 to 127 with a zero point, rows as for `symmetric`."""
    wide = ElementType.F64
    low = b.convert(b.minimum(reduce(b, "min", x, axes, keep=True), 0.0), wide)
    high = b.convert(b.maximum(reduce(b, "max", x, axes, keep=True), 0.0), wide)
    is_zero = low.eq(high)
    ones = b.broadcast(b.constant(1.0, wide), low.dimensions, [])
    scale = b.select(is_zero, ones, (high - low) / (_HIGH - _LOW))
    from_low, from_high = b.subtract(_LOW, low / scale), b.subtract(_HIGH, high / scale)
    is_lower = b.abs(low / scale).lt(b.abs(high / scale) - 1.0)
    zero = b.round_nearest_afz(b.select(is_lower, from_low, from_high))
    zero = b.minimum(b.maximum(zero, _LOW), _HIGH)
    zero = b.convert(b.select(is_zero, b.subtract(zero, zero), zero), ElementType.F32)
    narrow = b.convert(scale, ElementType.F32)
    inverse = b.divide(1.0, narrow)
    numbers = b.round_nearest_afz(
        expand(b, zero, x.dimensions) + x * expand(b, inverse, x.dimensions)
    )
    numbers = b.maximum(b.minimum(numbers, _HIGH), _LOW)
    flat = expand(b, is_zero, x.dimensions)
    numbers = b.select(flat, b.subtract(numbers, numbers), numbers)
    return QuantizedRows(
        b.convert(numbers, ElementType.S8), narrow, b.convert(zero, ElementType.S32)
    )


def is_hybrid(node: LiteNode, weights: int = 1) -> bool:
    """Whether the first input is of floats and some weights are of 8 bits or fewer."""
    return node.tensor(0).type == "FLOAT32" and node.tensor(weights).type in WEIGHTS


def weights(node: LiteNode, number: int) -> Op:
    """Return weights as signed numbers of 8 bits, which is what UINT8 ones are for floats."""
    value = node.context.input(number)
    is_signed = value.element_type.is_signed
    return value if is_signed else node.b.bitcast_convert(value, ElementType.S8)


def weight_scales(node: LiteNode, tensor: LiteTensor, count: int) -> list[float]:
    """Return the scale of each of `count` channels of weights; raises GraphError without one."""
    scales, zeros = tensor.quantization.scales, tensor.quantization.zero_points
    has_zero = tensor.type != "UINT8" and zeros.any()
    if len(scales) not in (1, count) or has_zero:
        raise node.refusal(
            f"{tensor.type} weights with {len(scales)} scales and zero points {zeros.tolist()[:4]}"
        )
    return [float(x) for x in np.broadcast_to(scales, (count,))]


def rows_times(b: Builder, x: Op, weights: Op, scales: Sequence[float], *, with_zero: bool) -> Op:
    """Return floats [n, k] times 8-bit weights [m, k] with m scales, as floats [n, m]."""
    rows = asymmetric(b, x, [1]) if with_zero else symmetric(b, x, [1])
    dimensions = DotDimensions((1,), (1,))
    sums = b.dot(rows.numbers, weights, dimensions, element_type=ElementType.S32)
    if rows.zeros is not None:
        totals = reduce(b, "sum", b.convert(weights, ElementType.S32), [1])
        sums = sums - expand(b, rows.zeros, sums.dimensions) * along(b, totals, 1, sums.dimensions)
    known = along(b, b.constant(np.array(scales, np.float32)), 1, sums.dimensions)
    return b.convert(sums, ElementType.F32) * (expand(b, rows.scales, sums.dimensions) * known)


def matrices_times(b: Builder, x: Op, y: Op, scale: float, *, with_zero: bool) -> Op:
    """Return floats [..., n, k] times 8-bit numbers [..., k, m] of one scale, as [..., n, m]."""
    rows = (asymmetric if with_zero else symmetric)(b, x, [x.rank - 1])
    both = tuple(range(x.rank - 2))
    dimensions = DotDimensions((x.rank - 1,), (y.rank - 2,), both, both)
    sums = b.dot(rows.numbers, y, dimensions, element_type=ElementType.S32)
    if rows.zeros is not None:
        totals = reduce(b, "sum", b.convert(y, ElementType.S32), [y.rank - 2], keep=True)
        taken = expand(b, rows.zeros, sums.dimensions) * expand(b, totals, sums.dimensions)
        sums = sums - taken
    factors = expand(b, rows.scales * scale, sums.dimensions)
    return b.convert(sums, ElementType.F32) * factors
