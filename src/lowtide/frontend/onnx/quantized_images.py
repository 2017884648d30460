"""Ops of com.microsoft on quantized images, whose channels may be their last dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import together
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.pooling import averaged, greatest
from lowtide.frontend.onnx.quantization import quantized_convolution
from lowtide.frontend.onnx.quantized_layers import dequantized, requantized

_PREFIX: Final = "com.microsoft."


def _channels_second(b: Builder, x: Op, work: Callable[[Op], Op], *, is_last: bool) -> Op:
    """What `work` makes of images, whose channels are the second dimension there."""
    if not is_last:
        return work(x)
    rank = x.rank
    found = work(b.transpose(x, [0, rank - 1, *range(1, rank - 1)]))
    return b.transpose(found, [0, *range(2, rank), 1])


@op(_PREFIX + "QLinearConv", domain=DOMAIN, inputs=(8, 9))
def q_linear_conv(context: OpKernelContext) -> None:
    """Give the convolution of quantized images, quantized."""
    is_last = context.attribute("channels_last", flag, False)
    found = _channels_second(
        context.builder,
        context.input(0),
        lambda x: quantized_convolution(context, x),
        is_last=is_last,
    )
    context.set_output(0, found)


@op(_PREFIX + "QLinearAveragePool", domain=DOMAIN, inputs=(4, 5))
def q_linear_average_pool(context: OpKernelContext) -> None:
    """Give the mean of each window of quantized images, quantized."""
    b, image = context.builder, context.input(0)
    scale, zero, new_scale = context.input(1), context.optional(2), context.input(3)

    def work(x: Op) -> Op:
        mean = averaged(context, dequantized(b, x, scale, zero))
        return requantized(b, mean, new_scale, context.optional(4), image.element_type)

    is_last = context.attribute("channels_last", flag, False)
    context.set_output(0, _channels_second(b, image, work, is_last=is_last))


@op(_PREFIX + "NhwcMaxPool", domain=DOMAIN, inputs=1)
def max_pool(context: OpKernelContext) -> None:
    """Give the greatest element of each window; channels are the last dimension."""
    found = _channels_second(
        context.builder, context.input(0), lambda x: greatest(context, x), is_last=True
    )
    context.set_output(0, found)


@op(_PREFIX + "QLinearWhere", domain=DOMAIN, inputs=9)
def q_linear_where(context: OpKernelContext) -> None:
    """Give quantized numbers of one input where a condition holds, else of the other."""
    b, kind = context.builder, context.input(1).element_type
    parts = [
        requantized(
            b,
            dequantized(b, *[context.input(i + n) for n in range(3)]),
            context.input(7),
            context.input(8),
            kind,
        )
        for i in (1, 4)
    ]
    context.set_output(0, b.select(*together(b, [context.input(0), *parts])))
