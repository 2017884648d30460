"""Ops of com.microsoft that quantize floats while they run, and products of what was quantized."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.graphs.shared.broadcasting import along, expand, scalar
from lowtide.frontend.graphs.shared.narrow import saturated
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.quantization import centered
from lowtide.ir.element_type import ElementType

_PREFIX: Final = "com.microsoft."


def dynamically_quantized(b: Builder, x: Op) -> tuple[Op, Op, Op]:
    """Return floats as u8 with their scale and zero point, as DynamicQuantizeLinear has them."""
    axes = [*range(x.rank)]
    zero = scalar(b, 0, x)
    least = b.minimum(reduce(b, "min", x, axes), zero)
    most = b.maximum(reduce(b, "max", x, axes), zero)
    gap = (most - least) / 255.0
    scale = b.select(gap.eq(0), scalar(b, 1, x), gap)
    point = saturated(b, b.round_nearest_even(b.negate(least) / scale), ElementType.U8)
    spread = b.broadcast(scale, x.dimensions, [])
    shift = b.broadcast(b.convert(point, x.element_type), x.dimensions, [])
    found = saturated(b, b.round_nearest_even(x / spread) + shift, ElementType.U8)
    return found, scale, point


def integer_product(
    b: Builder, x: Op, x_zero: Op | None, y: Op, y_zero: Op | None, sums: Op | None = None
) -> Op:
    """Return the product of integers less their zero points, those of y by columns, as f32.

    With the `sums` of the columns of y less its zero points, that of x is one number, which counts
    by them.
    """
    left = centered(b, x, None if sums is not None else x_zero, max(x.rank - 2, 0))
    right = centered(b, y, y_zero, y.rank - 1)
    product = contraction.matmul(b, left, right)
    if sums is not None and x_zero is not None:
        zero = b.convert(b.reshape(x_zero, []), sums.element_type)
        part = sums * b.broadcast(zero, sums.dimensions, [])
        product = product - along(b, part, product.rank - 1, product.dimensions)
    return b.convert(product, ElementType.F32)


def by_columns(b: Builder, scale: Op, like: Op) -> Op:
    """Return a scale for all, or one for each column, in the sizes of a product."""
    if scale.rank == 0 or scale.dimensions == (1,):
        return b.broadcast(b.reshape(scale, []), like.dimensions, [])
    if scale.rank == 1:
        return along(b, scale, like.rank - 1, like.dimensions)
    return expand(b, scale, like.dimensions)


def dynamic_product(
    b: Builder, x: Op, y: Op, scale: Op, zero: Op | None, sums: Op | None = None
) -> Op:
    """Return floats times a quantized matrix: they are quantized as a whole for that.

    `sums` are those of its columns less its zero points, where they are known.
    """
    found, x_scale, x_zero = dynamically_quantized(b, x)
    product = integer_product(b, found, x_zero, y, zero, sums)
    factor = by_columns(b, scale, product) * b.broadcast(x_scale, product.dimensions, [])
    return product * factor


@op(_PREFIX + "DynamicQuantizeMatMul", domain=DOMAIN, inputs=(3, 5))
def dynamic_quantize_matmul(context: OpKernelContext) -> None:
    """Give the product of floats, quantized for that, and a quantized matrix, plus a bias."""
    b = context.builder
    x, y, scale = [context.input(i) for i in range(3)]
    found = dynamic_product(b, x, y, scale, context.optional(3))
    bias = context.optional(4)
    context.set_output(0, found if bias is None else found + expand(b, bias, found.dimensions))


@op(_PREFIX + "MatMulIntegerToFloat", domain=DOMAIN, inputs=(4, 7))
def matmul_integer_to_float(context: OpKernelContext) -> None:
    """Give the product of quantized matrices as floats, plus a bias."""
    b = context.builder
    x, y, x_scale, y_scale = [context.input(i) for i in range(4)]
    product = integer_product(b, x, context.optional(4), y, context.optional(5))
    found = product * (by_columns(b, x_scale, product) * by_columns(b, y_scale, product))
    bias = context.optional(6)
    context.set_output(0, found if bias is None else found + expand(b, bias, found.dimensions))
