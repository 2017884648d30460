"""Softmax: of floats, and of 8-bit numbers as TFLite's reference kernel computes it."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.reductions import log_softmax, reduce, softmax
from lowtide.frontend.tflite import fixed_point, quantized
from lowtide.frontend.tflite.lookup import coarse_table, interpolated, numbers_of
from lowtide.frontend.tflite.node import DOMAIN, QUANTIZED, LiteNode
from lowtide.frontend.tflite.rounding import factor_of, scaled
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array

_BITS: Final = 5
"""Integer bits of differences from the greatest number of a row."""

_SUM_BITS: Final = 12
"""Integer bits of the sum of exponentials."""

_RESULT_BITS: Final = {"INT8": 8, "UINT8": 8, "INT16": 16}
_MOST_16: Final = 32767


@op("SOFTMAX", domain=DOMAIN, inputs=1)
def softmax_of_rows(context: OpKernelContext) -> None:
    """Give e^(beta x) as parts of their sum along the last dimension."""
    node = LiteNode(context)
    x = context.input(0)
    if not node.is_quantized:
        node.give(softmax(node.b, x * node.real(0, 1.0), [x.rank - 1]))
        return
    given, made = node.tensor(0).type, node.made.type
    if given == made == "INT16":
        _of_16_bits(node, x)
    elif given == made or (given, made) == ("INT8", "INT16"):
        _quantized(node, x)
    else:
        raise node.refusal(f"it is quantized from {given} to {made}")


@op("LOG_SOFTMAX", domain=DOMAIN, inputs=1)
def log_softmax_of_rows(context: OpKernelContext) -> None:
    """Give the logarithm of softmax along the last dimension."""
    node, x = LiteNode(context), context.input(0)
    if not node.is_quantized:
        node.give(log_softmax(node.b, x, [x.rank - 1]))
        return
    _quantized_logarithm(node, x)


def _quantized_logarithm(node: LiteNode, x: Op) -> None:
    """Set the output to quantized logarithms: exponentials of differences come from a table."""
    b, axis = node.b, x.rank - 1
    if node.tensor(0).type != node.made.type or node.made.type == "INT16":
        raise node.refusal(f"it is quantized from {node.tensor(0).type} to {node.made.type}")
    wide = b.convert(x, ElementType.S32)
    top = reduce(b, "max", wide, [axis], keep=True)
    scale = np.float32(quantized.scale_of(node, node.tensor(0)))
    steps = np.arange(256, dtype=np.float32)
    table = np.exp(-(steps * scale).astype(np.float32)).astype(np.float32)
    below = expand(b, top, x.dimensions) - wide
    flat = b.reshape(below, [x.shape.element_count])
    powers = b.reshape(take(b, b.constant(table), flat, 0), x.dimensions)
    total = b.log(reduce(b, "sum", powers, [axis], keep=True))
    over = float(np.float32(quantized.scale_of(node, node.made)))
    real = b.convert(wide, ElementType.F32) * float(scale)
    shift = b.convert(top, ElementType.F32) * float(scale) + total
    found = b.round_nearest_afz((real - expand(b, shift, x.dimensions)) / over)
    quantized.give(node, b.convert(found, ElementType.S32))


def _of_16_bits(node: LiteNode, x: Op) -> None:
    """Set the output to 16-bit parts of 1, of 1/2^15 each, by tables with lines between."""
    b, axis = node.b, x.rank - 1
    most, steps = float(_MOST_16), 65535.0
    over = np.float64(2.0 / steps)
    exponentials = coarse_table(np.exp, (np.float64(10.0 / steps), over), (int(most), 0))
    unit = np.float64(1.0 / steps)
    inverses = coarse_table(lambda v: 1 / (1 + v), (unit, over), (-int(most) - 1, 0))
    wide = b.convert(x, ElementType.S32)
    difference = wide - expand(b, reduce(b, "max", wide, [axis], keep=True), x.dimensions)
    rescale = float(quantized.scale_of(node, node.tensor(0))) * node.real(0, 1.0) / (10.0 / 65535.0)
    moved = scaled(b, difference, [factor_of(rescale)]) + _MOST_16
    powers = _looked_up_16(b, exponentials, moved)
    total = reduce(b, "sum", powers, [axis], keep=True)
    zeros = b.count_leading_zeros(total)
    shifted = b.shift_left(b.convert(total, ElementType.S64), b.convert(zeros - 1, ElementType.S64))
    shifted = b.shift_right_arithmetic(shifted + (1 << 13), b.constant(14, ElementType.S64))
    place = b.convert(shifted - ((1 << 15) + (1 << 16)), ElementType.S32)
    inverse = expand(b, _looked_up_16(b, inverses, place), x.dimensions)
    right = expand(b, 31 - zeros, x.dimensions)
    half = b.shift_left(b.broadcast(b.constant(1, ElementType.S32), x.dimensions, []), right - 1)
    found = b.shift_right_arithmetic(powers * inverse + half, right)
    node.give(b.convert(b.maximum(b.minimum(found, _MOST_16), 0), ElementType.S16))


def _looked_up_16(b: Builder, table: Array, numbers: Op) -> Op:
    """What a coarse table has for 32-bit numbers within 16 bits."""
    inside = b.maximum(b.minimum(numbers, _MOST_16), -_MOST_16 - 1)
    flat = b.reshape(inside, [inside.shape.element_count])
    found = take(
        b,
        b.constant(interpolated(table, numbers_of("INT16")).astype(np.int16)),
        flat + (_MOST_16 + 1),
        0,
    )
    return b.reshape(b.convert(found, ElementType.S32), inside.dimensions)


def _quantized(node: LiteNode, given: Op) -> None:
    """Set the output to parts of 1, of 1/256 each, or of 1/65,536."""
    b, axis = node.b, given.rank - 1
    x = b.convert(given, ElementType.S64)
    difference = x - expand(b, reduce(b, "max", x, [axis], keep=True), x.dimensions)
    beta = node.real(0, 1.0) * float(quantized.scale_of(node, node.tensor(0)))
    factor = factor_of(min(beta * (1 << (31 - _BITS)), float((1 << 31) - 1)))
    if not factor.mantissa or factor.shift < 0:
        raise node.refusal(f"beta times scale of {beta}")
    least = -int(((1 << _BITS) - 1) * (1 << (31 - _BITS)) / (1 << factor.shift))
    counts = difference.ge(least)
    known = b.maximum(difference, least)
    scaled = fixed_point.product(b, known * (1 << factor.shift), factor.mantissa)
    powers = fixed_point.exponential(b, scaled)
    terms = fixed_point.shifted_right(b, powers, _SUM_BITS)
    terms = b.select(counts, terms, fixed_point.like(b, terms, 0))
    total = reduce(b, "sum", terms, [axis], keep=True)
    zeros = b.convert(b.count_leading_zeros(b.convert(total, ElementType.U32)), ElementType.S64)
    above = b.shift_left(total, zeros) - (1 << 31)
    inverse = expand(b, fixed_point.reciprocal_of_more_than_one(b, above), x.dimensions)
    bits = expand(b, _SUM_BITS + 31 - _RESULT_BITS[node.made.type] - zeros, x.dimensions)
    parts = fixed_point.shifted_right(b, fixed_point.product(b, inverse, powers), bits)
    low, high = QUANTIZED[node.made.type]
    found = b.select(counts, parts + low, fixed_point.like(b, x, low))
    found = b.maximum(b.minimum(found, high), low)
    node.give(b.convert(found, node.element_type()))
