"""Arithmetic that quantized kernels share: zero points, scales, bounds, and results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.tflite.model import LiteTensor
from lowtide.frontend.tflite.node import BOUNDS, ELEMENT_TYPES, QUANTIZED, LiteNode
from lowtide.frontend.tflite.rounding import Factor, factor_of, scaled
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES


def scale_of(node: LiteNode, tensor: LiteTensor) -> np.float32:
    """Return the one scale of a tensor; raises GraphError where there is another number of them."""
    scales = tensor.quantization.scales
    if len(scales) != 1 or not scales[0] > 0:
        raise node.error(f"tensor {tensor.number} ({tensor.name}) needs one scale above 0")
    return np.float32(scales[0])


def zero_of(tensor: LiteTensor) -> int:
    """Return the zero point of a tensor."""
    zeros = tensor.quantization.zero_points
    return int(zeros[0]) if len(zeros) else 0


def without_zero(node: LiteNode, number: int) -> Op:
    """Return an input as 32-bit numbers, from which its zero point is taken."""
    zero = zero_of(node.tensor(number))
    wide = node.b.convert(node.context.input(number), ElementType.S32)
    return wide - zero if zero else wide


def bounds(node: LiteNode, activation: str) -> tuple[int, int]:
    """Return between which numbers a result lies, both included, after an activation."""
    made = node.made
    low, high = QUANTIZED[made.type]
    if activation == "NONE":
        return low, high
    if activation not in BOUNDS:
        raise node.refusal(f"quantized activation {activation}")
    scale, zero = scale_of(node, made), zero_of(made)
    least, most = BOUNDS[activation]
    if least is not None:
        low = max(low, zero + rounded(np.float32(least) / scale))
    if most is not None:
        high = min(high, zero + rounded(np.float32(most) / scale))
    return low, high


def rounded(value: np.floating) -> int:
    """Return the nearest whole number; halves go away from zero."""
    return int(np.copysign(np.floor(np.abs(float(value)) + 0.5), float(value)))


def give(node: LiteNode, value: Op, activation: str = "NONE") -> None:
    """Set the output to 32-bit numbers plus its zero point, within bounds, as its type."""
    b, made = node.b, node.made
    if made.type not in QUANTIZED:
        raise node.refusal(f"the result is {made.type}, quantized")
    low, high = bounds(node, activation)
    zero = zero_of(made)
    value = value + zero if zero else value
    value = b.maximum(b.minimum(value, high), low)
    node.give(b.convert(value, ELEMENT_TYPES[made.type]))


def give_scaled(node: LiteNode, value: Op, real: float, activation: str = "NONE") -> None:
    """Set the output to 32-bit numbers times a real factor."""
    give(node, scaled(node.b, value, [factor_of(real)]), activation)


def channel_factors(node: LiteNode, filters: LiteTensor) -> list[Factor]:
    """Return the factors of the sums of products of a convolution, one or one a channel."""
    scale = float(scale_of(node, node.tensor(0)))
    over = float(scale_of(node, node.made))
    scales = filters.quantization.scales
    if not len(scales):
        raise node.error(f"tensor {filters.number} ({filters.name}) needs scales")
    return [factor_of(scale * float(x) / over) for x in scales]


def looked_up(node: LiteNode, values: Sequence[float]) -> Op:
    """Return for each 8-bit input one of 256 real values, quantized as the output is."""
    made = node.made
    dtype = DTYPES[ELEMENT_TYPES[made.type]]
    inverse = np.float32(1) / scale_of(node, made)
    low, high = QUANTIZED[made.type]
    zero = zero_of(made)
    table = [min(max(rounded(np.float32(x) * inverse) + zero, low), high) for x in values]
    b, x = node.b, node.context.input(0)
    first = QUANTIZED[node.tensor(0).type][0]
    place = b.convert(x, ElementType.S32) - first
    flat = b.reshape(place, [x.shape.element_count])
    return b.reshape(take(b, b.constant(np.array(table, dtype)), flat, 0), x.dimensions)
