"""Ops of ONNX on quantized numbers: x stands for (x - zero point) * scale."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from lowtide.builder import Builder, BuildError, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.narrow import saturated
from lowtide.frontend.onnx.networks import convolved
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir.element_type import ElementType

_WIDE: Final = ElementType.S32

_MOST_FLOAT_BITS: Final = 8
"""The widest float that a number is quantized to."""

_NARROW: Final = "the zero point has the type of results: integers or floats of at most 8 bits"


def spread(context: OpKernelContext, value: Op, x: Op) -> Op:
    """Return a scale or zero point in the sizes of x: for all, for each slice or each block."""
    b = context.builder
    axis = context.attribute("axis", integer, 1)
    block = context.attribute("block_size", integer, 0)
    if value.rank == 0 or value.dimensions == (1,):
        return b.broadcast(b.reshape(value, []), x.dimensions, [])
    axis = context.axis(axis, x.rank)
    if value.rank == 1 and not block:
        return along(b, value, axis, x.dimensions)
    n = x.dimensions[axis]
    count = value.dimensions[axis]
    block = block or -(-n // count)
    sizes = [*value.dimensions[: axis + 1], block, *value.dimensions[axis + 1 :]]
    wide = b.broadcast(value, sizes, [i for i in range(len(sizes)) if i != axis + 1])
    wide = b.reshape(wide, [*value.dimensions[:axis], count * block, *value.dimensions[axis + 1 :]])
    limits = [n if i == axis else m for i, m in enumerate(wide.dimensions)]
    return wide if count * block == n else b.slice(wide, [0] * x.rank, limits, [1] * x.rank)


@op("QuantizeLinear", domain=DOMAIN, inputs=(2, 3))
def quantize_linear(context: OpKernelContext) -> None:
    """Give x / scale rounded, plus the zero point, within the range of the type."""
    b, x, scale = context.builder, context.input(0), context.input(1)
    zero = context.optional(2)
    usual = ElementType.U8 if zero is None else zero.element_type
    if usual.is_floating and usual.bits > _MOST_FLOAT_BITS:
        raise context.error(f"{_NARROW}, found {usual.value}")
    target = context.attribute("output_dtype", integer, 0)
    kind = usual if not target else context.element_type("output_dtype")
    precision = context.attribute("precision", integer, 0)
    wide = context.element_type("precision") if precision else scale.element_type
    value = b.convert(x, wide) / spread(context, b.convert(scale, wide), x)
    context.set_output(0, _quantized(context, value, zero, kind, x))


def _quantized(
    context: OpKernelContext, value: Op, zero: Op | None, kind: ElementType, x: Op
) -> Op:
    b = context.builder
    if not kind.is_integer:
        if context.attribute("saturate", flag, True):
            return saturated(b, value, kind)
        return b.convert(value, kind)
    value = b.round_nearest_even(b.convert(value, ElementType.F32))
    if zero is not None:
        value = value + spread(context, b.convert(zero, ElementType.F32), x)
    return saturated(b, value, kind)


@op("DequantizeLinear", domain=DOMAIN, inputs=(2, 3))
def dequantize_linear(context: OpKernelContext) -> None:
    """Give (x - zero point) * scale."""
    b, x, scale = context.builder, context.input(0), context.input(1)
    kind = scale.element_type
    if context.attribute("output_dtype", integer, 0):
        kind = context.element_type("output_dtype")
    value = b.convert(x, _WIDE if x.element_type.is_integer else ElementType.F32)
    zero = context.optional(2)
    if zero is not None and x.element_type.is_integer:
        value = value - spread(context, b.convert(zero, _WIDE), x)
    factor = spread(context, b.convert(scale, ElementType.F32), x)
    context.set_output(0, b.convert(b.convert(value, ElementType.F32) * factor, kind))


def _require_integers(value: Op, what: str) -> None:
    if not value.element_type.is_integer:
        raise BuildError(f"{what} has to be of integers, found {value.element_type.value}")


def centered(b: Builder, x: Op, zero: Op | None, axis: int) -> Op:
    """Return x minus a zero point, for all or for each slice along `axis`, as 32-bit numbers.

    Raises BuildError where one of them is no integer: as an integer it would lose its fraction.
    """
    _require_integers(x, "a quantized value")
    wide = b.convert(x, _WIDE)
    if zero is None:
        return wide
    _require_integers(zero, "a zero point")
    zero = b.convert(zero, _WIDE)
    if zero.rank == 0 or zero.dimensions == (1,):
        return wide - b.broadcast(b.reshape(zero, []), x.dimensions, [])
    return wide - (
        along(b, zero, axis, x.dimensions) if zero.rank == 1 else expand(b, zero, x.dimensions)
    )


@op("MatMulInteger", domain=DOMAIN, inputs=(2, 4))
def matmul_integer(context: OpKernelContext) -> None:
    """Give the product of integers as 32-bit ones."""
    b, x, y = context.builder, context.input(0), context.input(1)
    left = centered(b, x, context.optional(2), max(x.rank - 2, 0))
    right = centered(b, y, context.optional(3), y.rank - 1)
    context.set_output(0, contraction.matmul(b, left, right))


@op("QLinearMatMul", domain=DOMAIN, inputs=8)
def q_linear_matmul(context: OpKernelContext) -> None:
    """Give the product of quantized matrices, quantized."""
    b = context.builder
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = context.inputs()
    left = centered(b, x, x_zero, max(x.rank - 2, 0))
    right = centered(b, y, y_zero, y.rank - 1)
    product = b.convert(contraction.matmul(b, left, right), ElementType.F32)
    factor = [b.convert(s, ElementType.F32) for s in (x_scale, y_scale, scale)]
    rows = _as_slices(b, factor[0], product, product.rank - 2)
    columns = _as_slices(b, factor[1], product, product.rank - 1)
    value = product * (rows * columns / _as_slices(b, factor[2], product, product.rank - 2))
    context.set_output(0, _requantized(b, value, zero))


def _as_slices(b: Builder, scale: Op, x: Op, axis: int) -> Op:
    if scale.rank == 0 or scale.dimensions == (1,):
        return b.broadcast(b.reshape(scale, []), x.dimensions, [])
    return (
        along(b, scale, axis, x.dimensions) if scale.rank == 1 else expand(b, scale, x.dimensions)
    )


def _requantized(b: Builder, value: Op, zero: Op) -> Op:
    value = b.round_nearest_even(value)
    shift = b.broadcast(b.reshape(b.convert(zero, ElementType.F32), []), value.dimensions, [])
    return saturated(b, value + shift, zero.element_type)


@op("ConvInteger", domain=DOMAIN, inputs=(2, 4))
def conv_integer(context: OpKernelContext) -> None:
    """Give the convolution of integers as 32-bit ones."""
    b = context.builder
    x = centered(b, context.input(0), context.optional(2), 1)
    kernel = centered(b, context.input(1), context.optional(3), 0)
    context.set_output(0, convolved(context, x, kernel))


@op("QLinearConv", domain=DOMAIN, inputs=(8, 9))
def q_linear_conv(context: OpKernelContext) -> None:
    """Give the convolution of quantized images, quantized; kernels have scales by channel."""
    context.set_output(0, quantized_convolution(context, context.input(0)))


def quantized_convolution(context: OpKernelContext, image: Op) -> Op:
    """Return the convolution of a quantized image, the inputs behind it as QLinearConv has them."""
    b = context.builder
    x = centered(b, image, context.input(2), 1)
    kernel = centered(b, context.input(3), context.input(5), 0)
    result = convolved(context, x, kernel)
    if context.has_input(8):
        result = result + along(b, context.input(8), 1, result.dimensions)
    value = b.convert(result, ElementType.F32)
    scales = [_as_slices(b, context.input(i), value, 1) for i in (1, 4, 6)]
    return _requantized(b, value * (scales[0] * scales[1] / scales[2]), context.input(7))


@op("com.microsoft.MatMulNBits", domain=DOMAIN, inputs=(3, 6))
def matmul_n_bits(context: OpKernelContext) -> None:
    """Give the product with a matrix of packed small numbers, scaled by blocks of its rows."""
    b, x = context.builder, context.input(0)
    k, n, block = [context.attribute(i, integer) for i in ("K", "N", "block_size")]
    bits = context.attribute("bits", integer, 4)
    if bits not in (2, 4, 8):
        raise context.error(f"bits are 2, 4 or 8, not {bits}")
    count, parts = -(-k // block), 8 // bits
    values = _by_parts(b, b.reshape(context.input(1), [n, count, block // parts]), bits)
    scales = b.reshape(context.input(2), [n, count])
    zeros = _zero_points(context, n, count, bits, scales)
    wide = b.convert(values, scales.element_type)
    shifted = wide - b.broadcast(zeros, wide.dimensions, [0, 1])
    matrix = b.reshape(shifted * b.broadcast(scales, wide.dimensions, [0, 1]), [n, count * block])
    rows = _columns_by_parts(b, x, [count, block // parts, parts])
    result = contraction.matmul(b, rows, b.transpose(matrix, [1, 0]))
    bias = context.optional(5)
    context.set_output(0, result if bias is None else result + expand(b, bias, result.dimensions))


def _by_parts(b: Builder, packed: Op, bits: int) -> Op:
    """Return the numbers in bytes [rows, blocks, bytes] as [rows, blocks, parts, bytes].

    Those in low bits come first. So neighbours come from neighbouring bytes: what reads them takes
    bytes as they lie, where it would have to take each one several times to have them in order.
    """
    parts = 8 // bits
    rows, blocks, nbytes = packed.dimensions
    sizes = [rows, blocks, parts, nbytes]
    wide = b.broadcast(packed, sizes, [0, 1, 3])
    if parts == 1:
        return wide
    shifts = b.broadcast(b.constant(np.arange(0, 8, bits, dtype=np.uint8)), sizes, [2])
    mask = b.broadcast(b.constant((1 << bits) - 1, ElementType.U8), sizes, [])
    return b.shift_right_logical(wide, shifts) & mask


def _columns_by_parts(b: Builder, x: Op, order: list[int]) -> Op:
    """Return the columns of x, with zeros behind them, in the order of `_by_parts`.

    `order` has the blocks, the bytes of each, and the parts of a byte.
    """
    *outer, k = x.dimensions
    size = prod(order)
    if size != k:
        x = b.pad(x, b.constant(0, x.element_type), [*[(0, 0)] * len(outer), (0, size - k)])
    cut = b.reshape(x, [*outer, *order])
    rank = len(outer)
    turned = b.transpose(cut, [*range(rank), rank, rank + 2, rank + 1])
    return b.reshape(turned, [*outer, size])


def unpacked(b: Builder, packed: Op, bits: int) -> Op:
    """Return the numbers in bytes [..., n], those in low bits first, side by side."""
    if bits == 8:
        return packed
    parts = 8 // bits
    wide = b.broadcast(packed, [*packed.dimensions, parts], range(packed.rank))
    shifts = b.constant(np.arange(0, 8, bits, dtype=np.uint8))
    moved = b.shift_right_logical(wide, b.broadcast(shifts, wide.dimensions, [packed.rank]))
    mask = b.broadcast(b.constant((1 << bits) - 1, ElementType.U8), wide.dimensions, [])
    return b.reshape(moved & mask, [*packed.dimensions[:-1], packed.dimensions[-1] * parts])


def _zero_points(context: OpKernelContext, n: int, count: int, bits: int, scales: Op) -> Op:
    b, given = context.builder, context.optional(3)
    if given is None:
        middle = b.constant(1 << (bits - 1), scales.element_type)
        return b.broadcast(middle, [n, count], [])
    if given.element_type is not ElementType.U8:
        return b.reshape(given, [n, count])
    width = -(-count * bits // 8)
    found = unpacked(b, b.reshape(given, [n, width]), bits)
    return b.convert(b.slice(found, [0, 0], [n, count], [1, 1]), scales.element_type)
