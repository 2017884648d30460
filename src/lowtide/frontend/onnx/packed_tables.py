"""Ops of com.microsoft whose tables of floats are numbers of a few bits, scaled by blocks."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.graphs.shared.broadcasting import scalar
from lowtide.frontend.graphs.shared.indexing import from_end, take
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.quantization import unpacked
from lowtide.ir.element_type import ElementType

_PREFIX: Final = "com.microsoft."

_FLOATS_OF_4_BITS: Final = np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4], np.float32)
"""The eight sizes of numbers of 4 bits as bitsandbytes has them; with the high bit negative."""

_NORMAL_QUANTILES: Final = np.array(
    [
        *[-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453],
        *[-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0],
        *[0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224],
        *[0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0],
    ],
    np.float32,
)
"""The sixteen numbers of NF4, quantiles of a normal distribution (Dettmers and others, 2023)."""


@op(_PREFIX + "MatMulBnb4", domain=DOMAIN, inputs=3)
def matmul_bnb4(context: OpKernelContext) -> None:
    """Give the product with a matrix of 4 bits a number, scaled by blocks of all its elements."""
    b, x = context.builder, context.input(0)
    k, n, block = [context.attribute(i, integer) for i in ("K", "N", "block_size")]
    kinds = {0: np.concatenate([_FLOATS_OF_4_BITS, -_FLOATS_OF_4_BITS]), 1: _NORMAL_QUANTILES}
    kind = context.attribute("quant_type", integer)
    if kind not in kinds:
        raise context.error(f"quant_type is 0 or 1, not {kind}")
    packed = b.reshape(context.input(1), [-(-k * n // 2), 1])
    shift = b.broadcast(b.constant(4, ElementType.U8), packed.dimensions, [])
    mask = b.broadcast(b.constant(15, ElementType.U8), packed.dimensions, [])
    halves = [b.shift_right_logical(packed, shift), packed & mask]
    codes = b.reshape(b.concatenate(halves, 1), [2 * packed.dimensions[0]])
    values = take(b, b.constant(kinds[kind], x.element_type), codes, 0)
    scales = context.input(2)
    count = scales.shape.element_count
    factor = b.broadcast(b.reshape(scales, [count]), [count, block], [0])
    limit = [k * n]
    factor = b.slice(b.reshape(factor, [count * block]), [0], limit, [1])
    matrix = b.reshape(b.slice(values, [0], limit, [1]) * factor, [n, k])
    if context.attribute("transB", flag, True):
        matrix = b.transpose(matrix, [1, 0])
    context.set_output(0, contraction.matmul(b, x, matrix))


@op(_PREFIX + "GatherBlockQuantized", domain=DOMAIN, inputs=(3, 4))
def gather_block_quantized(context: OpKernelContext) -> None:
    """Give slices of a quantized table as floats; those of places outside of it are 0."""
    b, data, indices = context.builder, context.input(0), context.input(1)
    if data.element_type.is_floating:
        raise context.error("tables of small floats are not supported")
    rank = data.rank
    axis = context.axis(context.attribute("gather_axis", integer, 0), rank)
    blocked = context.axis(context.attribute("quantize_axis", integer, 1), rank)
    places = from_end(b, indices, data.dimensions[axis])
    if axis == blocked:
        whole = _widened(context, _parts(context), blocked)
        context.set_output(0, take(b, whole, places, axis))
        return
    parts = [None if x is None else take(b, x, places, axis) for x in _parts(context)]
    moved = blocked if blocked < axis else blocked + indices.rank - 1
    found = _widened(context, parts, moved)
    inside = places.ge(0) & places.lt(data.dimensions[axis])
    kept = b.broadcast(inside, found.dimensions, [*range(axis, axis + indices.rank)])
    zero = b.broadcast(scalar(b, 0, found), found.dimensions, [])
    context.set_output(0, b.select(kept, found, zero))


def _parts(context: OpKernelContext) -> list[Op | None]:
    """The packed numbers, their scales, and their zero points or None."""
    return [context.input(0), context.input(2), context.optional(3)]


def _widened(context: OpKernelContext, parts: list[Op | None], axis: int) -> Op:
    """The numbers as floats: less their zero points, times their scales, of blocks on an axis."""
    b = context.builder
    packed, scales, zeros = parts
    assert packed is not None
    assert scales is not None
    bits = context.attribute("bits", integer, 4)
    is_packed = packed.element_type is ElementType.U8
    values = unpacked(b, packed, bits) if is_packed else packed
    wide = b.convert(values, scales.element_type)
    n, block = wide.dimensions[axis], context.attribute("block_size", integer, 128)
    if zeros is not None:
        points = unpacked(b, zeros, bits) if is_packed else zeros
        limits = list(scales.dimensions)
        points = b.slice(points, [0] * points.rank, limits, [1] * points.rank)
        wide = wide - _blocks(b, b.convert(points, scales.element_type), axis, block, n)
    elif is_packed:
        wide = wide - float(1 << (bits - 1))
    return wide * _blocks(b, scales, axis, block, n)


def _blocks(b: Builder, x: Op, axis: int, block: int, n: int) -> Op:
    """Each number of x `block` times along an axis, n in all."""
    sizes = [*x.dimensions[: axis + 1], block, *x.dimensions[axis + 1 :]]
    wide = b.broadcast(x, sizes, [i for i in range(len(sizes)) if i != axis + 1])
    count = x.dimensions[axis] * block
    flat = b.reshape(wide, [*x.dimensions[:axis], count, *x.dimensions[axis + 1 :]])
    limits = [n if i == axis else m for i, m in enumerate(flat.dimensions)]
    return flat if count == n else b.slice(flat, [0] * x.rank, limits, [1] * x.rank)
