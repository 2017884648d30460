"""Operators on one operand's elements: of floats, and of quantized numbers by tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from lowtide.builder import Builder
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import name_table, op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.tflite import lookup, quantized, unary_tables
from lowtide.frontend.tflite.lookup import Function, Reals
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir import Opcode
from lowtide.ir.element_type import ElementType

_UNARY: Final = name_table(
    """
    ABS=abs CEIL=ceil COS=cos ELU=elu EXP=exp FLOOR=floor HARD_SWISH=hard_swish LOG=log
    LOGICAL_NOT=not NEG=neg ROUND=round RSQRT=rsqrt SIGN=sign SIN=sin SQRT=sqrt SQUARE=square
    ZEROS_LIKE=zeros_like
    """
)


def _elu(x: Reals) -> Reals:
    return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)


def _inverse_root(x: Reals) -> Reals:
    return np.where(x > 0, 1 / np.sqrt(np.maximum(x, 0)), np.inf)


def _logarithm(x: Reals) -> Reals:
    return np.where(x > 0, np.log(np.maximum(x, np.finfo(x.dtype).tiny)), -np.inf)


def _nearest(function: Function) -> Function:
    """A function reckoned with 64 bits and rounded once, as those of C are."""
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


_BY_FLOATS: Final[Mapping[str, Function]] = {
    "ELU": _nearest(_elu),
    "EXP": _nearest(np.exp),
    "LOG": _nearest(_logarithm),
    "RSQRT": _nearest(_inverse_root),
}
"""Quantized functions whose table TFLite fills by reckoning with floats."""

_BY_INTEGERS: Final[Mapping[str, Callable[[LiteNode], unary_tables.Numbers]]] = {
    "ABS": unary_tables.absolute,
    "HARD_SWISH": unary_tables.hard_swish,
    "NEG": unary_tables.negative,
    "SQRT": unary_tables.root,
}

_OF_BYTES_ONLY: Final = frozenset({"HARD_SWISH"})


@op(*_UNARY, domain=DOMAIN, inputs=1)
def unary(context: OpKernelContext) -> None:
    """Give a function of each element."""
    node, name = LiteNode(context), context.node.op
    if not node.is_quantized or name == "ZEROS_LIKE":
        node.give(elementwise.unary(_UNARY[name], node.b, context.input(0)))
    elif name in _BY_FLOATS:
        lookup.give_function(node, _BY_FLOATS[name])
    elif name in _BY_INTEGERS:
        if name in _OF_BYTES_ONLY and node.tensor(0).type == "INT16":
            raise node.refusal("it is quantized to INT16")
        node.give(lookup.looked_up(node, _BY_INTEGERS[name](node)))
    else:
        node.require_floats()


@op("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", domain=DOMAIN, inputs=1)
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
    alpha = node.real(0, 0.0)
    if node.is_quantized:
        node.give(lookup.looked_up(node, unary_tables.leaky(node, alpha)))
        return
    node.give(elementwise.leaky_relu(node.b, context.input(0), alpha))


@op("GELU", domain=DOMAIN, inputs=1)
def gelu(context: OpKernelContext) -> None:
    """Give x times the normal distribution function, or an approximation by tanh."""
    node = LiteNode(context)
    if node.is_quantized:
        lookup.give_function(node, _gelu_tanh if node.code(0) else _gelu)
        return
    function = elementwise.gelu_tanh if node.code(0) else elementwise.gelu
    node.give(function(node.b, context.input(0)))


def _gelu(x: Reals) -> Reals:
    return np.array([0.5 * v * (1 + math.erf(v * math.sqrt(0.5))) for v in x.tolist()], x.dtype)


def _gelu_tanh(x: Reals) -> Reals:
    inner = x.dtype.type(np.sqrt(2 / np.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
    return np.asarray(x * x.dtype.type(0.5) * (1 + np.tanh(inner)), x.dtype)


def _logistic(x: Reals) -> Reals:
    return (1 / (1 + _nearest(np.exp)(-x))).astype(x.dtype)


@op("LOGISTIC", "TANH", domain=DOMAIN, inputs=1)
def squashed(context: OpKernelContext) -> None:
    """Give the logistic function or tanh; of quantized numbers from a table of all of them."""
    node, name = LiteNode(context), context.node.op
    if not node.is_quantized:
        function = Builder.logistic if name == "LOGISTIC" else Builder.tanh
        node.give(function(node.b, context.input(0)))
    elif node.tensor(0).type == "INT16":
        node.give(lookup.looked_up(node, unary_tables.squashed_16(node, name)))
    else:
        lookup.give_function(node, _logistic if name == "LOGISTIC" else _nearest(np.tanh))


@op("QUANTIZE", domain=DOMAIN, inputs=1)
def quantize(context: OpKernelContext) -> None:
    """Give floats, or numbers of another scale, as numbers of the result's scale."""
    node, given = LiteNode(context), context.input(0)
    if given.element_type.is_floating:
        node.give(quantized.from_floats(node, given))
        return
    quantized.give_scaled(node, quantized.without_zero(node, 0), quantized.ratio(node))


@op("DEQUANTIZE", domain=DOMAIN, inputs=1)
def dequantize(context: OpKernelContext) -> None:
    """Give the floats that numbers stand for."""
    node, b = LiteNode(context), context.builder
    given = node.tensor(0)
    if not len(given.quantization.scales):
        node.give(b.convert(context.input(0), ElementType.F32))
        return
    node.give(quantized.as_floats(node, 0))


@op("CAST", domain=DOMAIN, inputs=1)
def cast(context: OpKernelContext) -> None:
    """Give numbers as another type."""
    node = LiteNode(context)
    node.give(node.cast(context.input(0), node.element_type()))


@op("BITCAST", domain=DOMAIN, inputs=1)
def bitcast(context: OpKernelContext) -> None:
    """Give the bits of numbers as another type, in a last dimension where it is narrower."""
    node = LiteNode(context)
    node.give(node.b.bitcast_convert(context.input(0), node.element_type()))


@op("REAL", "IMAG", "COMPLEX_ABS", domain=DOMAIN, inputs=1)
def parts_of_complex(context: OpKernelContext) -> None:
    """Give the real parts, the imaginary parts or the magnitudes of complex numbers."""
    node, b = LiteNode(context), context.builder
    functions = {"REAL": b.real, "IMAG": b.imag, "COMPLEX_ABS": b.abs}
    node.give(functions[context.node.op](context.input(0)))


@op("FAKE_QUANT", domain=DOMAIN, inputs=1)
def fake_quant(context: OpKernelContext) -> None:
    """Give floats rounded to the numbers that a quantized type would have."""
    node, b = LiteNode(context), context.builder
    least, most, bits = node.real(0, 0.0), node.real(1, 0.0), node.number(2)
    low, high = float(node.code(3) != 0), float((1 << bits) - 1)
    if not most > least or not 2 <= bits <= 16:
        raise node.error(f"{bits} bits from {least} to {most}")
    scale = np.float32((most - least) / (high - low))
    zero = min(max(quantized.rounded(np.float32(low - least / scale)), low), high)
    ends = np.float32((low - zero) * scale), np.float32((high - zero) * scale)
    x = b.minimum(b.maximum(context.input(0), float(ends[0])), float(ends[1]))
    steps = b.floor((x - float(ends[0])) * float(np.float32(1) / scale) + 0.5)
    node.give(steps * float(scale) + float(ends[0]))


@op("BUCKETIZE", domain=DOMAIN, inputs=1)
def bucketize(context: OpKernelContext) -> None:
    """Give for each number how many boundaries, which rise, it is not below."""
    node, b, x = LiteNode(context), context.builder, context.input(0)
    ends = node.reals(0)
    wide = b.broadcast(x, [*x.dimensions, len(ends)], range(x.rank))
    kind = x.element_type if x.element_type.is_floating else ElementType.F32
    above = b.broadcast(b.constant(np.array(ends), kind), wide.dimensions, [x.rank])
    reached = b.convert(node.cast(wide, kind).ge(above), ElementType.S32)
    step = b.scalar_computation(Opcode.ADD, ElementType.S32)
    node.give(b.reduce(reached, b.constant(0, ElementType.S32), step, [x.rank]))
