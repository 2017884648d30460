"""Sums, differences, products and quotients: of floats, integers and quantized numbers."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import name_table, op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.graphs.shared.broadcasting import together
from lowtide.frontend.tflite import fixed_point, quantized
from lowtide.frontend.tflite.node import DOMAIN, QUANTIZED, LiteNode
from lowtide.frontend.tflite.rounding import factor_of, scaled
from lowtide.ir.element_type import ElementType

_ACTIVE: Final = {"ADD": "add", "DIV": "div", "MUL": "mul", "SUB": "sub"}
"""Operators of two operands whose result goes through an activation."""

_BINARY: Final = name_table(
    """
    ATAN2=atan2 BITWISE_XOR=xor FLOOR_DIV=floor_div FLOOR_MOD=floor_mod LOGICAL_AND=and
    LOGICAL_OR=or POW=pow RIGHT_SHIFT=shift_right
    """
)

_OF_BITS: Final = frozenset({"xor", "shift_right"})
"""Functions of bits, whatever the numbers stand for."""

_SUM_BITS: Final = {"INT8": 20, "UINT8": 20, "INT16": 15}
"""By how many bits the operands of quantized sums are shifted left first."""

_SQUARE_BITS: Final = {"INT8": 7}
"""As `_SUM_BITS`, for squares of differences."""


@op(*_BINARY, domain=DOMAIN, inputs=2)
def binary(context: OpKernelContext) -> None:
    """Give a function of two operands, which are broadcast."""
    node = LiteNode(context)
    name = _BINARY[context.node.op]
    if name not in _OF_BITS:
        node.require_floats()
    node.give(elementwise.binary(name, node.b, context.input(0), context.input(1)))


@op(*_ACTIVE, domain=DOMAIN, inputs=2)
def arithmetic(context: OpKernelContext) -> None:
    """Give sums, differences, products and quotients of two operands, which are broadcast."""
    node, name = LiteNode(context), context.node.op
    activation = node.activation(0)
    if not node.is_quantized:
        found = elementwise.binary(_ACTIVE[name], node.b, context.input(0), context.input(1))
        node.give(found, activation)
    elif name == "MUL":
        _product(node, activation)
    elif name == "DIV":
        _quotient(node, activation)
    else:
        _sum(node, activation, is_difference=name == "SUB")


@op("ADD_N", domain=DOMAIN)
def add_n(context: OpKernelContext) -> None:
    """Give the sum of all operands."""
    node = LiteNode(context)
    node.require_floats()
    total, *others = context.inputs()
    for other in others:
        total = total + other
    node.give(total)


def _product(node: LiteNode, activation: str) -> None:
    scales = [quantized.scale_of(node, node.tensor(i)) for i in range(2)]
    x, y = together(node.b, [quantized.without_zero(node, i) for i in range(2)])
    real = float(scales[0] * scales[1] / quantized.scale_of(node, node.made))
    quantized.give_scaled(node, x * y, real, activation)


def _quotient(node: LiteNode, activation: str) -> None:
    """Give the quotient of quantized numbers: a product with the reciprocal in fixed point.

    Those of 16 bits are divided as floats where both operands have the same sizes. Divisors of 0
    have no quotient.
    """
    b = node.b
    shapes = [node.context.input(i).dimensions for i in range(2)]
    if node.tensor(0).type == "INT16" and shapes[0] == shapes[1]:
        _quotient_of_floats(node, activation)
        return
    scales = [quantized.scale_of(node, node.tensor(i)) for i in range(2)]
    real = float(scales[0] / (scales[1] * quantized.scale_of(node, node.made)))
    factor = factor_of(real)
    x, y = together(b, [quantized.without_zero(node, i) for i in range(2)])
    x, y = b.select(y.lt(0), -x, x), b.abs(y)
    zeros = fixed_point.leading_zeros(b, y)
    one = b.shift_left(b.convert(y, ElementType.S64), zeros) - (1 << 31)
    inverse = fixed_point.reciprocal_of_more_than_one(b, one)
    spare = b.select(
        x.ge(0), fixed_point.leading_zeros(b, x) - 1, fixed_point.leading_zeros(b, x * -2 - 1)
    )
    found = fixed_point.product(b, b.shift_left(b.convert(x, ElementType.S64), spare), inverse)
    found = fixed_point.product(b, found, factor.mantissa)
    found = fixed_point.shifted_right(b, found, 31 - zeros + spare - factor.shift)
    quantized.give(node, b.convert(found, ElementType.S32), activation)


def _quotient_of_floats(node: LiteNode, activation: str) -> None:
    """Give the quotient of the floats that numbers stand for; halves go away from zero."""
    b = node.b
    x, y = [quantized.as_floats(node, i) for i in range(2)]
    found = b.round_nearest_afz(x / y / float(quantized.scale_of(node, node.made)))
    most = float(QUANTIZED[node.tensor(0).type][1])
    found = b.maximum(b.minimum(found, most), -most - 1)  # Beyond, conversion would not be exact.
    quantized.give(node, b.convert(found, ElementType.S32), activation)


def _to_twice_the_greater(
    node: LiteNode, bits: int, signs: tuple[int, int]
) -> tuple[list[Op], float]:
    """Two operands shifted left, in twice the greater of their scales, and that scale."""
    scales = [float(quantized.scale_of(node, node.tensor(i))) for i in range(2)]
    twice = 2 * max(scales)
    parts = [
        scaled(
            node.b,
            quantized.without_zero(node, i) * (1 << bits),
            [factor_of(signs[i] * scales[i] / twice)],
        )
        for i in range(2)
    ]
    return together(node.b, parts), twice


def _sum(node: LiteNode, activation: str, *, is_difference: bool) -> None:
    bits = _SUM_BITS[node.tensor(0).type]
    (x, y), twice = _to_twice_the_greater(node, bits, (1, -1 if is_difference else 1))
    over = (1 << bits) * float(quantized.scale_of(node, node.made))
    quantized.give_scaled(node, x + y, twice / over, activation)


@op("SQUARED_DIFFERENCE", domain=DOMAIN, inputs=2)
def squared_difference(context: OpKernelContext) -> None:
    """Give the squares of differences."""
    node = LiteNode(context)
    if not node.is_quantized:
        x, y = context.input(0), context.input(1)
        node.give(elementwise.binary("squared_difference", node.b, x, y))
        return
    bits = _SQUARE_BITS.get(node.tensor(0).type)
    if bits is None:
        raise node.refusal(f"it is quantized to {node.tensor(0).type}")
    (x, y), twice = _to_twice_the_greater(node, bits, (1, 1))
    difference = x - y
    over = (1 << 2 * bits) * float(quantized.scale_of(node, node.made))
    quantized.give_scaled(node, difference * difference, twice * twice / over)


@op("PRELU", domain=DOMAIN, inputs=2)
def prelu(context: OpKernelContext) -> None:
    """Give x where it is positive, else x times another operand."""
    node, b = LiteNode(context), context.builder
    if not node.is_quantized:
        x, slope = together(b, [context.input(0), context.input(1)])
        node.give(b.select(x.gt(0), x, x * slope))
        return
    x, slope = together(b, [quantized.without_zero(node, i) for i in range(2)])
    real = quantized.ratio(node)
    below = real * float(quantized.scale_of(node, node.tensor(1)))
    parts = scaled(b, x, [factor_of(real)]), scaled(b, x * slope, [factor_of(below)])
    quantized.give(node, b.select(x.ge(0), *parts))
