"""Ops of com.microsoft that exporters write: fused layers and attention."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, real
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, elementwise, windows
from lowtide.frontend.graphs.shared.broadcasting import expand
from lowtide.frontend.graphs.shared.reductions import mean
from lowtide.frontend.onnx.node_list import DOMAIN

_PREFIX: Final = "com.microsoft."


@op(_PREFIX + "Gelu", domain=DOMAIN, inputs=1)
def gelu(context: OpKernelContext) -> None:
    """Give x Phi(x)."""
    context.set_output(0, elementwise.gelu(context.builder, context.input(0)))


@op(_PREFIX + "FastGelu", domain=DOMAIN, inputs=(1, 2))
def fast_gelu(context: OpKernelContext) -> None:
    """Give the approximation of gelu by tanh, of the input plus a bias."""
    context.set_output(0, elementwise.gelu_tanh(context.builder, _biased(context, 0, 1)))


@op(_PREFIX + "BiasGelu", domain=DOMAIN, inputs=2)
def bias_gelu(context: OpKernelContext) -> None:
    """Give gelu of the input plus a bias."""
    context.set_output(0, elementwise.gelu(context.builder, _biased(context, 0, 1)))


@op(_PREFIX + "QuickGelu", domain=DOMAIN, inputs=1)
def quick_gelu(context: OpKernelContext) -> None:
    """Give x sigmoid(alpha x)."""
    x = context.input(0)
    alpha = context.attribute("alpha", real, 1.702)
    context.set_output(0, x * context.builder.logistic(x * alpha))


def _biased(context: OpKernelContext, number: int, bias: int) -> Op:
    x, added = context.input(number), context.optional(bias)
    return x if added is None else x + expand(context.builder, added, x.dimensions)


@op(_PREFIX + "FusedMatMul", _PREFIX + "TransposeMatMul", domain=DOMAIN, inputs=2)
def fused_matmul(context: OpKernelContext) -> None:
    """Give alpha times the product of matrices, transposed or not."""
    b = context.builder
    values = []
    for i, letter in enumerate("AB"):
        x = context.input(i)
        if context.attribute(f"transBatch{letter}", flag, False) and x.rank > 2:
            x = b.transpose(x, [*range(1, x.rank - 1), 0, x.rank - 1])
        is_swapped = context.attribute(f"trans{letter}", flag, False)
        values.append(contraction.swapped(b, x) if is_swapped and x.rank > 1 else x)
    product = contraction.matmul(b, *values)
    context.set_output(0, product * context.attribute("alpha", real, 1.0))


@op(
    _PREFIX + "SkipLayerNormalization",
    _PREFIX + "SkipSimplifiedLayerNormalization",
    domain=DOMAIN,
    inputs=(3, 5),
)
def skip_layer_normalization(context: OpKernelContext) -> None:
    """Give the sum of two inputs normalized along the last dimension; the sum is output 3."""
    b = context.builder
    is_simple = "Simplified" in context.node.op
    total = _biased(context, 0, 1)
    bias = context.optional(3 if is_simple else 4)
    if bias is not None:
        total = total + expand(b, bias, total.dimensions)
    epsilon = context.attribute("epsilon", real, 1e-12)
    axes = [total.rank - 1]
    if is_simple:
        square = mean(b, total * total, axes, keep=True)
        center, inverse = square, b.rsqrt(square + epsilon)
        result = total * inverse
    else:
        result, center, inverse = windows.normalized(b, total, axes, epsilon)
    offset = None if is_simple else context.optional(3)
    context.set_outputs(
        [windows.scaled(b, result, context.input(2), offset), center, inverse, total]
    )
