"""Operators on single elements: of floats, and of quantized numbers where kernels are exact."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.graphs.shared.broadcasting import together
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import DOMAIN, QUANTIZED, LiteNode
from lowtide.frontend.tflite.rounding import factor_of, scaled
from lowtide.ir.element_type import ElementType

_UNARY: Final = {
    "ABS": "abs",
    "CEIL": "ceil",
    "COS": "cos",
    "ELU": "elu",
    "EXP": "exp",
    "FLOOR": "floor",
    "HARD_SWISH": "hard_swish",
    "LOG": "log",
    "LOGICAL_NOT": "not",
    "NEG": "neg",
    "ROUND": "round",
    "RSQRT": "rsqrt",
    "SIGN": "sign",
    "SIN": "sin",
    "SQRT": "sqrt",
    "SQUARE": "square",
    "ZEROS_LIKE": "zeros_like",
}
_BINARY: Final = {
    "ATAN2": "atan2",
    "EQUAL": "equal",
    "FLOOR_DIV": "floor_div",
    "FLOOR_MOD": "floor_mod",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
    "LOGICAL_AND": "and",
    "LOGICAL_OR": "or",
    "MAXIMUM": "max",
    "MINIMUM": "min",
    "NOT_EQUAL": "not_equal",
    "POW": "pow",
    "SQUARED_DIFFERENCE": "squared_difference",
}
_ACTIVE: Final = {"ADD": "add", "DIV": "div", "MUL": "mul", "SUB": "sub"}
"""Operators of two operands whose result goes through an activation."""

_SUM_BITS: Final = {"INT8": 20, "UINT8": 20, "INT16": 15}
"""By how many bits the operands of quantized sums are shifted left first."""


@op(*_UNARY, domain=DOMAIN, inputs=1)
def unary(context: OpKernelContext) -> None:
    """Give a function of each element."""
    node = LiteNode(context)
    node.require_floats()
    name = _UNARY[context.node.op]
    node.give(elementwise.unary(name, node.b, context.input(0)))


@op(*_BINARY, domain=DOMAIN, inputs=2)
def binary(context: OpKernelContext) -> None:
    """Give a function of two operands, which are broadcast."""
    node = LiteNode(context)
    node.require_floats()
    name = _BINARY[context.node.op]
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
        node.require_floats()
    else:
        _sum(node, activation, is_difference=name == "SUB")


def _product(node: LiteNode, activation: str) -> None:
    scales = [quantized.scale_of(node, node.tensor(i)) for i in range(2)]
    x, y = together(node.b, [quantized.without_zero(node, i) for i in range(2)])
    real = float(scales[0] * scales[1] / quantized.scale_of(node, node.made))
    quantized.give_scaled(node, x * y, real, activation)


def _sum(node: LiteNode, activation: str, *, is_difference: bool) -> None:
    """Set the output to a sum of operands, which are brought to twice the greater scale first."""
    bits = _SUM_BITS[node.tensor(0).type]
    scales = [float(quantized.scale_of(node, node.tensor(i))) for i in range(2)]
    twice = 2 * max(scales)
    signs = (1, -1 if is_difference else 1)
    parts = [
        scaled(
            node.b,
            quantized.without_zero(node, i) * (1 << bits),
            [factor_of(signs[i] * scales[i] / twice)],
        )
        for i in range(2)
    ]
    x, y = together(node.b, parts)
    over = (1 << bits) * float(quantized.scale_of(node, node.made))
    quantized.give_scaled(node, x + y, twice / over, activation)


@op("RELU", "RELU6", "RELU_N1_TO_1", domain=DOMAIN, inputs=1)
def bounded(context: OpKernelContext) -> None:
    """Give numbers within bounds; quantized ones are brought to the scale of the result."""
    node, name = LiteNode(context), context.node.op
    if not node.is_quantized:
        node.give(context.input(0), name)
        return
    ratio = quantized.scale_of(node, node.tensor(0)) / quantized.scale_of(node, node.made)
    quantized.give_scaled(node, quantized.without_zero(node, 0), float(ratio), name)


@op("LEAKY_RELU", domain=DOMAIN, inputs=1)
def leaky_relu(context: OpKernelContext) -> None:
    """Give x where it is positive, else a part of it."""
    node = LiteNode(context)
    node.require_floats()
    node.give(elementwise.leaky_relu(node.b, context.input(0), node.real(0, 0.0)))


@op("PRELU", domain=DOMAIN, inputs=2)
def prelu(context: OpKernelContext) -> None:
    """Give x where it is positive, else x times another operand."""
    node, b = LiteNode(context), context.builder
    node.require_floats()
    x, slope = together(b, [context.input(0), context.input(1)])
    node.give(b.select(x.gt(0), x, x * slope))


@op("GELU", domain=DOMAIN, inputs=1)
def gelu(context: OpKernelContext) -> None:
    """Give x times the normal distribution function, or an approximation by tanh."""
    node = LiteNode(context)
    node.require_floats()
    function = elementwise.gelu_tanh if node.code(0) else elementwise.gelu
    node.give(function(node.b, context.input(0)))


@op("LOGISTIC", "TANH", domain=DOMAIN, inputs=1)
def squashed(context: OpKernelContext) -> None:
    """Give the logistic function or tanh; of 8-bit numbers from a table of all of them."""
    node, name = LiteNode(context), context.node.op
    if not node.is_quantized:
        function = Builder.logistic if name == "LOGISTIC" else Builder.tanh
        node.give(function(node.b, context.input(0)))
        return
    given = node.tensor(0)
    if given.type == "INT16":
        raise node.refusal("it is quantized to INT16")
    low, high = QUANTIZED[given.type]
    numbers = np.arange(low, high + 1, dtype=np.float32) - quantized.zero_of(given)
    x = (numbers * quantized.scale_of(node, given)).astype(np.float32)
    one = np.float32(1)
    values = one / (one + np.exp(-x)) if name == "LOGISTIC" else np.tanh(x)
    node.give(quantized.looked_up(node, values.tolist()))


@op("QUANTIZE", domain=DOMAIN, inputs=1)
def quantize(context: OpKernelContext) -> None:
    """Give floats, or numbers of another scale, as numbers of the result's scale."""
    node, b = LiteNode(context), context.builder
    if node.is_quantized:
        ratio = float(quantized.scale_of(node, node.tensor(0))) / float(
            quantized.scale_of(node, node.made)
        )
        quantized.give_scaled(node, quantized.without_zero(node, 0), ratio)
        return
    low, high = QUANTIZED.get(node.made.type, (0, 0))
    x = context.input(0) / float(quantized.scale_of(node, node.made))
    ends = float(low - high), float(high - low)  # Beyond, conversion would not be exact.
    x = b.maximum(b.minimum(b.round_nearest_afz(x), ends[1]), ends[0])
    quantized.give(node, b.convert(x, ElementType.S32))


@op("DEQUANTIZE", domain=DOMAIN, inputs=1)
def dequantize(context: OpKernelContext) -> None:
    """Give the floats that numbers stand for."""
    node, b = LiteNode(context), context.builder
    if not node.is_quantized:
        node.give(b.convert(context.input(0), ElementType.F32))
        return
    numbers = b.convert(quantized.without_zero(node, 0), ElementType.F32)
    node.give(numbers * float(quantized.scale_of(node, node.tensor(0))))


@op("SELECT", "SELECT_V2", domain=DOMAIN, inputs=3)
def select(context: OpKernelContext) -> None:
    """Give elements of one or the other operand; all are broadcast."""
    node = LiteNode(context)
    given: list[Op] = context.inputs()
    node.give(elementwise.select(node.b, *given))
