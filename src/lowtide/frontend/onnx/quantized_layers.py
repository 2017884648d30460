"""Ops of com.microsoft on quantized numbers: sums, activations, pools and fused products."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, elementwise
from lowtide.frontend.graphs.shared.broadcasting import along, expand, together
from lowtide.frontend.graphs.shared.narrow import saturated
from lowtide.frontend.graphs.shared.reductions import mean, softmax
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.quantization import centered, dequantize_linear, quantize_linear
from lowtide.ir.element_type import ElementType

_PREFIX: Final = "com.microsoft."

op(_PREFIX + "QuantizeLinear", domain=DOMAIN, inputs=(2, 3))(quantize_linear)
op(_PREFIX + "DequantizeLinear", domain=DOMAIN, inputs=(2, 3))(dequantize_linear)


def _one(b: Builder, value: Op, like: Op) -> Op:
    """A scale or zero point for all, as floats in the sizes of another value."""
    wide = b.convert(b.reshape(value, []), ElementType.F32)
    return b.broadcast(wide, like.dimensions, [])


def dequantized(b: Builder, x: Op, scale: Op, zero: Op | None) -> Op:
    """Return (x - zero) * scale, of one scale, as f32."""
    value = b.convert(centered(b, x, zero, 0), ElementType.F32)
    return value * _one(b, scale, value)


def requantized(b: Builder, value: Op, scale: Op, zero: Op | None, kind: ElementType) -> Op:
    """Return floats divided by a scale and rounded, plus a zero point, within the type's range."""
    found = b.round_nearest_even(value / _one(b, scale, value))
    if zero is not None:
        found = found + _one(b, zero, found)
    return saturated(b, found, kind)


def _input(context: OpKernelContext, first: int) -> Op:
    """Inputs `first` to `first + 2`, a value, its scale and zero point, as floats."""
    b = context.builder
    return dequantized(
        b, context.input(first), context.input(first + 1), context.optional(first + 2)
    )


def _output(context: OpKernelContext, value: Op, scale: int) -> None:
    kind = context.input(0).element_type
    found = requantized(
        context.builder, value, context.input(scale), context.optional(scale + 1), kind
    )
    context.set_output(0, found)


@op(_PREFIX + "QLinearAdd", _PREFIX + "QLinearMul", domain=DOMAIN, inputs=(7, 8))
def q_linear_binary(context: OpKernelContext) -> None:
    """Give the sum or the product of quantized numbers, quantized."""
    x, y = together(context.builder, [_input(context, i) for i in (0, 3)])
    _output(context, x + y if context.node.op.endswith("Add") else x * y, 6)


@op(_PREFIX + "QLinearSigmoid", domain=DOMAIN, inputs=(4, 5))
def q_linear_sigmoid(context: OpKernelContext) -> None:
    """Give the logistic function of quantized numbers, quantized."""
    _output(context, context.builder.logistic(_input(context, 0)), 3)


@op(_PREFIX + "QLinearLeakyRelu", domain=DOMAIN, inputs=(4, 5))
def q_linear_leaky_relu(context: OpKernelContext) -> None:
    """Give quantized numbers, those below 0 times alpha, quantized."""
    alpha = context.attribute("alpha", real, 0.01)
    _output(context, elementwise.leaky_relu(context.builder, _input(context, 0), alpha), 3)


@op(_PREFIX + "QLinearSoftmax", domain=DOMAIN, inputs=5)
def q_linear_softmax(context: OpKernelContext) -> None:
    """Give softmax of quantized numbers, quantized; before opset 13 over all later dimensions."""
    b, x = context.builder, _input(context, 0)
    axis = context.axis(context.attribute("axis", integer, -1), x.rank)
    is_new = context.attribute("opset", integer, 13) >= 13
    _output(context, softmax(b, x, [axis] if is_new else [*range(axis, x.rank)]), 3)


@op(_PREFIX + "QLinearGlobalAveragePool", domain=DOMAIN, inputs=5)
def q_linear_global_average_pool(context: OpKernelContext) -> None:
    """Give the mean of each channel of quantized images, quantized."""
    x = _input(context, 0)
    is_last = context.attribute("channels_last", flag, False)
    axes = [*range(1, x.rank - 1)] if is_last else [*range(2, x.rank)]
    _output(context, mean(context.builder, x, axes, keep=True), 3)


@op(_PREFIX + "QLinearConcat", domain=DOMAIN, inputs=(5, 1 << 30))
def q_linear_concat(context: OpKernelContext) -> None:
    """Give quantized arrays one after the other, quantized anew by the first two inputs."""
    b = context.builder
    scale, zero = context.input(0), context.input(1)
    parts = [
        requantized(b, _input(context, i), scale, zero, zero.element_type)
        for i in range(2, context.input_count, 3)
    ]
    axis = context.axis(context.attribute("axis", integer), parts[0].rank)
    context.set_output(0, b.concatenate(parts, axis))


@op(_PREFIX + "QGemm", domain=DOMAIN, inputs=(6, 9))
def q_gemm(context: OpKernelContext) -> None:
    """Give alpha A B + C of quantized matrices: as floats, or quantized where a scale is given."""
    b = context.builder
    x, y = [
        contraction.swapped(b, value) if context.attribute(name, flag, False) else value
        for value, name in ((context.input(0), "transA"), (context.input(3), "transB"))
    ]
    product = b.matmul(
        centered(b, x, context.optional(2), 0), centered(b, y, context.optional(5), y.rank - 1)
    )
    bias = context.optional(6)
    if bias is not None:
        product = product + expand(b, bias, product.dimensions)
    value = b.convert(product, ElementType.F32) * context.attribute("alpha", real, 1.0)
    value = value * (_one(b, context.input(1), value) * _columns(b, context.input(4), value))
    if not context.has_input(7):
        context.set_output(0, value)
        return
    _output(context, value, 7)


def _columns(b: Builder, scale: Op, like: Op) -> Op:
    if scale.rank == 0 or scale.dimensions == (1,):
        return _one(b, scale, like)
    return along(b, scale, 1, like.dimensions)
