"""Transposed convolutions: each number is spread over a window of the result."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction
from lowtide.frontend.graphs.shared.broadcasting import along, expand
from lowtide.frontend.graphs.shared.contraction import WindowShape, same_padding
from lowtide.frontend.tflite import hybrid, quantized
from lowtide.frontend.tflite.networks import floats, give_sums, sizes_of, with_bias
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir.element_type import ElementType

_SAME, _VALID = 0, 1
_CUSTOM_SAME: Final = 1
"""The code of padding in the options of the custom operator."""


def _window(
    node: LiteNode, result: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> WindowShape:
    """How the window of the convolution moves whose transposed one is wanted."""
    padding = node.code(0)
    if padding not in (_SAME, _VALID) or min(strides) < 1:
        raise node.error(f"padding {padding}, strides {list(strides)}")
    ones = (1,) * len(sizes)
    found = [(0, 0)] * len(sizes)
    if padding == _SAME:
        found = [same_padding(*x) for x in zip(result, sizes, strides, ones, strict=True)]
    return WindowShape(tuple(sizes), tuple(strides), ones, tuple(found))


def _spread(node: LiteNode, x: Op, kernel: Op, layouts: tuple[str, str], shape: WindowShape) -> Op:
    return contraction.convolve_transposed(node.b, x, kernel, *layouts, shape)


def _fitted(node: LiteNode, found: Op, sizes: Sequence[int]) -> Op:
    """A result of exactly the sizes asked for: what no window reaches is 0."""
    widths = [(0, n - k) for n, k in zip(sizes, found.dimensions, strict=True)]
    if not any(high for _, high in widths):
        return found
    return node.b.pad(found, node.b.constant(0, found.element_type), widths)


@op("TRANSPOSE_CONV", domain=DOMAIN, inputs=(3, 4))
def transpose_conv(context: OpKernelContext) -> None:
    """Give an image of the sizes in input 0, of weights [o, h, w, i] and an image in input 2."""
    node, b = LiteNode(context), context.builder
    sizes, filters = context.ints(0), sizes_of(node, 1, 4)
    activation = node.activation(3)
    strides = (node.number(2), node.number(1))
    shape = _window(node, sizes[1:3], filters[1:3], strides)
    given, weights = node.tensor(2), node.tensor(1)
    is_quantized = given.type != "FLOAT32" and len(given.quantization.scales) > 0
    if not is_quantized:
        if weights.type in hybrid.WEIGHTS:
            found = _hybrid(node, shape)
        else:
            found = _spread(node, context.input(2), floats(node, 1), ("NXYC", "OXYI"), shape)
        node.give(with_bias(node, _fitted(node, found, sizes), 3), activation)
        return
    wide = ElementType.S64 if given.type == "INT16" else ElementType.S32
    x = b.convert(context.input(2), wide) - quantized.zero_of(given)
    kernel = b.convert(context.input(1), wide) - quantized.zero_of(weights)
    found = _fitted(node, _spread(node, x, kernel, ("NXYC", "OXYI"), shape), sizes)
    factors = quantized.channel_factors(node, weights, 2)
    give_sums(node, with_bias(node, found, 3), factors, activation)


def _hybrid(node: LiteNode, shape: WindowShape) -> Op:
    """Floats spread by 8-bit weights: each entry of the batch has a scale and a zero point."""
    b, kernel = node.b, hybrid.weights(node, 1)
    rows = hybrid.asymmetric(b, node.context.input(2), [1, 2, 3])
    assert rows.zeros is not None
    wide = ElementType.S32
    x = b.convert(rows.numbers, wide)
    x = x - expand(b, rows.zeros, x.dimensions)
    sums = _spread(node, x, b.convert(kernel, wide), ("NXYC", "OXYI"), shape)
    known = hybrid.weight_scales(node, node.tensor(1), kernel.dimensions[0])
    scales = along(b, b.constant(np.array(known, np.float32)), 3, sums.dimensions)
    return b.convert(sums, ElementType.F32) * (expand(b, rows.scales, sums.dimensions) * scales)


@op("CONV_3D_TRANSPOSE", domain=DOMAIN, inputs=(3, 4))
def conv_3d_transpose(context: OpKernelContext) -> None:
    """Give a volume of the sizes in input 0, of weights [d, h, w, o, i] and one in input 2."""
    node = LiteNode(context)
    sizes, filters = context.ints(0), sizes_of(node, 1, 5)
    strides = (node.number(1), node.number(3), node.number(2))
    shape = _window(node, sizes[1:4], filters[:3], strides)
    found = _spread(node, context.input(2), context.input(1), ("NXYZC", "XYZOI"), shape)
    node.give(with_bias(node, _fitted(node, found, sizes), 3), node.activation(4))


@op("CUSTOM:Convolution2DTransposeBias", domain=DOMAIN, inputs=3)
def convolution_transposed_with_bias(context: OpKernelContext) -> None:
    """Give an image spread by weights [o, h, w, i], plus a number per channel.

    The options are three numbers of 32 bits: padding (1: same), the strides along width and height.
    """
    node = LiteNode(context)
    if len(node.custom_options) < 12:
        raise node.error(f"options of {len(node.custom_options)} bytes; 12 are expected")
    padding, width, height = struct.unpack_from("<iii", node.custom_options)
    image, filters = sizes_of(node, 0, 4), sizes_of(node, 1, 4)
    strides = (height, width)
    if padding not in (0, 1, 2) or min(strides) < 1:
        raise node.error(f"padding {padding}, strides {list(strides)}")
    around = []
    for n, size, stride in zip(image[1:3], filters[1:3], strides, strict=True):
        total = max(0, size - (n - 1) % stride - 1) if padding == _CUSTOM_SAME else 0
        around.append((total // 2, total - total // 2))
    shape = WindowShape(filters[1:3], strides, (1, 1), tuple(around))
    found = _spread(node, context.input(0), floats(node, 1), ("NXYC", "OXYI"), shape)
    node.give(with_bias(node, found))
