"""Softmax: of floats, and of 8-bit numbers as TFLite's reference kernel computes it."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.graphs.shared.reductions import reduce, softmax
from lowtide.frontend.tflite import fixed_point, quantized
from lowtide.frontend.tflite.node import DOMAIN, QUANTIZED, LiteNode
from lowtide.frontend.tflite.rounding import factor_of
from lowtide.ir.element_type import ElementType

_BITS: Final = 5
"""Integer bits of differences from the greatest number of a row."""

_SUM_BITS: Final = 12
"""Integer bits of the sum of exponentials."""

_RESULT_BITS: Final = 8


@op("SOFTMAX", domain=DOMAIN, inputs=1)
def softmax_of_rows(context: OpKernelContext) -> None:
    """Give e^(beta x) as parts of their sum along the last dimension."""
    node = LiteNode(context)
    x = context.input(0)
    if not node.is_quantized:
        node.give(softmax(node.b, x * node.real(0, 1.0), [x.rank - 1]))
        return
    if node.tensor(0).type == "INT16" or node.made.type != node.tensor(0).type:
        raise node.refusal(f"it is quantized from {node.tensor(0).type} to {node.made.type}")
    _quantized(node, x)


def _quantized(node: LiteNode, given: Op) -> None:
    """Set the output to 8-bit parts of 1, of 1/256 each."""
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
    bits = expand(b, _SUM_BITS + 31 - _RESULT_BITS - zeros, x.dimensions)
    parts = fixed_point.shifted_right(b, fixed_point.product(b, inverse, powers), bits)
    low, high = QUANTIZED[node.made.type]
    found = b.select(counts, parts + low, fixed_point.like(b, x, low))
    found = b.maximum(b.minimum(found, high), low)
    node.give(b.convert(found, given.element_type))
