"""Operations of networks in NNVM and MXNet, and the shapes of weights that they imply."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import contraction, windows
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.contraction import WindowShape
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.nnvm.attributes import flag, integer, ints, pair, real, text
from lowtide.frontend.nnvm.kernels import DOMAIN
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.element_type import ElementType

_CONVOLUTIONS: Final = ("conv2d", "Convolution")
_DENSE: Final = ("dense", "FullyConnected")
_NORMS: Final = ("batch_norm", "BatchNorm")


def _either(context: OpKernelContext, first: str, second: str) -> str:
    """The one of two names of an attribute that is there, the second if none is."""
    return first if first in context.node.attributes else second


def _window(context: OpKernelContext, sizes: tuple[int, ...]) -> WindowShape:
    strides = pair(context, _either(context, "strides", "stride"), (1, 1))
    dilations = pair(context, _either(context, "dilation", "dilate"), (1, 1))
    around = ints(context, _either(context, "padding", "pad"), (0, 0))
    if len(around) == 4:
        padding = ((around[0], around[2]), (around[1], around[3]))
    else:
        padding = ((around[0],) * 2, (around[-1],) * 2)
    return WindowShape(sizes, strides, dilations, padding)


@op(*_CONVOLUTIONS, domain=DOMAIN, inputs=(2, 3))
def convolution(context: OpKernelContext) -> None:
    """Give a convolution of [n, c, h, w] with filters [o, i, h, w], plus a number per channel."""
    b, x, kernel = context.builder, context.input(0), context.input(1)
    layout = text(context, "layout", "NCHW")
    if layout not in ("NCHW", "None") or x.rank != 4:
        raise context.error(f"layout {layout} of {x.shape}; NCHW is known")
    shape = _window(context, kernel.dimensions[2:])
    groups = integer(context, _either(context, "groups", "num_group"), 1)
    found = contraction.convolve(b, x, kernel, "NCXY", "OIXY", shape, groups)
    bias = context.optional(2)
    if bias is not None:
        found = found + along(b, bias, 1, found.dimensions)
    context.set_output(0, found)


@op(*_DENSE, domain=DOMAIN, inputs=(2, 3))
def dense(context: OpKernelContext) -> None:
    """Give x times the transposed weights, plus a number per row of them."""
    b, x, weights = context.builder, context.input(0), context.input(1)
    if context.node.op == "FullyConnected" and flag(context, "flatten", default=True):
        x = b.reshape(x, [x.dimensions[0], math.prod(x.dimensions[1:])])
    found = b.dot(x, weights, DotDimensions((x.rank - 1,), (1,)))
    bias = context.optional(2)
    if bias is not None:
        found = found + along(b, bias, found.rank - 1, found.dimensions)
    context.set_output(0, found)


@op("matmul", "dot", "batch_dot", "batch_matmul", domain=DOMAIN, inputs=2)
def matmul(context: OpKernelContext) -> None:
    """Give products of matrices, each transposed or not."""
    b = context.builder
    x, y = [
        contraction.swapped(b, context.input(i)) if flag(context, name) else context.input(i)
        for i, name in enumerate(("transpose_a", "transpose_b"))
    ]
    context.set_output(0, contraction.matmul(b, x, y))


_POOLS: Final = {
    "max_pool2d": ("max", False),
    "avg_pool2d": ("avg", False),
    "global_max_pool2d": ("max", True),
    "global_avg_pool2d": ("avg", True),
}


@op("Pooling", *_POOLS, domain=DOMAIN, inputs=1)
def pooling(context: OpKernelContext) -> None:
    """Give the greatest number or the mean of each window of [n, c, h, w]."""
    b, x, name = context.builder, context.input(0), context.node.op
    default = (text(context, "pool_type", "max"), flag(context, "global_pool"))
    kind, is_global = _POOLS.get(name, default)
    if kind not in ("max", "avg"):
        raise context.error(f"pool_type {kind!r} is none of max, avg")
    if is_global:
        shape = WindowShape(x.dimensions[2:4], (1, 1), (1, 1), ((0, 0), (0, 0)))
    else:
        shape = _pool_window(context, x)
    if kind == "max":
        context.set_output(0, windows.max_pool(b, x, (2, 3), shape))
        return
    counts = flag(context, "count_include_pad", default=name == "Pooling")
    context.set_output(0, windows.average_pool(b, x, (2, 3), shape, counts_padding=counts))


def _pool_window(context: OpKernelContext, x: Op) -> WindowShape:
    """The window of a pool; with the convention `full`, or `ceil_mode`, a last part counts too."""
    shape = _window(context, pair(context, _either(context, "pool_size", "kernel")))
    is_full = text(context, "pooling_convention", "valid") == "full" or flag(context, "ceil_mode")
    if not is_full:
        return shape
    padding = []
    for n, size, stride, (low, high) in zip(
        x.dimensions[2:4], shape.sizes, shape.strides, shape.padding, strict=True
    ):
        steps = -(-(n + low + high - size) // stride)
        padding.append((low, high + steps * stride + size - (n + low + high)))
    return WindowShape(shape.sizes, shape.strides, shape.dilations, tuple(padding))


@op(*_NORMS, domain=DOMAIN, inputs=5)
def batch_norm(context: OpKernelContext) -> None:
    """Give numbers by the mean and variance of their channel, which the last inputs are."""
    b, (x, gamma, beta, mean, variance) = context.builder, context.inputs()
    is_mxnet = context.node.op == "BatchNorm"
    epsilon = real(context, _either(context, "epsilon", "eps"), 1e-3 if is_mxnet else 1e-5)
    if flag(context, "fix_gamma", default=is_mxnet):
        gamma = b.broadcast(b.constant(1.0, gamma.element_type), gamma.dimensions, [])
    axis = context.axis(integer(context, "axis", 1), x.rank)
    context.set_output(0, windows.batch_norm(b, x, gamma, beta, mean, variance, epsilon, axis))
    context.set_output(1, mean)
    context.set_output(2, variance)


@op("Embedding", domain=DOMAIN, inputs=2)
def embedding(context: OpKernelContext) -> None:
    """Give rows of a table by their numbers."""
    b = context.builder
    places = b.convert(context.input(0), ElementType.S32)
    context.set_output(0, take(b, context.input(1), places, 0))


# -- shapes of weights -----------------------------------------------------------------------------

Sizes: TypeAlias = tuple[int, ...]
Rule: TypeAlias = Callable[[OpKernelContext, Sizes], list[Sizes]]
"""Gives the shapes of all inputs but the first, of the first one's."""


def _of_convolution(context: OpKernelContext, x: Sizes) -> list[Sizes]:
    out = integer(context, _either(context, "channels", "num_filter"))
    groups = integer(context, _either(context, "groups", "num_group"), 1)
    kernel = pair(context, _either(context, "kernel_size", "kernel"))
    return [(out, x[1] // max(groups, 1), *kernel), (out,)]


def _of_dense(context: OpKernelContext, x: Sizes) -> list[Sizes]:
    rows = integer(context, _either(context, "units", "num_hidden"))
    is_flat = context.node.op == "FullyConnected" and flag(context, "flatten", default=True)
    return [(rows, math.prod(x[1:]) if is_flat else x[-1]), (rows,)]


def _of_norm(context: OpKernelContext, x: Sizes) -> list[Sizes]:
    return [(x[integer(context, "axis", 1)],)] * 4


def _of_embedding(context: OpKernelContext, x: Sizes) -> list[Sizes]:
    return [(integer(context, "input_dim"), integer(context, "output_dim"))]


def _of_labels(context: OpKernelContext, x: Sizes) -> list[Sizes]:
    return [x[:1]]


WEIGHTS: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_CONVOLUTIONS, _of_convolution),
    **dict.fromkeys(_DENSE, _of_dense),
    **dict.fromkeys(_NORMS, _of_norm),
    "Embedding": _of_embedding,
    "SoftmaxOutput": _of_labels,
    "Softmax": _of_labels,
}
"""Operations whose weights have shapes that follow from the operand's and from attributes."""
