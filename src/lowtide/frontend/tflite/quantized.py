"""Arithmetic that quantized kernels share: zero points, scales, bounds, and results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.tflite.model import LiteTensor
from lowtide.frontend.tflite.node import BOUNDS, ELEMENT_TYPES, QUANTIZED, LiteNode
from lowtide.frontend.tflite.rounding import Factor, factor_of, scaled
from lowtide.ir.element_type import ElementType


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


def ends(node: LiteNode, activation: str) -> tuple[int, int] | None:
    """Return `bounds` less the zero point; None where the result's type has no bounds."""
    made = node.made
    if made.type not in QUANTIZED:
        return None
    low, high = bounds(node, activation)
    return low - zero_of(made), high - zero_of(made)


def rounded(value: np.floating) -> int:
    """Return the nearest whole number; halves go away from zero."""
    return int(np.copysign(np.floor(np.abs(float(value)) + 0.5), float(value)))


def give(node: LiteNode, value: Op, activation: str = "NONE") -> None:
    """Set the output to 32-bit numbers plus its zero point, within bounds, as its type."""
    zero = zero_of(node.made)
    give_bounded(node, value + zero if zero else value, activation)


def give_bounded(node: LiteNode, value: Op, activation: str = "NONE") -> None:
    """Set the output to 32-bit numbers within bounds, as its type."""
    b, made = node.b, node.made
    if made.type == "INT32" and activation == "NONE":
        node.give(value)
        return
    if made.type not in QUANTIZED:
        raise node.refusal(f"the result is {made.type}, quantized")
    low, high = bounds(node, activation)
    value = b.maximum(b.minimum(value, high), low)
    node.give(b.convert(value, ELEMENT_TYPES[made.type]))


def as_floats(node: LiteNode, number: int) -> Op:
    """Return the floats that an input's numbers stand for; scales may be one a channel."""
    b, given = node.b, node.tensor(number).quantization
    x = node.context.input(number)
    scales, zeros = given.scales, given.zero_points
    if len(scales) == 1:
        return b.convert(without_zero(node, number), ElementType.F32) * float(scales[0])
    if not 0 <= given.axis < x.rank or x.dimensions[given.axis] != len(scales):
        raise node.error(f"{len(scales)} scales along dimension {given.axis} of {x.shape}")
    wide = b.convert(x, ElementType.F32)
    if zeros.any():
        offsets = np.broadcast_to(zeros, scales.shape).astype(np.float32)
        wide = wide - along(b, b.constant(offsets), given.axis, x.dimensions)
    return wide * along(b, b.constant(np.array(scales)), given.axis, x.dimensions)


def from_floats(node: LiteNode, x: Op) -> Op:
    """Return floats as numbers of the result's type and scale; halves go away from zero."""
    b, made = node.b, node.made
    if made.type not in QUANTIZED:
        raise node.refusal(f"the result is {made.type}, quantized")
    low, high = QUANTIZED[made.type]
    x = x / float(scale_of(node, made))
    ends = float(low - high), float(high - low)  # Beyond, conversion would not be exact.
    x = b.maximum(b.minimum(b.round_nearest_afz(x), ends[1]), ends[0])
    found = b.convert(x, ElementType.S32) + zero_of(made)
    return b.convert(b.maximum(b.minimum(found, high), low), ELEMENT_TYPES[made.type])


def ratio(node: LiteNode, number: int = 0) -> float:
    """Return the scale of an input over that of the result."""
    return float(scale_of(node, node.tensor(number))) / float(scale_of(node, node.made))


def require_same(node: LiteNode, count: int) -> None:
    """Raise GraphError where one of some inputs has another scale or zero point than the result."""
    made = node.made
    for number in range(count):
        given = node.tensor(number)
        same = scale_of(node, given) == scale_of(node, made)
        if not same or zero_of(given) != zero_of(made):
            raise node.refusal("operands of several scales")


def give_scaled(node: LiteNode, value: Op, real: float, activation: str = "NONE") -> None:
    """Set the output to 32-bit numbers times a real factor."""
    give_times(node, value, [factor_of(real)], activation)


def give_times(node: LiteNode, value: Op, factors: Sequence[Factor], activation: str) -> None:
    """Set the output to 32-bit numbers times factors, one or one for each of the last dimension."""
    limits, zero = ends(node, activation), zero_of(node.made)
    give_bounded(node, scaled(node.b, value, factors, limits, zero), activation)


def channel_factors(node: LiteNode, filters: LiteTensor, given: int = 0) -> list[Factor]:
    """Return the factors of sums of products of an input and filters, one or one a channel."""
    scale = float(scale_of(node, node.tensor(given)))
    over = float(scale_of(node, node.made))
    scales = filters.quantization.scales
    if not len(scales):
        raise node.error(f"tensor {filters.number} ({filters.name}) needs scales")
    return [factor_of(scale * float(x) / over) for x in scales]
